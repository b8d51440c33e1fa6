//go:build e2e

package e2e

import (
	"math"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// The rig on leaks of known size and on healthy look-alikes: every planted leak is found with its size,
// within 5 %, and no look-alike is called leaking.
func TestCalibration(t *testing.T) {
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "calibration", "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("calibration")
	dir := runDir(t, runs)
	verdict := readVerdict(t, dir)
	for _, planted := range []struct {
		variant, check string
		size           float64
	}{
		{"goroutine", "planted-goroutine", 1},
		{"goroutine", "goroutines", 1},
		{"heap", "heap", 16 << 10},
	} {
		f := findingOf(t, variantVerdict(t, verdict, planted.variant), planted.check)
		if f.Outcome != leak.Leaking || math.Abs(f.PerOperation-planted.size) > 0.05*planted.size {
			t.Errorf("%s: planted %g an operation, found %g: %s", planted.variant, planted.size, f.PerOperation, f.Summary)
		}
	}
	for _, healthy := range []string{"nothing", "lazy", "pool", "ticker"} {
		if vv := variantVerdict(t, verdict, healthy); vv.Outcome != leak.Clean {
			t.Errorf("%s: %s", healthy, vv.Reason)
		}
	}
	// The look-alikes did what they claim: what has stopped growing had grown.
	record := readRecord(t, dir)
	if grew := grown(t, record.Variant("lazy"), "heap", "alloc"); grew < 8<<20 {
		t.Errorf("lazy grew by %.0f bytes", grew)
	}
	if grew := grown(t, record.Variant("pool"), "goroutine", "count"); grew < 20 {
		t.Errorf("pool grew by %.0f goroutines", grew)
	}
}

func grown(t *testing.T, v *leak.VariantRecord, probe, metric string) float64 {
	t.Helper()
	return v.Final().Sample(probe).Values[metric] - v.Snapshots[0].Sample(probe).Values[metric]
}

// waitFor polls to a deadline.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal("waited in vain")
}
