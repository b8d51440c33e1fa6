package profiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var processKind = leak.Kind[leak.Probe]{
	Name: "process",
	Doc:  "Resources of the process from /proc, and memory outside of the Go runtime.",
	Metrics: []leak.Metric{
		{Name: "rss", Unit: "bytes", Coarse: 4 << 20, Doc: "resident memory (VmRSS)"},
		{Name: "native", Unit: "bytes", Coarse: 4 << 20, Signed: true, Outside: "heap.alloc", Doc: "resident anonymous memory that the Go runtime did not allocate, such as C.malloc: RssAnon - (MemStats.Sys - HeapReleased); below 0 while the runtime has memory that it has not touched"},
		{Name: "descriptors", Unit: "descriptors", Doc: "open file descriptors"},
		{Name: "sockets", Unit: "descriptors", Doc: "open sockets"},
		{Name: "files", Unit: "descriptors", Doc: "open files, folders and devices"},
		{Name: "pipes", Unit: "descriptors", Doc: "open ends of pipes"},
		{Name: "eventfds", Unit: "descriptors", Doc: "open eventfds"},
		{Name: "others", Unit: "descriptors", Doc: "other descriptors: epoll, timerfd, inotify, pidfd"},
		{Name: "threads", Unit: "threads", Doc: "kernel threads"},
	},
	New: func() leak.Probe { return &Process{} },
}

// Process reads memory, descriptors and threads.
type Process struct{}

// Sample reads /proc/PID. Without it, it reads only resident memory, from the target's other source. A process that
// does not serve its heap profile has no native memory, and a /proc without links no kinds of descriptors.
func (*Process) Sample(ctx context.Context, t leak.Target) (leak.Reading, error) {
	if t.Proc == nil && t.Resident != nil {
		return sampleResident(ctx, t)
	}
	if t.Proc == nil {
		return leak.Reading{}, leak.WithMachineHint(errors.New("/proc of the subject cannot be read here"),
			"the process probe needs Linux; leave it out of the scenario's probes elsewhere")
	}
	status, err := fs.ReadFile(t.Proc, "status")
	if err != nil {
		return leak.Reading{}, err
	}
	rss, err1 := statusField(string(status), "VmRSS")
	threads, err2 := statusField(string(status), "Threads")
	values, err3 := descriptors(t.Proc)
	if err := errors.Join(err1, err2, err3); err != nil {
		return leak.Reading{}, err
	}
	values["rss"], values["threads"] = rss*1024, threads // the kernel writes kB and means KiB
	if anonymous, err := statusField(string(status), "RssAnon"); err == nil {
		held, err := runtimeMemory(ctx, t)
		switch {
		case err == nil:
			values["native"] = anonymous*1024 - held
		case !errors.Is(err, errNotServed):
			return leak.Reading{}, err
		}
	}
	return leak.Reading{Sample: leak.Sample{Probe: processKind.Name, Values: values}}, nil
}

// descriptors counts open file descriptors, in total and by kind.
func descriptors(proc fs.FS) (map[string]float64, error) {
	open, err := fs.ReadDir(proc, "fd")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{"descriptors": float64(len(open))}
	links, ok := proc.(fs.ReadLinkFS)
	if !ok {
		return values, nil
	}
	for _, kind := range []string{"sockets", "files", "pipes", "eventfds", "others"} {
		values[kind] = 0
	}
	for _, d := range open {
		link, err := links.ReadLink("fd/" + d.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist): // closed since
		case err != nil:
			return nil, err
		default:
			values[descriptorKind(link)]++
		}
	}
	return values, nil
}

// descriptorKind returns the metric that counts the descriptor with this link in /proc/PID/fd.
func descriptorKind(link string) string {
	switch {
	case strings.HasPrefix(link, "socket:"):
		return "sockets"
	case strings.HasPrefix(link, "pipe:"):
		return "pipes"
	case link == "anon_inode:[eventfd]":
		return "eventfds"
	case strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "/memfd:"):
		return "files"
	}
	return "others"
}

// runtimeMemory returns the bytes that the Go runtime has from the kernel and has not returned. The error is
// errNotServed if the process serves no heap profile.
func runtimeMemory(ctx context.Context, t leak.Target) (float64, error) {
	if t.Transport == nil || t.Pprof == "" {
		return 0, errNotServed
	}
	var values map[string]float64
	err := get(ctx, t, "/heap?debug=1", func(_ context.Context, body io.Reader) (err error) {
		values, err = memFigures(io.LimitReader(body, maxBody), map[string]string{"Sys": "sys", "HeapReleased": "released"})
		return err
	})
	return values["sys"] - values["released"], err
}

// freshness bounds the wait for a report that is newer than the question.
const freshness = 45 * time.Second

// sampleResident waits for a report from after now: an older one is of the previous round.
func sampleResident(ctx context.Context, t leak.Target) (leak.Reading, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, freshness)
	defer cancel()
	for {
		bytes, read, err := t.Resident(ctx)
		if err != nil {
			return leak.Reading{}, err
		}
		if read.After(asked) {
			return leak.Reading{Sample: leak.Sample{
				Probe: processKind.Name, Values: map[string]float64{"rss": bytes}, Read: read,
			}}, nil
		}
		select {
		case <-ctx.Done():
			return leak.Reading{}, fmt.Errorf("no report of resident memory in %s, the last is from %s ago", freshness, asked.Sub(read).Round(time.Second))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// statusField reads a number out of /proc/PID/status.
func statusField(status, name string) (float64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB"))
			n, err := strconv.ParseUint(value, 10, 53) // a float64 holds it exactly
			return float64(n), err
		}
	}
	return 0, fmt.Errorf("/proc status has no %s", name)
}
