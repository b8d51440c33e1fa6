package runner

import (
	"context"
	"fmt"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Largest heaps that are dumped: the process stops for about a second per 500 MiB, and needs the memory of its heap once
// more. A pod must not exceed its limit, which is 1 GiB by default.
const (
	maxDumped      = 1 << 30
	maxDumpedInPod = 256 << 20
)

// dump reads a heap dump of the subject, and of several replicas the first one. Without a dump it returns nil, and the
// record has the reason. Holders explain a verdict, so a missing dump does not change it.
func (m *measurement) dump(ctx context.Context) leak.HeapDump {
	one := m.each()[0]
	size, wanted := heapOf(one.record.Snapshots[0])
	if m.HeapDump == nil || !wanted {
		return nil
	}
	one.record.Holders = &leak.Holders{}
	target := one.subject.Target()
	most := float64(maxDumped)
	if target.Selector != "" {
		most = maxDumpedInPod
	}
	if size > most {
		one.record.Holders.Problem = fmt.Sprintf("the heap has %s, and leakrig dumps at most %s", display.Value(size, "bytes"), display.Value(most, "bytes"))
		return nil
	}
	dump, err := m.HeapDump(ctx, target)
	if err != nil {
		one.record.Holders.Problem = problem(err)
		return nil
	}
	return dump
}

// heapOf returns the bytes in the heap of the subject, false if no probe reads them.
func heapOf(s leak.Snapshot) (bytes float64, ok bool) {
	for _, sample := range s.Samples {
		if bytes, ok := sample.Values["alloc"]; ok && leak.ProbeKind(sample.Probe) == sample.Probe {
			return bytes, true
		}
	}
	return 0, false
}

// hold records who holds what grew since the dump of the baseline.
func (m *measurement) hold(ctx context.Context, baseline leak.HeapDump) {
	if baseline == nil {
		return
	}
	one := m.each()[0]
	m.watch("reading who holds memory")
	dump, err := m.HeapDump(ctx, one.subject.Target())
	if err != nil {
		one.record.Holders.Problem = problem(err)
		return
	}
	one.record.Holders = dump.Since(baseline, one.record.Stacks)
}

func problem(err error) string {
	if hint := leak.Hint(err); hint != "" {
		return fmt.Sprintf("%v (%s)", err, hint)
	}
	return err.Error()
}
