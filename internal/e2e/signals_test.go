//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// moments is the number of moments of a run at which a signal is sent, with one run each.
const moments = 10

// TestNightlySignalsAtAnyMoment sends Ctrl-C and SIGKILL at moments throughout a run: build, boot, load, settling,
// judging, reporting. No process is left, the record is readable, and `leakrig clean` removes the rest.
func TestNightlySignalsAtAnyMoment(t *testing.T) {
	cache, theirs := t.TempDir(), cache(t)
	// kube-apiserver comes from leakrig's own cache. Each run builds its subjects.
	upstream := filepath.Join(theirs, "upstream")
	if err := errors.Join(os.MkdirAll(upstream, 0o700), os.Symlink(upstream, filepath.Join(cache, "upstream"))); err != nil {
		t.Fatal(err)
	}
	setenv(t, "LEAKRIG_CACHE", cache)
	file := filepath.Join(t.TempDir(), "moments.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: moments}
spec:
  cluster: {providers: [embedded]}
  subject: {build: calibration}
  variants: [{name: only, args: [-plant=nothing], expect: clean}]
  warmup: {rounds: 1}
  rounds: 5
  round: [post: {path: /work, times: 20, rate: 100}]
  settle: {quiet: 200ms}
  probes: [goroutine, heap]
  checks: [delta: {probe: goroutine, max: 5}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	// once runs the scenario and sends the signal after a delay, or never if it is 0.
	once := func(t *testing.T, after time.Duration, signal syscall.Signal) (got result, tmp, runs string) {
		tmp, runs = t.TempDir(), t.TempDir()
		setenv(t, "TMPDIR", tmp)
		if err := os.RemoveAll(filepath.Join(cache, "subjects")); err != nil {
			t.Fatal(err)
		}
		r := start(t, "run", file, "--runs-dir", runs)
		if after > 0 {
			whom := -r.cmd.Process.Pid // to the process group, as a terminal does
			if signal == syscall.SIGKILL {
				whom = r.cmd.Process.Pid
			}
			timer := time.AfterFunc(after, func() { _ = syscall.Kill(whom, signal) })
			defer timer.Stop()
		}
		return r.wait(t), tmp, runs
	}
	begin := time.Now()
	if got, _, _ := once(t, 0, 0); got.code != leak.ExitMet {
		t.Fatal(got)
	}
	took, hit := time.Since(begin), 0
	met("kube-apiserver")
	for i := range moments {
		after := took * time.Duration(2*i+1) / (2 * moments)
		for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "SIGKILL": syscall.SIGKILL} {
			t.Run(fmt.Sprintf("%s after %d of %d", name, 2*i+1, 2*moments), func(t *testing.T) {
				got, tmp, runs := once(t, after, signal)
				hit++
				switch {
				case got.code == leak.ExitMet: // the run ended before the signal
					hit--
				case signal == syscall.SIGINT && got.code != leak.ExitInterrupted:
					t.Error(got)
				}
				if signal == syscall.SIGKILL {
					waitFor(t, func() bool { return len(started(t, tmp)) == 0 })
					sweepOld(t, tmp)
				}
				if pids := started(t, tmp); len(pids) > 0 {
					t.Errorf("still running: %v", pids)
				}
				if left, _ := filepath.Glob(filepath.Join(tmp, "leakrig-*")); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				dirs, err := filepath.Glob(filepath.Join(runs, "*", "2*"))
				if err != nil || len(dirs) > 1 {
					t.Fatalf("%v %v", dirs, err)
				}
				for _, dir := range dirs {
					record, err := rundir.Dir(dir).ReadRecord()
					if errors.Is(err, os.ErrNotExist) && signal == syscall.SIGKILL {
						continue // leakrig was killed before it wrote a record
					}
					if err != nil {
						t.Error(err)
						continue
					}
					if got.code == leak.ExitInterrupted && !record.Interrupted {
						t.Error("the record does not say interrupted")
					}
					whole := len(record.Variants) == 1 && record.Variants[0].Idle != nil
					if judged := run(t, "judge", dir); judged.code != leak.ExitUnmeasured && !(whole && judged.code == leak.ExitMet) {
						t.Errorf("the run ended with %d: %s", got.code, judged)
					}
				}
			})
		}
	}
	if hit < moments*2*2/3 {
		t.Errorf("only %d of %d signals came before the end", hit, 2*moments)
	}
}

// sweepOld runs `leakrig clean` for the folder of a killed leakrig. It makes the folder look old, because clean keeps
// recent ones.
func sweepOld(t *testing.T, tmp string) result {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(tmp, "leakrig-*", ".in-use"))
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, lock := range locks {
		if err := os.Chtimes(lock, long, long); err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, "clean")
	if got.code != 0 {
		t.Error(got)
	}
	return got
}
