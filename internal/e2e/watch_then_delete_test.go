//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

const receive = "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"

// TestWatchThenDelete runs the session of README with every variant of the scenario. Each variant meets its expectation
// under the same load.
func TestWatchThenDelete(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	setenv(t, "CLUSTER", "embedded")
	setenv(t, "ARGS", "--all-variants --runs-dir "+runs)
	runPage(t, "README.md")
	dir := runDir(t, filepath.Join(runs))
	record, verdict := readRecord(t, dir), readVerdict(t, dir)

	t.Run("two-sided", func(t *testing.T) {
		for _, name := range []string{"leaky", "natural"} {
			f := findingOf(t, variantVerdict(t, verdict, name), "receive")
			if f.Outcome != leak.Leaking || f.PerOperation < 0.5 || f.PerOperation > 1 {
				t.Errorf("%s: %s: %s", name, f.Outcome, f.Summary)
			}
		}
		// The pause between delete and stop makes the rate independent of the machine.
		if f := findingOf(t, variantVerdict(t, verdict, "leaky"), "receive"); f.PerOperation < 0.95 {
			t.Errorf("leaky: %s", f.Summary)
		}
		for _, name := range []string{"fixed", "current", "stop-first", "drain"} {
			vv := variantVerdict(t, verdict, name)
			if f := findingOf(t, vv, "receive"); vv.Outcome != leak.Clean || f.PerOperation != 0 {
				t.Errorf("%s: %s", name, vv.Reason)
			}
		}
	})
	t.Run("the same load for all", func(t *testing.T) {
		first := tallies(&record.Variants[0])
		for i := range record.Variants {
			v := &record.Variants[i]
			if got := tallies(v); got != first {
				t.Errorf("%s: %s; %s: %s", record.Variants[0].Name, first, v.Name, got)
			}
		}
	})
	t.Run("every round has its profiles", func(t *testing.T) {
		if files, err := filepath.Glob(dir.Path("*", "*", "*.pb.gz")); err != nil || len(files) < 6*10*2 {
			t.Fatalf("%d profiles, %v", len(files), err)
		}
	})
}

// TestSwappedModfiles swaps the modfiles but not the expectations, which reverses the verdict: leakrig judges the
// program, not its name.
func TestSwappedModfiles(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	text := string(readFile(t, filepath.Join(root, "scenarios", "watch-then-delete.yaml")))
	text = strings.NewReplacer("leaky.mod", "fixed.mod", "fixed.mod", "leaky.mod").Replace(text)
	file := filepath.Join(t.TempDir(), "swapped.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "run", file, "--source", root, "--cluster", "embedded", "--runs-dir", t.TempDir(), "--variant", "leaky,fixed")
	met("kube-apiserver")
	if r.code != leak.ExitNotMet {
		t.Fatal(r)
	}
	for _, want := range []string{
		`leaky was not reproduced: receive is clean`,
		`fixed leaks \+\d\.\d\d goroutines per operation at\s+watch.\(\*StreamWatcher\).receive`,
		`✗ fixed: leaking, not as expected. expected clean, but receive leaks`,
	} {
		if !regexp.MustCompile(strings.ReplaceAll(want, " ", `\s+`)).MatchString(r.stdout) {
			t.Errorf("the output does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(r)
	}
}

// TestInterrupt checks that Ctrl-C ends a run at any stage. The record states it and has the measurements, and
// nothing is left running.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	t.Run("while it boots", func(t *testing.T) {
		interrupted(t, func(t *testing.T, _ *rig, runs string) {
			waitFor(t, func() bool {
				logs, _ := filepath.Glob(filepath.Join(runs, "*", "2*", "cluster", "etcd.log"))
				return len(logs) > 0
			})
		}, -1)
	})
	t.Run("before the first round", func(t *testing.T) {
		interrupted(t, func(t *testing.T, r *rig, _ string) { r.until(t, `leaky: baseline`) }, 0)
	})
}

// interrupted sends Ctrl-C to the process group of leakrig when at returns, like a terminal. It checks that the
// record has at least this number of rounds.
func interrupted(t *testing.T, at func(t *testing.T, r *rig, runs string), rounds int) {
	t.Helper()
	privateTmp(t)
	runs := t.TempDir()
	r := start(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs, "--variant", "leaky")
	at(t, r, runs)
	if err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	got := r.wait(t)
	if got.code != leak.ExitInterrupted {
		t.Fatal(got)
	}
	met("kube-apiserver")
	dir := runDir(t, runs)
	record := readRecord(t, dir)
	if !record.Interrupted {
		t.Error("the record does not say interrupted")
	}
	if have := len(record.Variants[0].Snapshots) - 1; have < rounds {
		t.Errorf("%d rounds were kept, %d were measured", have, rounds)
	}
	if r := run(t, "judge", string(dir)); r.code != leak.ExitUnmeasured {
		t.Error(r)
	}
}

// TestControlPlaneDies checks that a dead API server ends the run without a verdict on the subject.
func TestControlPlaneDies(t *testing.T) {
	t.Parallel()
	tmp := privateTmp(t)
	runs := t.TempDir()
	r := start(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs, "--variant", "fixed")
	r.until(t, `fixed: round 2/8`)
	if killed := signalServer(t, tmp, syscall.SIGKILL); killed != 1 {
		t.Fatalf("killed %d API servers", killed)
	}
	got := r.wait(t)
	if got.code != leak.ExitUnmeasured || !strings.Contains(got.stdout, "API server no longer answers") {
		t.Fatal(got)
	}
	met("kube-apiserver")
	dir := runDir(t, runs)
	if _, err := os.Stat(dir.Path("cluster", "kube-apiserver.log")); err != nil {
		t.Errorf("the API server's log was not kept: %v", err)
	}
	if have := len(readRecord(t, dir).Variants[0].Snapshots) - 1; have < 2 {
		t.Errorf("%d rounds were kept", have)
	}
}

// TestControlPlaneComesBack checks that an API server that recovers before leakrig gives up costs the run only time.
func TestControlPlaneComesBack(t *testing.T) {
	t.Parallel()
	tmp := privateTmp(t)
	runs := t.TempDir()
	r := start(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs, "--variant", "fixed")
	r.until(t, `fixed: round 2/8`)
	if n := signalServer(t, tmp, syscall.SIGSTOP); n != 1 {
		t.Fatalf("stopped %d API servers", n)
	}
	time.Sleep(3 * time.Second)
	signalServer(t, tmp, syscall.SIGCONT)
	if got := r.wait(t); got.code != leak.ExitMet {
		t.Fatal(got)
	}
	met("kube-apiserver")
}

// signalServer signals the API servers that were started with this temporary folder, and returns their number.
func signalServer(t *testing.T, tmp string, signal syscall.Signal) int {
	t.Helper()
	n := 0
	for _, pid := range started(t, tmp) {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); filepath.Base(exe) == "kube-apiserver" {
			if err := syscall.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	return n
}

// TestFrozenSubject checks that the measurement ends if a subject stops answering completely, including its pprof.
// Every reading has a deadline.
func TestFrozenSubject(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	dir, runs := t.TempDir(), t.TempDir()
	scenario := filepath.Join(dir, "frozen.yaml")
	if err := os.CopyFS(filepath.Join(dir, "faulty"), os.DirFS(filepath.Join(root, "cmd/leakrig/testdata/faulty"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(scenario, []byte(`apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: frozen}
spec:
  subject: {build: ./faulty, args: [freezes]}
  variants: [{name: only, expect: clean}]
  warmup: {rounds: 1}
  rounds: 3
  round: [post: {path: /work, times: 5, timeout: 500ms}]
  probes: [goroutine, heap]
  checks: [delta: {probe: goroutine, max: 3}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	r := run(t, "run", scenario, "--runs-dir", runs)
	if r.code != leak.ExitUnmeasured || !strings.Contains(r.stdout, "hint:") || time.Since(begin) > 2*time.Minute {
		t.Errorf("after %s: %s", time.Since(begin), r)
	}
}

// TestKilledRig checks that SIGKILL while the control plane boots ends everything that was started.
func TestKilledRig(t *testing.T) {
	t.Parallel()
	killed(t, func(t *testing.T, _ *rig, tmp string) {
		waitFor(t, func() bool {
			return slices.ContainsFunc(started(t, tmp), func(pid int) bool {
				exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
				return filepath.Base(exe) == "etcd"
			})
		})
	}, 0)
}

// killed sends SIGKILL to leakrig when at returns. It checks that the control plane and the subject end, too, and
// that `leakrig clean` removes its folder. The record, if any, has at least this number of rounds.
func killed(t *testing.T, at func(t *testing.T, r *rig, tmp string), rounds int) {
	t.Helper()
	tmp := privateTmp(t)
	runs := t.TempDir()
	r := start(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs, "--variant", "fixed")
	at(t, r, tmp)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	met("kube-apiserver")
	waitFor(t, func() bool { return len(started(t, tmp)) == 0 })
	folders, err := filepath.Glob(filepath.Join(tmp, "leakrig-*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("%v %v", folders, err)
	}
	if got := sweepOld(t, tmp); !strings.Contains(got.stdout, "removed folder "+folders[0]) {
		t.Error(got)
	}
	if _, err := os.Stat(folders[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if rounds > 0 {
		if have := len(readRecord(t, runDir(t, runs)).Variants[0].Snapshots) - 1; have < rounds {
			t.Errorf("%d rounds were kept", have)
		}
	}
}

// moduleVersion builds a subject and reads its module version with go version -m, independent of leakrig.
func moduleVersion(t *testing.T, subject, modfile, module string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), subject)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-modfile="+modfile, "-o", binary, ".")
	build.Dir = filepath.Join(root, "subjects", subject)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\tdep\t` + regexp.QuoteMeta(module) + `\t(\S+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no %s in\n%s", module, out)
	}
	return string(m[1])
}

// tallies formats the load of a variant without its timing.
func tallies(v *leak.VariantRecord) string {
	var s strings.Builder
	for _, t := range v.Warmup {
		fmt.Fprintf(&s, "warm-up %s %d/%d ", t.Action, t.Succeeded, t.Attempted)
	}
	for _, shot := range v.Snapshots {
		for _, t := range shot.Load {
			fmt.Fprintf(&s, "%s %d/%d ", t.Action, t.Succeeded, t.Attempted)
		}
	}
	return s.String()
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func copyRun(t *testing.T, dir rundir.Dir) rundir.Dir {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(string(dir))); err != nil {
		t.Fatal(err)
	}
	return rundir.Dir(to)
}
