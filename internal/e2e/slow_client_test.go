//go:build e2e

package e2e

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestSlowClient abandons requests to a real WebSocket library. Each abandoned WebSocket leaves one goroutine in the
// version that no longer closes it, none before, and swapped modfiles flip the verdict.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "slow-client", "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("abandoned clients")
	dir := runDir(t, runs)
	record, verdict := readRecord(t, dir), readVerdict(t, dir)
	if a, b := tallies(record.Variant("leaky")), tallies(record.Variant("fixed")); a != b || !strings.Contains(a, "half-body 20/20") {
		t.Errorf("leaky: %s; fixed: %s", a, b)
	}
	if f := findingOf(t, variantVerdict(t, verdict, "leaky"), "timeout-loops"); math.Abs(f.PerOperation-1) > 0.01 {
		t.Errorf("one goroutine per client was expected: %s", f.Summary)
	}
	text, err := os.ReadFile(filepath.Join(root, "scenarios", "slow-client.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	swapped := filepath.Join(t.TempDir(), "swapped.yaml")
	flip := strings.NewReplacer("modfile: go.mod", "modfile: fixed.mod", "modfile: fixed.mod", "modfile: go.mod").Replace(string(text))
	if err := os.WriteFile(swapped, []byte(flip), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "run", swapped, "--runs-dir", t.TempDir()); r.code != leak.ExitNotMet {
		t.Errorf("swapped modfiles: %s", r)
	}
}
