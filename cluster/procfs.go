package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// proc finds the container's process on its node and returns its folder below /proc there.
func (c *kindCluster) proc(ctx context.Context, node, namespace, pod string) (fs.FS, error) {
	out, err := c.engine.run(ctx, "exec", node, "crictl", "ps", "-o", "json",
		"--label", "io.kubernetes.pod.name="+pod, "--label", "io.kubernetes.pod.namespace="+namespace)
	if err != nil {
		return nil, fmt.Errorf("find the subject's process: %w", err)
	}
	var list struct{ Containers []struct{ ID string } }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("find the subject's process: crictl ps: %w", err)
	}
	if len(list.Containers) != 1 {
		return nil, fmt.Errorf("find the subject's process: crictl lists %d containers of pod %s", len(list.Containers), pod)
	}
	out, err = c.engine.run(ctx, "exec", node, "crictl", "inspect", list.Containers[0].ID)
	if err != nil {
		return nil, fmt.Errorf("find the subject's process: %w", err)
	}
	var inspected struct{ Info struct{ Pid int } }
	if err := json.Unmarshal([]byte(out), &inspected); err != nil {
		return nil, fmt.Errorf("find the subject's process: crictl inspect: %w", err)
	}
	if inspected.Info.Pid <= 0 {
		return nil, errors.New("find the subject's process: crictl names no pid")
	}
	return &procFS{engine: c.engine, node: node, dir: fmt.Sprintf("/proc/%d", inspected.Info.Pid)}, nil
}

// procFS is a folder below /proc of a node, read through the engine: it works as well where the engine
// runs in a virtual machine.
type procFS struct {
	engine    engine
	node, dir string
}

var (
	_ fs.ReadFileFS = (*procFS)(nil)
	_ fs.ReadDirFS  = (*procFS)(nil)
)

func (p *procFS) exec(name string, command ...string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	args := append([]string{"exec", p.node}, command...)
	return p.engine.run(ctx, append(args, path.Join(p.dir, name))...)
}

// ReadFile reads a file.
func (p *procFS) ReadFile(name string) ([]byte, error) {
	out, err := p.exec(name, "cat")
	return []byte(out), err
}

// ReadDir lists a folder; the entries have names and nothing else.
func (p *procFS) ReadDir(name string) ([]fs.DirEntry, error) {
	out, err := p.exec(name, "ls", "-1")
	if err != nil {
		return nil, err
	}
	var entries []fs.DirEntry
	for entry := range strings.FieldsSeq(out) {
		entries = append(entries, fs.FileInfoToDirEntry(procEntry{name: entry}))
	}
	return entries, nil
}

// Open reads a file whole.
func (p *procFS) Open(name string) (fs.File, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &procFile{procEntry{name: path.Base(name), size: int64(len(data))}, bytes.NewReader(data)}, nil
}

type procFile struct {
	entry procEntry
	*bytes.Reader
}

func (f *procFile) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *procFile) Close() error               { return nil }

type procEntry struct {
	name string
	size int64
}

func (e procEntry) Name() string     { return e.name }
func (e procEntry) Size() int64      { return e.size }
func (procEntry) Mode() fs.FileMode  { return 0o444 }
func (procEntry) ModTime() time.Time { return time.Time{} }
func (procEntry) IsDir() bool        { return false }
func (procEntry) Sys() any           { return nil }
