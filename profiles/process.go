package profiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

var processKind = leak.Kind[leak.Probe]{
	Name: "process",
	Doc:  "The process as the kernel sees it, from /proc.",
	Metrics: []leak.Metric{
		{Name: "rss", Unit: "bytes", Doc: "resident memory (VmRSS)"},
		{Name: "descriptors", Unit: "descriptors", Doc: "open file descriptors"},
		{Name: "threads", Unit: "threads", Doc: "kernel threads"},
	},
	New: func() leak.Probe { return &Process{} },
}

// Process reads resident memory, descriptors and threads.
type Process struct{}

// Sample reads /proc/PID.
func (*Process) Sample(_ context.Context, t leak.Target) (leak.Reading, error) {
	if t.Proc == nil {
		return leak.Reading{}, leak.WithHint(errors.New("/proc of the subject cannot be read here"),
			"the process probe needs Linux; leave it out of the scenario's probes elsewhere")
	}
	status, err := fs.ReadFile(t.Proc, "status")
	if err != nil {
		return leak.Reading{}, err
	}
	rss, err1 := statusField(string(status), "VmRSS")
	threads, err2 := statusField(string(status), "Threads")
	descriptors, err3 := fs.ReadDir(t.Proc, "fd")
	if err := errors.Join(err1, err2, err3); err != nil {
		return leak.Reading{}, err
	}
	return leak.Reading{Sample: leak.Sample{
		Probe: processKind.Name,
		Values: map[string]float64{
			"rss":         rss * 1024, // the kernel writes kB and means KiB
			"threads":     threads,
			"descriptors": float64(len(descriptors)),
		},
	}}, nil
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
