package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leakrig/leakrig/leak"
)

type fakeDump int

func (d fakeDump) Since(baseline leak.HeapDump, _ map[string]leak.Stack) *leak.Holders {
	return &leak.Holders{Pauses: []float64{float64(baseline.(fakeDump)), float64(d)}}
}

// A variant has two heap dumps: at the baseline and after idling. Without them it is measured all the same.
func TestHeapDumps(t *testing.T) {
	for name, c := range map[string]struct {
		errs    []error
		pauses  []float64
		problem string
	}{
		"two dumps":      {nil, []float64{1, 2}, ""},
		"no endpoint":    {[]error{leak.WithHint(errors.New("no endpoint"), "import it")}, nil, "no endpoint (import it)"},
		"the last fails": {[]error{nil, errors.New("too slow")}, nil, "too slow"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				l.Variants = l.Variants[:1]
				taken := 0
				l.HeapDump = func(context.Context, leak.Target, leak.HeapDump) (leak.HeapDump, error) {
					taken++
					if taken <= len(c.errs) && c.errs[taken-1] != nil {
						return nil, c.errs[taken-1]
					}
					return fakeDump(taken), nil
				}
				record, err := l.run(t, t.Context())
				if err != nil {
					t.Fatal(err)
				}
				v := record.Variants[0]
				if v.Failure != nil || len(v.Snapshots) != 4 || v.Holders == nil || !slices.Equal(v.Holders.Pauses, c.pauses) || !strings.Contains(v.Holders.Problem, c.problem) || (c.problem == "") != (v.Holders.Problem == "") {
					t.Errorf("failure %v, %d snapshots, holders %+v", v.Failure, len(v.Snapshots), v.Holders)
				}
			})
		})
	}
}

// Each process has its own heap, and its own holders.
func TestHoldersOfComponents(t *testing.T) {
	snapshot := leak.Snapshot{Samples: []leak.Sample{
		{Probe: "containerd/heap", Values: map[string]float64{"alloc": 1}}, {Probe: "heap", Values: map[string]float64{"alloc": 2}}, {Probe: "goroutine", Values: map[string]float64{"count": 3}},
	}}
	for component, want := range map[string]float64{"containerd": 1, "": 2, "kubelet": 0} {
		if size, ok := heapOf(snapshot, component); size != want || ok != (want > 0) {
			t.Errorf("%q: %v bytes, %t", component, size, ok)
		}
	}
	m := &measurement{record: &leak.VariantRecord{}}
	for component, problem := range map[string]string{"containerd": "a", "": "b", "kubelet": "c"} {
		m.hold(component, &leak.Holders{Problem: problem})
	}
	h := m.record.Holders
	if h.Of("heap").Problem != "b" || h.Of("containerd/heap").Problem != "a" || h.Of("kubelet/goroutine").Problem != "c" || h.Of("etcd/heap") != nil {
		t.Errorf("%+v", h)
	}
}
