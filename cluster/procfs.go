package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// proc finds the container's process on its node and returns its folder below /proc there.
func (c *kindCluster) proc(ctx context.Context, node, namespace, pod string) (fs.FS, error) {
	// One call of the engine for both: each takes a tenth of a second.
	out, err := c.engine.run(ctx, "exec", node, "sh", "-c",
		`crictl inspect -o go-template --template '{{.info.pid}}' $(crictl ps -q --label "$1" --label "$2")`, "sh",
		"io.kubernetes.pod.name="+pod, "io.kubernetes.pod.namespace="+namespace)
	if err != nil {
		return nil, fmt.Errorf("find the subject's process: %w", err)
	}
	pid, err := strconv.Atoi(out)
	if err != nil || pid <= 0 {
		return nil, fmt.Errorf("find the subject's process: crictl names the pid %q of pod %s", out, pod)
	}
	return c.procOf(ctx, node, pid)
}

// procOf is the folder of a process below /proc of a node.
func (c *kindCluster) procOf(ctx context.Context, node string, pid int) (fs.FS, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	if here, err := c.procHere(ctx, node, dir); err == nil {
		return here, nil
	}
	return &procFS{engine: c.engine, node: node, dir: dir}, nil
}

// procHere is a folder below a node's /proc as this machine sees it: where the engine runs on the same
// kernel and we may look, this is a thousand times faster than through the engine.
func (c *kindCluster) procHere(ctx context.Context, node, dir string) (fs.FS, error) {
	out, err := c.engine.run(ctx, "inspect", "-f", "{{.State.Pid}}", node)
	if err != nil {
		return nil, err
	}
	here := os.DirFS(filepath.Join("/proc", out, "root", dir))
	through := &procFS{engine: c.engine, node: node, dir: dir}
	// The pid may be that of an engine in a virtual machine: it has to be the same process.
	theirs, err := through.ReadFile("stat")
	if err != nil {
		return nil, err
	}
	ours, err := fs.ReadFile(here, "stat")
	if err != nil {
		return nil, err
	}
	if start := startTime(ours); start == "" || start != startTime(theirs) {
		return nil, errors.New("not the same process")
	}
	_, err = fs.ReadDir(here, "fd") // needs more rights than the rest
	return here, err
}

// startTime is field 22 of /proc/PID/stat, counted behind the command name: it may hold blanks.
func startTime(stat []byte) string {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
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

func (p *procFS) exec(name string, command ...string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	args := append([]string{"exec", p.node}, command...)
	out, err := p.engine.output(ctx, append(args, path.Join(p.dir, name))...)
	if err != nil && (strings.Contains(err.Error(), "No such file") || strings.Contains(err.Error(), "No such process")) {
		err = &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return out, err
}

// ReadFile reads a file.
func (p *procFS) ReadFile(name string) ([]byte, error) {
	return p.exec(name, "cat")
}

// ReadDir lists a folder; the entries have names and nothing else.
func (p *procFS) ReadDir(name string) ([]fs.DirEntry, error) {
	out, err := p.exec(name, "ls", "-1")
	if err != nil {
		return nil, err
	}
	var entries []fs.DirEntry
	for entry := range strings.FieldsSeq(string(out)) {
		entries = append(entries, fs.FileInfoToDirEntry(procEntry{name: entry}))
	}
	return entries, nil
}

// Distant says that each file costs a command (procs.Distant).
func (p *procFS) Distant() {}

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
