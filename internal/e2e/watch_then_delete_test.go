//go:build e2e

package e2e

import (
	"bytes"
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
)

const receive = "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"

// The whole scenario, once, and everything that can be asked of its run directory.
func TestWatchThenDelete(t *testing.T) {
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kube-apiserver")
	dir := runDir(t, runs)
	for _, want := range []string{string(dir), dir.Path(leak.HTMLFile), "chan send at watch.(*StreamWatcher).receive"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the output does not name %s:\n%s", want, r.stdout)
		}
	}
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
	t.Run("blocked in the pinned module", func(t *testing.T) {
		version := moduleVersion(t, "watch-then-delete", "leaky.mod", "k8s.io/apimachinery")
		if version != "v0.18.8" {
			t.Errorf("go version -m says apimachinery %s", version)
		}
		top := variantVerdict(t, verdict, "leaky").Growing[0]
		if top.Stack.Top().Func != receive || top.Stack.State != "chan send" {
			t.Errorf("the stack that grew most is %s", top.Stack)
		}
		if want := "k8s.io/apimachinery " + version; top.Module != want {
			t.Errorf("it lies in %s, want %s", top.Module, want)
		}
		if want := "k8s.io/apimachinery@" + version + "/"; !strings.HasPrefix(top.Stack.Top().File, want) {
			t.Errorf("it lies in %s, want %s", top.Stack.Top().File, want)
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
	t.Run("judge and report need nothing but the run directory", func(t *testing.T) {
		before := readFile(t, dir.Path(leak.VerdictFile))
		page := readFile(t, dir.Path(leak.HTMLFile))
		t.Setenv("PATH", "")
		t.Setenv("KUBECONFIG", "/nonexistent")
		if r := run(t, "judge", string(dir)); r.code != leak.ExitMet {
			t.Fatal(r)
		}
		if !bytes.Equal(before, readFile(t, dir.Path(leak.VerdictFile))) {
			t.Error("the verdict has changed")
		}
		if r := run(t, "report", string(dir)); r.code != 0 {
			t.Fatal(r)
		}
		if !bytes.Equal(page, readFile(t, dir.Path(leak.HTMLFile))) {
			t.Error("the page has changed")
		}
	})
	t.Run("an edited sample changes the verdict", func(t *testing.T) {
		edited := copyRun(t, dir)
		if err := os.Remove(edited.Path(leak.VerdictFile)); err != nil {
			t.Fatal(err)
		}
		changed := readRecord(t, edited)
		fixed := changed.Variant("fixed")
		fixed.Final().Sample("goroutine").Values["count"] += 500
		fixed.Idle.Sample("goroutine").Values["count"] += 500
		writeJSON(t, edited.Path(leak.RecordFile), changed)
		if r := run(t, "judge", string(edited)); r.code != leak.ExitNotMet || !strings.Contains(r.stdout, "fixed leaks") {
			t.Error(r)
		}
	})
	t.Run("a fingerprint that is not seen is not reproduced", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "absurd.yaml")
		text := strings.Replace(string(readFile(t, dir.Path(leak.ScenarioFile))), "maxPerOp: 0.01", "maxPerOp: 1000", 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, "judge", string(copyRun(t, dir)), "--scenario", file)
		if r.code != leak.ExitNotMet || !strings.Contains(r.stdout, "leaky was not reproduced: receive is clean") {
			t.Error(r)
		}
	})
	t.Run("go tool pprof shows the same", func(t *testing.T) {
		_, line, ok := strings.Cut(r.stdout, "see it again\n")
		if !ok {
			t.Fatal(r)
		}
		cmd := exec.Command("sh", "-c", line)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		f := findingOf(t, variantVerdict(t, verdict, "leaky"), "receive")
		want := f.Stacks[0].To - f.Stacks[0].From
		// The trace that has receive in it starts with its count.
		trace := regexp.MustCompile(`(?m)^\s+(\d+)\s+runtime\.gopark\n(?:\s+runtime\.\S+\n)*\s+` + regexp.QuoteMeta(receive) + `$`)
		m := trace.FindStringSubmatch(string(out))
		if m == nil || m[1] != fmt.Sprint(want) {
			t.Errorf("want %d goroutines in receive:\n%s", want, out)
		}
	})
	t.Run("every raw profile opens", func(t *testing.T) {
		files, err := filepath.Glob(dir.Path("*", "*", "*.pb.gz"))
		if err != nil || len(files) < 6*10*2 {
			t.Fatalf("%d profiles, %v", len(files), err)
		}
		for _, file := range files[:4] {
			if out, err := exec.Command("go", "tool", "pprof", "-top", file).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", file, err, out)
			}
		}
	})
	t.Run("the report in a browser", func(t *testing.T) { inBrowser(t, dir) })
}

// Swapping the modfiles, not the expectations, flips the verdict: the rig looks at the program and not
// at its name.
func TestSwappedModfiles(t *testing.T) {
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

// Ctrl-C reaches the whole process group of the rig, at any stage. The record says so, what was
// measured is kept and judged, and nothing is left running.
func TestInterrupt(t *testing.T) {
	for name, at := range map[string]struct {
		line   string
		rounds int // whole rounds in the record
	}{
		"while it boots":    {"", -1},
		"under load":        {`leaky: round 2/8`, 2},
		"the second signal": {`leaky: baseline`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			privateTmp(t)
			runs := t.TempDir()
			r := start(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs, "--variant", "leaky")
			if at.line != "" {
				r.until(t, at.line)
			} else {
				waitFor(t, func() bool {
					logs, _ := filepath.Glob(filepath.Join(runs, "*", "*", "cluster", "etcd.log"))
					return len(logs) > 0
				})
			}
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
			if have := len(record.Variants[0].Snapshots) - 1; have < at.rounds {
				t.Errorf("%d rounds were kept, %d were measured", have, at.rounds)
			}
			if r := run(t, "judge", string(dir)); r.code != leak.ExitUnmeasured {
				t.Error(r)
			}
		})
	}
}

// An API server that dies ends the run: it is not a verdict on the subject.
func TestControlPlaneDies(t *testing.T) {
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

// An API server that comes back before the rig gives it up costs the run nothing but time.
func TestControlPlaneComesBack(t *testing.T) {
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

// signalServer signals the API servers that were started with this temporary folder, and returns how many.
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

// A subject that stops answering altogether, its pprof too, ends the measurement: every reading has its
// deadline.
func TestFrozenSubject(t *testing.T) {
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

// A rig that is killed, at the boot or under load, takes its control plane and its subject with it, and what
// it had written stays readable; `leakrig clean` removes its folder.
func TestKilledRig(t *testing.T) {
	for _, name := range []string{"at the boot", "under load"} {
		t.Run(name, func(t *testing.T) {
			tmp := privateTmp(t)
			runs := t.TempDir()
			r := start(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs, "--variant", "fixed")
			if name == "under load" {
				r.until(t, `fixed: round 2/8`)
			} else {
				waitFor(t, func() bool {
					return slices.ContainsFunc(started(t, tmp), func(pid int) bool {
						exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
						return filepath.Base(exe) == "etcd"
					})
				})
			}
			if err := r.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = r.cmd.Wait()
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
			if name == "under load" {
				if have := len(readRecord(t, runDir(t, runs)).Variants[0].Snapshots) - 1; have < 1 {
					t.Errorf("%d rounds were kept", have)
				}
			}
		})
	}
	met("kube-apiserver")
}

// moduleVersion builds a subject and asks go version -m, not the rig.
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

// tallies is the load of a variant without its timing.
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

func copyRun(t *testing.T, dir leak.RunDir) leak.RunDir {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(string(dir))); err != nil {
		t.Fatal(err)
	}
	return leak.RunDir(to)
}
