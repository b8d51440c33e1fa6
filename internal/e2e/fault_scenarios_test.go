//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestFaultScenarios runs the scenarios whose load is a fault: restarts of a real API server, and a cut connection to
// it. Both variants get the same load and the same number of injections.
func TestFaultScenarios(t *testing.T) {
	for _, c := range []struct {
		scenario, fault, check string
		injections             int
		atLeast                float64
	}{
		{"apiserver-restart", "restart", "mappers", 10, 100 << 10},
		{"setpeers-disconnect", "network", "handlers", 8, 1},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			t.Parallel()
			privateTmp(t)
			runs := t.TempDir()
			r := run(t, "run", c.scenario, "--cluster", "embedded", "--runs-dir", runs)
			if r.code != leak.ExitMet {
				t.Fatal(r)
			}
			met("kube-apiserver")
			dir := runDir(t, runs)
			record, verdict := readRecord(t, dir), readVerdict(t, dir)
			if a, b := tallies(record.Variant("leaky")), tallies(record.Variant("fixed")); a != b || strings.Count(a, c.fault+" 1/1") < c.injections {
				t.Errorf("leaky: %s; fixed: %s", a, b)
			}
			if f := findingOf(t, variantVerdict(t, verdict, "leaky"), c.check); f.PerOperation < c.atLeast {
				t.Error(f.Summary)
			}
		})
	}
}
