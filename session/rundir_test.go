package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leakrig/leakrig/rundir"
)

// FindRun finds the newest run with a record, by the name of its scenario or by the link to it.
func TestFindRun(t *testing.T) {
	runs := t.TempDir()
	made := func() rundir.Dir {
		dir, err := NewRunDir(runs, "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir.Path(rundir.RecordFile), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for range 12 { // of one second, so that they are numbered
		dir := made()
		for _, path := range []string{string(dir), filepath.Join(runs, "x"), filepath.Join(runs, "x", "latest")} {
			if got := FindRun(path); got != dir {
				t.Fatalf("%s: %s, want %s", path, got, dir)
			}
		}
	}
	last := FindRun(filepath.Join(runs, "x"))
	empty, err := NewRunDir(runs, "x") // a run that has not measured anything yet
	if err != nil {
		t.Fatal(err)
	}
	if got := FindRun(filepath.Join(runs, "x")); got != last {
		t.Errorf("%s, want %s", got, last)
	}
	if got := FindRun(filepath.Join(runs, "x", "latest")); got != empty {
		t.Errorf("%s, want %s", got, empty)
	}
	for _, path := range []string{filepath.Join(runs, "none"), runs} {
		if got := FindRun(path); string(got) != path {
			t.Errorf("%s: %s", path, got)
		}
	}
	// A file of the user's with that name stays.
	own := filepath.Join(runs, "y")
	if err := os.MkdirAll(filepath.Join(own, "latest"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRunDir(runs, "y"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(own, "latest")); err != nil || !info.IsDir() {
		t.Errorf("%v %v", info, err)
	}
}
