package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// proxy MODULE FROM TO makes a Go module proxy in the folder TO of the folders FROM/VERSION. One that has a file
// named unlisted is not in the list, one with no-info cannot be resolved, one with no-zip not be downloaded.
func proxy(ts *testscript.TestScript, _ bool, args []string) {
	module, from, to := args[0], ts.MkAbs(args[1]), filepath.Join(ts.MkAbs(args[2]), filepath.FromSlash(args[0]), "@v")
	folders, err := os.ReadDir(from)
	ts.Check(err)
	ts.Check(os.MkdirAll(to, 0o700))
	var list strings.Builder
	for _, f := range folders {
		dir, version := filepath.Join(from, f.Name()), f.Name()
		has := func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		}
		if !has("unlisted") {
			fmt.Fprintln(&list, version)
		}
		write := func(ending string, data []byte) {
			ts.Check(os.WriteFile(filepath.Join(to, version+ending), data, 0o600))
		}
		if has("no-info") {
			continue
		}
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			mod = fmt.Appendf(nil, "module %s\n\ngo 1.26.0\n", module)
		}
		write(".info", fmt.Appendf(nil, `{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, version))
		write(".mod", mod)
		if !has("no-zip") {
			write(".zip", zipped(ts, dir, module+"@"+version, mod))
		}
	}
	ts.Check(os.WriteFile(filepath.Join(to, "list"), []byte(list.String()), 0o600))
}

func zipped(ts *testscript.TestScript, dir, prefix string, mod []byte) []byte {
	var data bytes.Buffer
	z := zip.NewWriter(&data)
	add := func(name string, text []byte) {
		w, err := z.Create(prefix + "/" + name)
		ts.Check(err)
		_, err = w.Write(text)
		ts.Check(err)
	}
	add("go.mod", mod)
	ts.Check(fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "go.mod" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		add(path, text)
		return err
	}))
	ts.Check(z.Close())
	return data.Bytes()
}
