package session

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

type noProgress struct{ lines []string }

func (p *noProgress) Log(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}
func (p *noProgress) Status(string, ...any) {}

// TestReopen checks that the newest run of the same scenario is resumed if it was interrupted and is not running.
func TestReopen(t *testing.T) {
	runs := t.TempDir()
	s := &leak.Scenario{Metadata: leak.Metadata{Name: "s"}, Spec: leak.Spec{
		Soak: &leak.SoakSpec{Every: leak.Duration(time.Minute), For: leak.Duration(time.Hour)}, Parameters: map[string]string{"n": "1", "password": "now"},
		Subject: leak.SubjectSpec{URL: "http://127.0.0.1:1"}, Variants: []leak.Variant{{Name: "a"}, {Name: "b"}},
	}}
	put := func(name, text string, change func(*leak.Record)) rundir.Dir {
		dir := rundir.Dir(filepath.Join(runs, "s", name))
		if err := os.MkdirAll(string(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		r := &leak.Record{
			Schema: 1, Scenario: "s", Parameters: map[string]string{"n": "1", "password": "(redacted)"},
			Plan: leak.Plan{Variants: []string{"a", "b"}, Soak: s.Spec.Soak}, Variants: []leak.VariantRecord{{Name: "a", Idle: &leak.Snapshot{}}, {Name: "b"}},
		}
		change(r)
		if err := dir.WriteFile(rundir.ScenarioFile, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := dir.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	f := &Options{RunsDir: runs}
	reopened := func() (rundir.Dir, []string) {
		t.Helper()
		p := &noProgress{}
		dir, release, err := f.reopen(s, []byte("text"), p)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if f.earlier == nil {
			dir = ""
		}
		return dir, p.lines
	}
	if dir, _ := reopened(); dir != "" {
		t.Errorf("%s, of none", dir)
	}
	asItIs := func(*leak.Record) {}
	put("20261121T100000Z", "text", asItIs)
	want := put("20261121T100000Z-10", "text", asItIs)
	put("20261121T100000Z-9", "text", asItIs)
	put("20261121T110000Z", "another text", asItIs)
	put("20261121T120000Z", "text", func(r *leak.Record) { r.Parameters["n"] = "2" })
	put("20261121T130000Z", "text", func(r *leak.Record) { r.Plan.Variants = []string{"a"} })
	put("not-a-run", "text", asItIs)
	if dir, _ := reopened(); dir != want {
		t.Errorf("%s, want %s", dir, want)
	}
	// A soak that was killed before it wrote anything is ignored. One that has lost rounds is not resumed.
	begun := put("20261121T133000Z", "text", asItIs)
	if err := os.Remove(begun.Path(rundir.RecordFile)); err != nil {
		t.Fatal(err)
	}
	if dir, _ := reopened(); dir != want {
		t.Errorf("%s, want %s", dir, want)
	}
	lost := put("20261121T133500Z", "text", func(r *leak.Record) {
		r.Variants[1].Soak, r.Variants[1].Snapshots = &leak.SoakRecord{Rounds: 7}, []leak.Snapshot{{}, {Round: 3}}
	})
	if dir, lines := reopened(); dir != "" || len(lines) != 1 || !strings.Contains(lines[0], "starts over: the record in") {
		t.Errorf("a record that lost rounds: %q, %q", dir, lines)
	}
	if err := os.RemoveAll(string(lost)); err != nil {
		t.Fatal(err)
	}
	unlock, free := upstream.TryLock(want.Path(soakLock))
	if !free {
		t.Fatal("the lock was not let go")
	}
	if _, _, err := f.reopen(s, []byte("text"), &noProgress{}); err == nil || !strings.Contains(err.Error(), "is being measured by another leakrig") {
		t.Errorf("while another measures it: %v", err)
	}
	unlock()
	url := s.Spec.Subject.URL
	s.Spec.Subject.URL = ""
	if dir, lines := reopened(); dir != "" || len(lines) != 1 || !strings.Contains(lines[0], "starts over: only a process observed by URL") {
		t.Errorf("leakrig's own program: %q, %q", dir, lines)
	}
	s.Spec.Subject.URL = url
	put("20261121T140000Z", "text", func(r *leak.Record) { r.Variants[1].Idle = &leak.Snapshot{} })
	if dir, lines := reopened(); dir != "" || len(lines) != 0 {
		t.Errorf("%q after one that is over, %q", dir, lines)
	}
	f.Variants = []string{"a"}
	if dir, _ := reopened(); dir != "" { // 13:00, of a alone, which is done
		t.Errorf("%q, of a variant that is done", dir)
	}
}

func TestByTime(t *testing.T) {
	names := []string{"20261121T100000Z-10", "20261121T100001Z", "20261121T100000Z-9", "20261121T100000Z"}
	slices.SortFunc(names, byTime)
	if got := strings.Join(names, " "); got != "20261121T100000Z 20261121T100000Z-9 20261121T100000Z-10 20261121T100001Z" {
		t.Error(got)
	}
}
