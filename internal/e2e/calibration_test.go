//go:build e2e

package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// TestCalibration runs leakrig on leaks of known size and on healthy look-alikes. It finds every planted leak with
// its size, within 5 %, and calls no look-alike leaking. LEAKRIG_REPEATS is the number of repeats; the nightly tier
// sets it to 20.
func TestCalibration(t *testing.T) {
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "selfcheck", "--runs-dir", runs, "--parallel", "2", "--repeats", cmp.Or(os.Getenv("LEAKRIG_REPEATS"), "1"))
	t.Log(r.stdout)
	if r.code != leak.ExitMet || !strings.Contains(r.stdout, "false alarms  0 of ") {
		t.Fatal(r)
	}
	met("calibration")
	dirs, err := filepath.Glob(filepath.Join(runs, "calibration", "2*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%v: %v", dirs, err)
	}
	// The look-alikes behaved as planned: those that stop growing grew before.
	record := readRecord(t, rundir.Dir(dirs[0]))
	for _, healthy := range []struct {
		variant, probe, metric string
		least                  float64
	}{
		{"lazy", "heap", "alloc", 8 << 20},
		{"pool", "goroutine", "count", 20},
		{"lru", "heap", "alloc", 256 << 10},
		{"connections", "goroutine", "count", 15},
	} {
		if grew := grown(t, record.Variant(healthy.variant), healthy.probe, healthy.metric); grew < healthy.least {
			t.Errorf("%s grew by %.0f", healthy.variant, grew)
		}
	}
	// The variant queue drained slowly as planned: 25 jobs per round, one after another, take 20 ms each.
	for _, s := range record.Variant("queue").Snapshots[1:] {
		if s.Settle.Seconds < 0.4 {
			t.Errorf("queue had drained %.2f s after round %d", s.Settle.Seconds, s.Round)
		}
	}
	// The heap as a whole shrank and so hid the leak of the variant hidden.
	if grew := grown(t, record.Variant("hidden"), "heap", "alloc"); grew > 0 {
		t.Errorf("hidden grew by %.0f", grew)
	}
}

func grown(t *testing.T, v *leak.VariantRecord, probe, metric string) float64 {
	t.Helper()
	return v.Final().Sample(probe).Values[metric] - v.Snapshots[0].Sample(probe).Values[metric]
}

// waitFor polls until done returns true, and fails at a deadline.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal("waited in vain")
}
