//go:build e2e

package e2e

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestSetPeersControllers runs the real Rancher 2.4 libraries. A disconnected cluster leaves two handlers and their
// listeners in every round of setPeers, on the stack of the incident. The order of calls in the fix prevents that.
func TestSetPeersControllers(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "setpeers-controllers", "--cluster", "embedded", "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kube-apiserver")
	dir := runDir(t, runs)
	record, verdict := readRecord(t, dir), readVerdict(t, dir)
	if a, b := tallies(record.Variant("leaky")), tallies(record.Variant("fixed")); a != b {
		t.Errorf("leaky: %s; fixed: %s", a, b)
	}
	leaky := variantVerdict(t, verdict, "leaky")
	if f := findingOf(t, leaky, "handlers"); math.Abs(f.PerOperation-2) > 0.1 {
		t.Errorf("2 handlers a start were expected: %s", f.Summary)
	}
	// The size of two ring buffers of 1024 interfaces.
	if f := findingOf(t, leaky, "listeners"); f.PerOperation < 24<<10 || f.PerOperation > 48<<10 {
		t.Errorf("32 KiB a start were expected: %s", f.Summary)
	}
	top := leaky.HeapGrowing[0]
	if steve := "github.com/rancher/steve@v0.0.0-20200326205851-420f62f642eb/"; !strings.Contains(frames(top.Stack), steve) || !top.Fingerprint {
		t.Errorf("the incident's stack goes through %s:\n%s", steve, frames(top.Stack))
	}
	clientGo := leak.Module{Path: "k8s.io/client-go", Version: "v12.0.0+incompatible", Replace: "k8s.io/client-go v0.18.0"}
	if modules := record.Variant("leaky").Subject.Modules; !slices.Contains(modules, clientGo) {
		t.Errorf("it is not built with %v", clientGo)
	}
	for _, f := range variantVerdict(t, verdict, "fixed").Findings {
		if f.Outcome != leak.Clean {
			t.Errorf("fixed: %s", f.Summary)
		}
	}
}

// frames lists the functions of a stack with their files, one per line.
func frames(s leak.Stack) string {
	var b strings.Builder
	for _, f := range s.Frames {
		b.WriteString(f.Func + " " + f.Position() + "\n")
	}
	return b.String()
}
