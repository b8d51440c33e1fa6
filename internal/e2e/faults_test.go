//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestSignalsDuringFaults sends Ctrl-C and SIGKILL while a fault is injected. After Ctrl-C the exit code is 130 and
// nothing is left. After SIGKILL no process is left, not even a frozen one, and `leakrig clean` removes the folder.
func TestSignalsDuringFaults(t *testing.T) {
	for name, c := range map[string]struct{ fault, cluster string }{
		"network of the load":         {"network: {fault: cut, during: [post], for: 10m}", ""},
		"network of a dependency":     {"network: {of: backend, fault: half-open, during: [post], for: 10m}", ""},
		"pause of the subject":        {"pause: {during: [post], for: 10m}", ""},
		"pause of a dependency":       {"pause: {of: backend, during: [post], for: 10m}", ""},
		"restart of a dependency":     {"restart: {of: backend, during: [post], for: 10m}", ""},
		"restart of the API server":   {"restart: {of: kube-apiserver, during: [post], for: 10m}", "  cluster: {providers: [embedded]}\n"},
		"network to the API server":   {"network: {of: kube-apiserver, fault: delay, delay: 1s, during: [post], for: 10m}", "  cluster: {providers: [embedded]}\n"},
		"restart of one, then frozen": {"restart: {of: backend, during: [post], for: 10m}\n    - pause: {during: [post], for: 10m}", ""},
	} {
		for how, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "SIGKILL": syscall.SIGKILL} {
			t.Run(how+" during "+name, func(t *testing.T) {
				tmp := privateTmp(t)
				runs := t.TempDir()
				file := filepath.Join(t.TempDir(), "during.yaml")
				if err := os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: during}
spec:
%s  subject: {build: calibration}
  dependencies: [{name: backend, build: calibration, args: [-plant=nothing], ready: /healthz}]
  variants: [{name: only, args: [-plant=nothing], expect: clean}]
  warmup: {rounds: 0}
  rounds: 2
  round:
    - post: {path: /work, times: 60000, rate: 100, timeout: 1s, concurrency: 10}
    - %s
  settle: {quiet: 200ms}
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 5}]
`, c.cluster, c.fault), 0o600); err != nil {
					t.Fatal(err)
				}
				r := start(t, "run", file, "--runs-dir", runs)
				r.until(t, `only: baseline`)
				met("fault")
				time.Sleep(3 * time.Second) // the fault has no event that another process sees
				whom := -r.cmd.Process.Pid  // to the process group, as a terminal does
				if signal == syscall.SIGKILL {
					whom = r.cmd.Process.Pid
				}
				if err := syscall.Kill(whom, signal); err != nil {
					t.Fatal(err)
				}
				if signal == syscall.SIGINT {
					if got := r.wait(t); got.code != leak.ExitInterrupted {
						t.Error(got)
					}
					return
				}
				_ = r.cmd.Wait()
				waitFor(t, func() bool { return len(started(t, tmp)) == 0 })
				sweepOld(t, tmp)
			})
		}
	}
}
