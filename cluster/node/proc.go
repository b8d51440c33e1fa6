// Package node reaches into the nodes of a kind cluster: /proc, unix sockets, and dumps of containerd shims.
package node

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

	"github.com/leakrig/leakrig/cluster/engine"
)

// Node is a node of a kind cluster, which is a container of the engine.
type Node struct {
	Engine engine.Engine
	Name   string
}

// PodProc finds the process of a pod's container and returns its folder below /proc of the node.
func (n Node) PodProc(ctx context.Context, namespace, pod string) (fs.FS, error) {
	// One call of the engine for both: each takes a tenth of a second.
	out, err := n.Engine.Run(ctx, "exec", n.Name, "sh", "-c",
		`crictl inspect -o go-template --template '{{.info.pid}}' $(crictl ps -q --label "$1" --label "$2")`, "sh",
		"io.kubernetes.pod.name="+pod, "io.kubernetes.pod.namespace="+namespace)
	if err != nil {
		return nil, fmt.Errorf("find the subject's process: %w", err)
	}
	pid, err := strconv.Atoi(out)
	if err != nil || pid <= 0 {
		return nil, fmt.Errorf("find the subject's process: crictl names the pid %q of pod %s", out, pod)
	}
	return n.Proc(ctx, pid)
}

// Proc returns the folder of a process below /proc of the node.
func (n Node) Proc(ctx context.Context, pid int) (fs.FS, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	if here, err := n.procHere(ctx, dir); err == nil {
		return here, nil
	}
	return &procFS{node: n, dir: dir}, nil
}

// ServiceProc returns the folder below /proc of the main process of a unit.
func (n Node) ServiceProc(ctx context.Context, unit string) (fs.FS, error) {
	out, err := n.Engine.Run(ctx, "exec", n.Name, "systemctl", "show", "--property=MainPID", "--value", unit)
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(out)
	if err != nil || pid <= 0 {
		return nil, fmt.Errorf("systemd names the pid %q of %s", out, unit)
	}
	return n.Proc(ctx, pid)
}

// procHere returns a folder below the node's /proc as this machine sees it. If the engine runs on the same kernel and
// leakrig may read it, this is a thousand times faster than through the engine.
func (n Node) procHere(ctx context.Context, dir string) (fs.FS, error) {
	out, err := n.Engine.Run(ctx, "inspect", "-f", "{{.State.Pid}}", n.Name)
	if err != nil {
		return nil, err
	}
	here := os.DirFS(filepath.Join("/proc", out, "root", dir))
	through := &procFS{node: n, dir: dir}
	// The pid may be that of an engine in a virtual machine: it has to be the same process.
	theirs, err := through.ReadFile("stat")
	if err != nil {
		return nil, err
	}
	ours, err := fs.ReadFile(here, "stat")
	if err != nil {
		return nil, err
	}
	if start := StartTime(ours); start == "" || start != StartTime(theirs) {
		return nil, errors.New("not the same process")
	}
	_, err = fs.ReadDir(here, "fd") // needs more rights than the rest
	return here, err
}

// StartTime is field 22 of /proc/PID/stat, counted behind the command name: it may hold blanks.
func StartTime(stat []byte) string {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// procFS is a folder below /proc of a node, read through the engine: it works as well where the engine
// runs in a virtual machine.
type procFS struct {
	node Node
	dir  string
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
	args := append([]string{"exec", p.node.Name}, command...)
	out, err := p.node.Engine.Output(ctx, append(args, path.Join(p.dir, name))...)
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
