//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestActions runs all actions that work without pods in one run. Each does what the scenario asks, in every round.
// No operation reaches the subject, so the verdict is not clean.
func TestActions(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	seen := filepath.Join(t.TempDir(), "seen")
	file := filepath.Join(t.TempDir(), "actions.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(`
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: actions}
spec:
  cluster: {providers: [embedded]}
  subject: {build: calibration}
  variants: [{name: only, args: [-plant=nothing], expect: clean}]
  rounds: 5
  round:
    - watch: {times: 20, concurrency: 5}
    - watch: {name: abandoned, end: abandon, times: 20, concurrency: 5}
    - churn:
        template: |
          apiVersion: v1
          kind: Secret
          metadata: {name: "secret-{{.Op}}"}
        times: 30
        concurrency: 3
        rate: 100
    - command:
        shell: |
          echo "$NAMESPACE $URL $OP $(grep -c server: "$KUBECONFIG")" >>%s
        operations: 10
        times: 2
  operation: churn
  settle: {quiet: 300ms}
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 5}]
`, seen)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "run", file, "--runs-dir", runs); r.code != leak.ExitInconclusive || !strings.Contains(r.stdout, "left no trace") {
		t.Fatal(r)
	}
	met("kube-apiserver")
	record := readRecord(t, runDir(t, runs))
	for _, s := range record.Variants[0].Snapshots[1:] {
		var got []string
		for _, tally := range s.Load {
			got = append(got, fmt.Sprintf("%s %d/%d", tally.Action, tally.Succeeded, tally.Attempted))
		}
		if want := "watch 20/20, abandoned 20/20, churn 30/30, command 20/20"; strings.Join(got, ", ") != want {
			t.Errorf("round %d: %s, want %s", s.Round, strings.Join(got, ", "), want)
		}
	}
	// One warm-up round and five measured rounds have 90 operations each. The last 20 of each round are the
	// command's.
	lines := strings.Split(strings.TrimSpace(string(readFile(t, seen))), "\n")
	if len(lines) != 12 {
		t.Fatalf("the command ran %d times:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for i, line := range lines {
		var namespace, url string
		var op, servers int
		if _, err := fmt.Sscan(line, &namespace, &url, &op, &servers); err != nil || op != 1+i/2*90+70+i%2*10 ||
			!strings.HasPrefix(namespace, "leakrig-") || !strings.HasPrefix(url, "http://127.0.0.1:") || servers != 1 {
			t.Errorf("invocation %d: %q %v", i, line, err)
		}
	}
}

// TestExecNeedsAPod checks that exec without a running pod is refused before anything boots.
func TestExecNeedsAPod(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	file := filepath.Join(t.TempDir(), "exec.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: exec}
spec:
  cluster: {providers: [embedded]}
  subject: {build: calibration}
  variants: [{name: only, args: [-plant=nothing], expect: clean}]
  round: [exec: {command: [ls, /opt], times: 3}]
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 5}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "run", file, "--runs-dir", t.TempDir())
	if r.code != leak.ExitUsage || !strings.Contains(r.stderr, "the embedded control plane has no nodes") || !strings.Contains(r.stderr, "hint: use --cluster kind") {
		t.Error(r)
	}
}
