//go:build e2e

package e2e

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestLatencyGrows measures a server whose answers take 200 µs longer each time, and one whose answers do not.
func TestLatencyGrows(t *testing.T) {
	runs := t.TempDir()
	r := run(t, "run", filepath.Join(root, "internal", "e2e", "testdata", "slower.yaml"), "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	verdict := readVerdict(t, runDir(t, runs))
	if f := findingOf(t, variantVerdict(t, verdict, "slower"), "latency"); math.Abs(f.PerOperation-200e-6) > 20e-6 {
		t.Errorf("slower: %s", f.Summary)
	}
	if f := findingOf(t, variantVerdict(t, verdict, "steady"), "latency"); f.PerOperation > 20e-6 {
		t.Errorf("steady: %s", f.Summary)
	}
}
