//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestKindControlPlane observes the control plane as the subject. leakrig creates its load: pods for the scheduler,
// Deployments for the controllers, and abandoned watches. Kubernetes v1.34 does not leak under this load, and the
// verdict must be clean for each component.
func TestKindControlPlane(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	file := filepath.Join(t.TempDir(), "control-plane.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: control-plane}
spec:
  cluster: {providers: [kind]}
  subject:
    components:
      - {component: kube-apiserver, probes: [goroutine, heap, process]}
      - {component: kube-scheduler, probes: [goroutine, heap, process]}
      - {component: kube-controller-manager, probes: [goroutine, heap, process]}
  variants: [{name: only, expect: clean}]
  warmup: {rounds: 1}
  rounds: 6
  maxRounds: 12
  round:
    - churn:
        name: deployments
        template: |
          apiVersion: apps/v1
          kind: Deployment
          metadata: {name: "web-{{.Op}}"}
          spec:
            replicas: 0
            selector: {matchLabels: {app: web}}
            template:
              metadata: {labels: {app: web}}
              spec: {containers: [{name: main, image: none}]}
        times: 40
        concurrency: 10
    - churn:
        name: pods
        template: |
          apiVersion: v1
          kind: Pod
          metadata: {name: "pod-{{.Op}}"}
          spec: {terminationGracePeriodSeconds: 0, nodeSelector: {none: such}, containers: [{name: main, image: none}]}
        times: 40
        concurrency: 10
    - watch: {end: abandon, times: 40, concurrency: 10}
  operation: watch
  settle: {quiet: 300ms, timeout: 30s}
  checks:
    - growth: {name: apiserver-goroutines, probe: kube-apiserver/goroutine, maxPerOp: 0.25}
    - growth: {name: scheduler-goroutines, probe: kube-scheduler/goroutine, maxPerOp: 0.25}
    - growth: {name: controllers-goroutines, probe: kube-controller-manager/goroutine, maxPerOp: 0.25}
    - growth: {name: apiserver-heap, probe: kube-apiserver/heap, maxPerOp: 512KiB}
    - growth: {name: scheduler-heap, probe: kube-scheduler/heap, maxPerOp: 128KiB}
    - growth: {name: controllers-heap, probe: kube-controller-manager/heap, maxPerOp: 128KiB}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := t.TempDir()
	r := run(t, "run", file, "--runs-dir", runs)
	t.Log(r.stdout)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kind")
	verdict := variantVerdict(t, readVerdict(t, runDir(t, runs)), "only")
	if len(verdict.Findings) < 6 {
		t.Errorf("%d findings", len(verdict.Findings))
	}
	for _, f := range verdict.Findings {
		if f.Outcome != leak.Clean {
			t.Errorf("%s: %s: %s", f.Check, f.Outcome, f.Summary)
		}
	}
}
