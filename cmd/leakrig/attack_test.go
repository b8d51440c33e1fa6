package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Attempts to get a pass for nothing, or to read what nobody should: none of them succeeds.
func TestAttackScripts(t *testing.T) {
	for _, name := range []string{"secrets", "words", "bearer", "observe", "seals"} {
		if _, err := os.Stat(filepath.Join("testdata/attacks", name+".txtar")); err != nil {
			t.Error(err)
		}
	}
	runScripts(t, "testdata/attacks")
}

// searches TEXT PATH... fails where a file, or one below a folder, holds a text, unpacked if it is compressed.
func searches(ts *testscript.TestScript, _ bool, args []string) {
	files := 0
	for _, name := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
				if data, err = io.ReadAll(z); err != nil {
					return err
				}
			}
			if at := bytes.Index(data, []byte(args[0])); at >= 0 {
				ts.Fatalf("%s holds %q", path, data[max(0, at-60):min(len(data), at+60)])
			}
			return nil
		}))
	}
	if files == 0 {
		ts.Fatalf("there is nothing to search")
	}
}
