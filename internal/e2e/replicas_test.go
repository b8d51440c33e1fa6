//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestManyReplicas checks that each of many replicas is loaded, settled, measured and judged separately. Each leaks
// in proportion to its own operations.
func TestManyReplicas(t *testing.T) {
	n := envInt(t, "LEAKRIG_REPLICAS", 48)
	file, runs := filepath.Join(t.TempDir(), "many.yaml"), t.TempDir()
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(`apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: many}
spec:
  subject: {build: calibration, args: [-plant=goroutine], replicas: N}
  variants:
    - {name: leaky, expect: leaking, fingerprint: [planted]}
  warmup: {rounds: 1}
  rounds: 8
  round:
    - post: {path: /work, times: 1000, concurrency: 8}
  settle: {quiet: 300ms, timeout: 30s}
  probes: [goroutine, process]
  checks:
    - stack: {name: planted, match: 'main\.leakySend', state: chan send, maxPerOp: 0.01}
`, "replicas: N", fmt.Sprintf("replicas: %d", n))), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "run", file, "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	operations := 0
	replicas := variantVerdict(t, readVerdict(t, runDir(t, runs)), "leaky").Replicas
	for _, one := range replicas {
		operations += one.Operations
		if per := findingOf(t, one, "planted").PerOperation; one.Outcome != leak.Leaking || math.Abs(per-1) > 0.005 {
			t.Errorf("replica %d: %s, %g an operation", one.Replica, one.Outcome, per)
		}
	}
	if len(replicas) != n || operations != 8*1000 {
		t.Errorf("%d replicas, %d operations", len(replicas), operations)
	}
	// The output has one line per round and one per outcome, not one per replica.
	if lines := strings.Count(r.stderr, "replica "); lines > 12 {
		t.Errorf("%d lines of progress: %s", lines, r.stderr)
	}
}
