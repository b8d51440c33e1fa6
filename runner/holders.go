package runner

import (
	"context"
	"fmt"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Largest heaps that are dumped: the process stops for about a second per 500 MiB, and needs the memory of its heap once
// more. A pod must not exceed its limit, which is 1 GiB by default.
const (
	maxDumped      = 1 << 30
	maxDumpedInPod = 256 << 20
)

// dump reads a heap dump of each observed process, by component. Of several replicas it dumps the first one. If a dump is
// missing, the record has the reason. Holders explain a verdict, so a missing dump does not change it.
func (m *measurement) dump(ctx context.Context) map[string]leak.HeapDump {
	one := m.each()[0]
	dumps := map[string]leak.HeapDump{}
	if m.HeapDump == nil {
		return dumps
	}
	for component, target := range one.observed() {
		size, wanted := heapOf(one.record.Snapshots[0], component)
		if !wanted {
			continue
		}
		h := &leak.Holders{}
		one.hold(component, h)
		most := float64(maxDumped)
		if target.Selector != "" {
			most = maxDumpedInPod
		}
		if size > most {
			h.Problem = fmt.Sprintf("the heap has %s, and leakrig dumps at most %s", display.Value(size, "bytes"), display.Value(most, "bytes"))
			continue
		}
		dump, err := m.HeapDump(ctx, target, nil)
		if err != nil {
			h.Problem = problem(err)
			continue
		}
		dumps[component] = dump
	}
	return dumps
}

// hold puts the holders of a process into the record.
func (m *measurement) hold(component string, h *leak.Holders) {
	switch all := m.record.Holders; {
	case component == "":
		if all != nil {
			h.Components = all.Components
		}
		m.record.Holders = h
	case all == nil:
		m.record.Holders = &leak.Holders{Components: map[string]*leak.Holders{component: h}}
	case all.Components == nil:
		all.Components = map[string]*leak.Holders{component: h}
	default:
		all.Components[component] = h
	}
}

// heapOf returns the bytes in the heap of a component, "" for the program, and false if no probe reads them.
func heapOf(s leak.Snapshot, component string) (bytes float64, ok bool) {
	for _, sample := range s.Samples {
		of, _, found := strings.Cut(sample.Probe, "/")
		if !found {
			of = ""
		}
		if bytes, ok := sample.Values["alloc"]; ok && of == component {
			return bytes, true
		}
	}
	return 0, false
}

// whoHolds records who holds what grew since the dumps of the baseline.
func (m *measurement) whoHolds(ctx context.Context, baseline map[string]leak.HeapDump) {
	one := m.each()[0]
	targets := one.observed()
	for component, before := range baseline {
		m.watch("reading who holds memory")
		dump, err := m.HeapDump(ctx, targets[component], before)
		if err != nil {
			one.hold(component, &leak.Holders{Problem: problem(err)})
			continue
		}
		one.hold(component, dump.Since(before, one.record.Stacks))
	}
}

func problem(err error) string {
	if hint := leak.Hint(err); hint != "" {
		return fmt.Sprintf("%v (%s)", err, hint)
	}
	return err.Error()
}
