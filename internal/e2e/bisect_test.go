//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leakrig/leakrig/bisect"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

func bisection(t *testing.T, runs string) (*bisect.Record, string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(runs, "*", "bisect-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("bisections: %v %v", dirs, err)
	}
	r, err := bisect.Read(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	return r, dirs[0]
}

// TestBisectWatchThenDelete finds the version that fixed client-go's leak, with the versions on both sides of the
// fix. The cluster boots once per session. An interruption costs only the step in progress, and stops everything that
// was started.
func TestBisectWatchThenDelete(t *testing.T) {
	t.Parallel()
	privateTmp(t)
	runs := t.TempDir()
	args := []string{
		"bisect", "watch-then-delete", "--cluster", "embedded", "--runs-dir", runs,
		"--module", "k8s.io/apimachinery", "--with", "k8s.io/client-go,k8s.io/api",
		"--bad", "v0.18.8", "--good", "v0.21.0", "--candidates", "v0.21.0-beta.0,v0.21.0-beta.1",
	}
	first := start(t, args...)
	first.until(t, `^step 2: `)
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := first.wait(t); r.code != leak.ExitInterrupted || !strings.Contains(r.stdout, "leakrig bisect --resume") {
		t.Fatal(r)
	}
	record, _ := bisection(t, runs)
	if len(record.Steps) != 1 || record.Steps[0].State != bisect.Leaky || !record.Open() {
		t.Fatalf("%+v", record.Steps)
	}
	r := run(t, args...)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kube-apiserver")
	record, dir := bisection(t, runs)
	a := record.Answers[0]
	if a.Kind != bisect.Fixed || a.Leaky != "v0.21.0-beta.0" || a.Clean != "v0.21.0-beta.1" || a.LeakyRuns != 2 || a.CleanOf != 2 {
		t.Errorf("%+v", a)
	}
	if most := bisect.Budget(len(record.Candidates)); record.Measured() > most {
		t.Errorf("%d steps, more than %d", record.Measured(), most)
	}
	if record.Boots != 2 {
		t.Errorf("%d boots in two sessions", record.Boots)
	}
	for _, s := range record.Steps {
		v, err := rundir.Dir(filepath.Join(dir, s.Run)).ReadRecord()
		if err != nil {
			t.Fatal(err)
		}
		if got := moduleOf(v, "k8s.io/apimachinery"); got != s.Version {
			t.Errorf("%s was measured with %s", s.Version, got)
		}
	}
	for _, want := range []string{"fixed in v0.21.0-beta.1; last leaky v0.21.0-beta.0", "https://github.com/kubernetes/apimachinery/compare/v0.21.0-beta.0...v0.21.0-beta.1"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the output does not say %s:\n%s", want, r.stdout)
		}
	}
}

// moduleOf returns the version of a module in the only variant's binary.
func moduleOf(r *leak.Record, path string) string {
	for _, m := range r.Variants[0].Subject.Modules {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
