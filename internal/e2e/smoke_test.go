//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// TestSmoke is one of the smoke tests, which `make test` runs on real parts. It runs the leaky and the fixed variant
// of watch-then-delete once. All other checks read that run directory.
func TestSmoke(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs, "--variant", "leaky,fixed")
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kube-apiserver")
	dir := runDir(t, runs)
	for _, want := range []string{string(dir), dir.Path(rundir.HTMLFile), "chan send at watch.(*StreamWatcher).receive"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the output does not name %s:\n%s", want, r.stdout)
		}
	}
	verdict := readVerdict(t, dir)

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
	t.Run("judge and report need nothing but the run directory", func(t *testing.T) {
		before := readFile(t, dir.Path(rundir.VerdictFile))
		page := readFile(t, dir.Path(rundir.HTMLFile))
		setenv(t, "PATH", "")
		setenv(t, "KUBECONFIG", "/nonexistent")
		if r := run(t, "judge", string(dir)); r.code != leak.ExitMet {
			t.Fatal(r)
		}
		if !bytes.Equal(before, readFile(t, dir.Path(rundir.VerdictFile))) {
			t.Error("the verdict has changed")
		}
		if r := run(t, "report", string(dir)); r.code != 0 {
			t.Fatal(r)
		}
		if !bytes.Equal(page, readFile(t, dir.Path(rundir.HTMLFile))) {
			t.Error("the page has changed")
		}
	})
	t.Run("an edited sample changes the verdict", func(t *testing.T) {
		edited := copyRun(t, dir)
		if err := os.Remove(edited.Path(rundir.VerdictFile)); err != nil {
			t.Fatal(err)
		}
		changed := readRecord(t, edited)
		fixed := changed.Variant("fixed")
		for i := range fixed.Snapshots {
			fixed.Snapshots[i].Sample("goroutine").Values["count"] += float64(50 * i)
		}
		fixed.Idle.Sample("goroutine").Values["count"] += float64(50 * (len(fixed.Snapshots) - 1))
		writeJSON(t, edited.Path(rundir.RecordFile), changed)
		if r := run(t, "judge", string(edited)); r.code != leak.ExitNotMet || !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "fixed leaks") {
			t.Error(r)
		}
	})
	t.Run("a fingerprint that is not seen is not reproduced", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "absurd.yaml")
		text := strings.Replace(string(readFile(t, dir.Path(rundir.ScenarioFile))), "state: chan send", "state: chan send\n        maxPerOp: 1000", 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, "judge", string(copyRun(t, dir)), "--scenario", file)
		if r.code != leak.ExitNotMet || !strings.Contains(r.stdout, "leaky was not reproduced: receive is clean") {
			t.Error(r)
		}
	})
	t.Run("go tool pprof shows the same", func(t *testing.T) {
		_, line, ok := strings.Cut(r.stdout, "compare the profiles with pprof\n")
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
		// The trace that contains receive starts with its count.
		trace := regexp.MustCompile(`(?m)^\s+(\d+)\s+runtime\.gopark\n(?:\s+runtime\.\S+\n)*\s+` + regexp.QuoteMeta(receive) + `$`)
		m := trace.FindStringSubmatch(string(out))
		if m == nil || m[1] != fmt.Sprint(want) {
			t.Errorf("want %d goroutines in receive:\n%s", want, out)
		}
	})
	t.Run("every raw profile opens", func(t *testing.T) {
		files, err := filepath.Glob(dir.Path("*", "*", "*.pb.gz"))
		if err != nil || len(files) < 2*10*2 {
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

// TestSmokeInterrupt checks that Ctrl-C in the middle of the load keeps the earlier rounds and leaves nothing
// running.
func TestSmokeInterrupt(t *testing.T) {
	t.Parallel()
	interrupted(t, func(t *testing.T, r *rig, _ string) { r.until(t, `leaky: round 2/8`) }, 2)
}

// TestSmokeKilled checks that SIGKILL in the middle of the load also ends the control plane and the subject, and
// keeps the earlier rounds.
func TestSmokeKilled(t *testing.T) {
	t.Parallel()
	killed(t, func(t *testing.T, r *rig, _ string) { r.until(t, `fixed: round 2/8`) }, 1)
}
