package session

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// TestObserve observes this process, without a command line: the run directory has record, verdict and reports, and the
// exit code is the verdict's.
func TestObserve(t *testing.T) {
	server := httptest.NewServer(http.DefaultServeMux)
	defer server.Close()
	runs := t.TempDir()
	o := Observation{
		Options: Options{RunsDir: runs, Times: 1, Output: Output{Format: "text"}, Process: Process{Version: "test", Hidden: &rundir.Secrets{}}},
		Name:    "observe", URLs: []string{server.URL}, Endpoint: Endpoint{Pprof: "/debug/pprof"}, Command: []string{"true"},
		Times: 2, Concurrency: 1, Operations: 1, Warmup: 1, Rounds: 7, Quiet: 50 * time.Millisecond, Timeout: time.Minute,
	}
	var out bytes.Buffer
	code, err := o.Observe(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(runs, "observe", "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	dir := rundir.Dir(dirs[0])
	record, err := dir.ReadRecord()
	if err != nil || record.Leakrig != "test" || len(record.Variants) != 1 || len(record.Variants[0].Snapshots) != 8 {
		t.Errorf("%+v %v", record, err)
	}
	verdict, err := dir.ReadVerdict()
	if err != nil || code != leak.ExitCode(false, false, false, verdict.Result) || !strings.Contains(out.String(), string(dir)) {
		t.Errorf("exit code %d, %+v %v\n%s", code, verdict, err, out.String())
	}
	if _, err := os.Stat(dir.Path(rundir.HTMLFile)); err != nil {
		t.Error(err)
	}
}

// TestRunSeveral checks that one scenario that cannot be run does not keep others from being tried, and that all count.
func TestRunSeveral(t *testing.T) {
	f := Options{RunsDir: t.TempDir(), Cluster: "auto", Times: 1, Output: Output{Format: "text"}, Process: Process{Hidden: &rundir.Secrets{}}}
	var out bytes.Buffer
	code, err := f.Run(t.Context(), &out, []string{"./none.yaml", "no-such-scenario"})
	if err != nil || code != leak.ExitUsage {
		t.Errorf("exit code %d, %v", code, err)
	}
	for _, want := range []string{"./none.yaml", "no-such-scenario", "0 of 2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestDefaultVariants checks which variants run: those of every run, all, and those that were named.
func TestDefaultVariants(t *testing.T) {
	for _, row := range []struct {
		comment string
		f       Options
		want    string
	}{
		{"by default", Options{}, "leaky fixed"},
		{"all", Options{AllVariants: true}, "leaky fixed current stop-first drain natural"},
		{"by name", Options{Variants: []string{"drain"}}, "drain"},
	} {
		_, s, err := Open("watch-then-delete", nil)
		if err != nil {
			t.Fatal(err)
		}
		row.f.Times = 1
		variants, err := row.f.Apply(s)
		if err != nil {
			t.Errorf("%s: %v", row.comment, err)
		}
		var names []string
		for _, v := range variants {
			names = append(names, v.Name)
		}
		if got := strings.Join(names, " "); got != row.want {
			t.Errorf("%s: %s", row.comment, got)
		}
	}
}

// TestBudget checks the rotation: the scenario that ran longest ago goes first, one without a run before it, and none
// starts when the budget is used up.
func TestBudget(t *testing.T) {
	runs, library := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		text := strings.ReplaceAll(`{apiVersion: leakrig.dev/v1, kind: Scenario, metadata: {name: NAME, description: d}, spec: {subject: {build: ./none},
variants: [{name: v, expect: clean}], round: [{post: {path: /}}], probes: [goroutine], checks: [{growth: {probe: goroutine}}]}}`, "NAME", name)
		if err := os.WriteFile(filepath.Join(library, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"a/20261101T000000Z", "a/20261103T000000Z", "a/zzz", "c/20261102T000000Z"} {
		if err := os.MkdirAll(filepath.Join(runs, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := Options{
		RunsDir: runs, Cluster: "auto", Times: 1, Output: Output{Format: "text"}, Process: Process{Hidden: &rundir.Secrets{}},
		Night: Night{All: true, Budget: time.Nanosecond},
	}
	plan, err := f.plan([]string{library})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, p := range plan {
		order = append(order, strings.TrimSuffix(filepath.Base(p.name), ".yaml"))
	}
	if got := strings.Join(order, " "); got != "b c a" {
		t.Errorf("order %q", got)
	}
	var out bytes.Buffer
	if _, err := f.Run(t.Context(), &out, []string{library}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "the budget of 1ns is used up"); n != 2 || !strings.Contains(out.String(), "0 of 1 scenario as expected, 2 not run") {
		t.Errorf("%d scenarios left out in\n%s", n, out.String())
	}
}
