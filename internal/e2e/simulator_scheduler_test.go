//go:build e2e

package e2e

import (
	"math"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestSimulatorScheduler checks the three leaks of the simulator's incident one after another. When a stage is fixed,
// its fingerprint is clean and that of the next stage leaks.
func TestSimulatorScheduler(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "simulator-scheduler", "--all-variants", "--runs-dir", runs, "--set", "posts=2")
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kube-scheduler")
	dir := runDir(t, runs)
	record, verdict := readRecord(t, dir), readVerdict(t, dir)
	for _, stage := range []struct {
		variant string
		leaking []string
		clean   []string
		// module and growing are the module and the function that contain the fingerprint.
		module, growing string
	}{
		{"as-found", []string{"next-pod", "informers", "broadcaster"}, nil, "k8s.io/kubernetes@v1.24.17/", "queue.(*PriorityQueue).Pop"},
		{"scheduler-fixed", []string{"informers", "cluster-copy", "broadcaster"}, []string{"next-pod"}, "k8s.io/client-go@v0.25.0/", "cache.(*DeltaFIFO).Pop"},
		{"informers-fixed", []string{"broadcaster"}, []string{"next-pod", "informers", "cluster-copy"}, "k8s.io/apimachinery@v0.25.0/", "watch.(*Broadcaster).loop"},
		{"leaky", []string{"next-pod"}, []string{"informers", "broadcaster"}, "k8s.io/kubernetes@v1.24.17/", "queue.(*PriorityQueue).Pop"},
		{"fixed", nil, []string{"next-pod", "informers", "cluster-copy", "broadcaster"}, "", ""},
	} {
		vv := variantVerdict(t, verdict, stage.variant)
		for _, check := range stage.leaking {
			if f := findingOf(t, vv, check); f.Outcome != leak.Leaking {
				t.Errorf("%s: %s is %s: %s", stage.variant, check, f.Outcome, f.Summary)
			}
		}
		for _, check := range stage.clean {
			if f := findingOf(t, vv, check); f.Outcome != leak.Clean || f.PerOperation != 0 {
				t.Errorf("%s: %s is %s: %s", stage.variant, check, f.Outcome, f.Summary)
			}
		}
		if stage.growing != "" {
			for _, g := range vv.Growing {
				if g.Fingerprint && (g.Stack.Top().Short() != stage.growing || !strings.HasPrefix(g.Stack.Top().File, stage.module)) {
					t.Errorf("%s: the fingerprint stands at\n%s", stage.variant, frames(g.Stack))
				}
			}
		}
		if got, want := tallies(record.Variant(stage.variant)), tallies(&record.Variants[0]); got != want {
			t.Errorf("%s had another load: %s; %s", stage.variant, got, want)
		}
	}
	for _, variant := range []string{"as-found", "leaky"} {
		if f := findingOf(t, variantVerdict(t, verdict, variant), "next-pod"); math.Abs(f.PerOperation-1) > 0.02 {
			t.Errorf("%s: one scheduler a POST was expected: %s", variant, f.Summary)
		}
	}
}
