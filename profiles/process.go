package profiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var processKind = leak.Kind[leak.Probe]{
	Name: "process",
	Doc:  "Resources of the process from /proc.",
	Metrics: []leak.Metric{
		{Name: "rss", Unit: "bytes", Coarse: 4 << 20, Doc: "resident memory (VmRSS)"},
		{Name: "descriptors", Unit: "descriptors", Doc: "open file descriptors"},
		{Name: "threads", Unit: "threads", Doc: "kernel threads"},
	},
	New: func() leak.Probe { return &Process{} },
}

// Process reads resident memory, descriptors and threads.
type Process struct{}

// Sample reads /proc/PID. Without it, it reads only resident memory, from the target's other source.
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
