//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestRoundsThatTell distinguishes growth by operation, by round and by time in real leaks. It uses rounds of
// different sizes and control rounds. A clear leak ends at the first look, and an unclear one gets a second.
func TestRoundsThatTell(t *testing.T) {
	privateTmp(t)
	file := filepath.Join(t.TempDir(), "tell.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: tell}
spec:
  subject: {build: calibration}
  variants:
    - {name: operation, args: [-plant=goroutine, -every=5], expect: leaking, fingerprint: [goroutines]}
    - {name: round, args: [-plant=burst], expect: leaking, fingerprint: [goroutines]}
    # It begins in the seventh of the eight rounds that the first look is after.
    - {name: late, args: [-plant=goroutine, -after=220], expect: leaking, fingerprint: [goroutines]}
    - {name: nothing, args: [-plant=nothing], expect: clean}
    - {name: clock, args: [-plant=clock], expect: clean}
  warmup: {rounds: 1}
  rounds: 8
  maxRounds: 16
  sizes: [1, 2, 1, 3]
  control: 3
  round: [post: {path: /work, times: 20, concurrency: 4}]
  settle: {quiet: 250ms, timeout: 5s}
  probes: [goroutine]
  checks: [growth: {name: goroutines, probe: goroutine, maxPerOp: 0.01}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := t.TempDir()
	r := run(t, "run", file, "--runs-dir", runs)
	t.Log(r.stdout)
	if r.code != leak.ExitInconclusive { // because of the variant clock
		t.Fatal(r)
	}
	met("calibration")
	record, verdict := readRecord(t, runDir(t, runs)), readVerdict(t, runDir(t, runs))
	for _, c := range []struct {
		variant string
		outcome leak.Outcome
		rhythm  string
		rounds  func(int) bool
		per     float64 // growth per operation
	}{
		{"operation", leak.Leaking, "operation", func(n int) bool { return n == 8 }, 0.2},
		{"round", leak.Leaking, "round", func(n int) bool { return n == 8 }, 0},
		{"late", leak.Leaking, "operation", func(n int) bool { return n > 8 }, 1},
		{"nothing", leak.Clean, "", func(n int) bool { return n == 8 }, 0},
		{"clock", leak.Inconclusive, "", func(n int) bool { return n == 16 }, 0},
	} {
		f := findingOf(t, variantVerdict(t, verdict, c.variant), "goroutines")
		if f.Outcome != c.outcome || f.Rhythm != c.rhythm {
			t.Errorf("%s: %s by the %q: %s", c.variant, f.Outcome, f.Rhythm, f.Summary)
		}
		if n := len(record.Variant(c.variant).Snapshots) - 1; !c.rounds(n) {
			t.Errorf("%s: %d rounds", c.variant, n)
		}
		if c.per != 0 && (f.PerOperation < 0.95*c.per || f.PerOperation > 1.05*c.per) {
			t.Errorf("%s: %g an operation, planted %g", c.variant, f.PerOperation, c.per)
		}
		if c.variant == "clock" && !strings.Contains(f.Summary, "without load") {
			t.Errorf("clock: %s", f.Summary)
		}
		if c.variant == "late" && f.Onset != 6 {
			t.Errorf("late: since round %d", f.Onset+1)
		}
	}
}
