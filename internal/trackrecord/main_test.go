package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpdate checks that a leak without a run keeps its row, that a leak without an entry loses it, and that the text
// around the table stays.
func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	row := "| smithy-lru | measured before |\n"
	if err := os.WriteFile(path, []byte("before\n"+begin+head+row+"| gone | x |\n"+end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := update(path, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + begin + head + row + end + "after\n"; string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestUpdateBrokenRun checks that a run that cannot be read fails the update by its name, and keeps the row.
func TestUpdateBrokenRun(t *testing.T) {
	path, runs := filepath.Join(t.TempDir(), "page.md"), t.TempDir()
	row := "| smithy-lru | measured before |\n"
	if err := os.WriteFile(path, []byte(begin+head+row+end), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(runs, "smithy-lru", "20261101T000000Z")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := update(path, runs); err == nil || !strings.Contains(err.Error(), "smithy-lru") {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != begin+head+row+end {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestPage checks that the page has the table.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), begin+head) || !strings.Contains(string(text), end) {
		t.Errorf("no table of known leaks in %s", page)
	}
}
