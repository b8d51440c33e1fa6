//go:build e2e

package e2e

import (
	"math"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestSimulatorPosts runs the real open-simulator against a real kube-apiserver v1.24.17 that is filled with nodes.
// The variant leaky re-enacts the Close from before the fix, and the record and the reports state that. The leaking
// code is upstream's.
func TestSimulatorPosts(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "simulator-posts", "--cluster", "embedded", "--runs-dir", runs, "--set", "posts=3", "--set", "api=scale-apps")
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kube-apiserver")
	dir := runDir(t, runs)
	record, verdict := readRecord(t, dir), readVerdict(t, dir)
	leaky, fixed := variantVerdict(t, verdict, "leaky"), variantVerdict(t, verdict, "fixed")
	for check, want := range map[string]float64{"next-pod": 1, "broadcaster": 1} {
		if f := findingOf(t, leaky, check); math.Abs(f.PerOperation-want) > 0.02 {
			t.Errorf("%s: %s", check, f.Summary)
		}
		if f := findingOf(t, fixed, check); f.PerOperation != 0 {
			t.Errorf("fixed, %s: %s", check, f.Summary)
		}
	}
	// With 20 nodes and 100 pods.
	if f := findingOf(t, leaky, "heap"); f.PerOperation < 1<<20 || f.PerOperation > 4<<20 {
		t.Errorf("heap: %s", f.Summary)
	}
	for _, g := range leaky.Growing {
		if file := g.Stack.Top().File; g.Fingerprint && !strings.HasPrefix(file, "k8s.io/") {
			t.Errorf("the fingerprint lies in %s", file)
		}
	}
	if record.Cluster.Kubernetes != "v1.24.17" || record.Parameters["api"] != "scale-apps" || record.Parameters["nodes"] != "20" {
		t.Errorf("Kubernetes %s, parameters %v", record.Cluster.Kubernetes, record.Parameters)
	}
	if a, b := tallies(record.Variant("leaky")), tallies(record.Variant("fixed")); a != b {
		t.Errorf("leaky: %s; fixed: %s", a, b)
	}
	rewrite := record.Variant("leaky").Subject.Rewrite
	if rewrite == nil || rewrite.Module != "github.com/alibaba/open-simulator v0.1.3" || rewrite.Func != "(*Simulator).Close" {
		t.Errorf("the record says that %+v was rewritten", rewrite)
	}
	if record.Variant("fixed").Subject.Rewrite != nil {
		t.Error("the shipped one was rewritten, too")
	}
	if !strings.Contains(r.stdout, "re-enacted: (*Simulator).Close") {
		t.Errorf("the output does not say what is re-enacted:\n%s", r.stdout)
	}
	// judge needs only the record, which has the parameters of the run.
	if r := run(t, "judge", string(dir)); r.code != leak.ExitMet {
		t.Error(r)
	}
}
