package packed

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the archives")

const checkout = ".."

// pack returns the archive of a subject: what a build reads, which excludes tests.
func pack(checkout fs.FS, folder string) ([]byte, error) {
	a := &txtar.Archive{Comment: []byte("The sources of " + folder + ". `go generate ./packed` writes this file.\n")}
	err := fs.WalkDir(checkout, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(checkout, name)
		a.Files = append(a.Files, txtar.File{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	packed := txtar.Format(a)
	back := txtar.Parse(packed)
	if !slices.EqualFunc(a.Files, back.Files, func(a, b txtar.File) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) }) {
		return nil, fmt.Errorf("%s: a file has no newline at its end, or a line that looks like `-- NAME --`", folder)
	}
	return packed, nil
}

// TestCurrent compares the archives with the subjects of the checkout. With -update it writes the archives.
func TestCurrent(t *testing.T) {
	tree := os.DirFS(checkout)
	want := map[string]string{}
	for _, pattern := range []string{"subjects/*/go.mod", "subjects/*/*/go.mod"} {
		mods, err := fs.Glob(tree, pattern)
		if err != nil || len(mods) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, mod := range mods {
			folder := path.Dir(mod)
			data, err := pack(tree, folder)
			if err != nil {
				t.Fatal(err)
			}
			name := path.Base(folder) + ".txtar"
			if want[name] != "" {
				t.Fatalf("two subjects have the name %s", path.Base(folder))
			}
			want[name] = string(data)
		}
	}
	have, err := filepath.Glob("*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		for _, name := range have {
			if want[name] == "" {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, data := range want {
			if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(names, have) {
		t.Errorf("archives: %v\nsubjects: %v\nrun `go generate ./packed`", have, names)
	}
	for name, data := range want {
		if got, err := os.ReadFile(name); err != nil || string(got) != data {
			t.Errorf("%s differs from its subject: run `go generate ./packed`", name)
		}
	}
}

// TestUnpack checks that the folder has the files of the checkout, and that a second call writes nothing.
func TestUnpack(t *testing.T) {
	cache := t.TempDir()
	dir, err := Unpack(cache)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		count++
		got, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(filepath.Join(checkout, name))
		if string(got) != string(want) {
			t.Errorf("%s differs from the checkout", name)
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s may be written: %v", name, err)
		}
		return err
	})
	if err != nil || count < 30 {
		t.Fatalf("%d files, %v", count, err)
	}
	before, err := os.Stat(filepath.Join(dir, "subjects", "serve", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Unpack(cache)
	if err != nil || again != dir {
		t.Fatal(again, err)
	}
	if after, err := os.Stat(filepath.Join(dir, "subjects", "serve", "go.mod")); err != nil || !os.SameFile(before, after) {
		t.Errorf("the second call wrote the files again: %v", err)
	}
}

// TestUnpackRepairs checks that a folder with other files than those of the archives is replaced.
func TestUnpackRepairs(t *testing.T) {
	for _, row := range []struct {
		comment string
		change  func(dir string) error
	}{
		{"a changed file", func(dir string) error {
			file := filepath.Join(dir, "subjects", "serve", "serve.go")
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.WriteFile(file, []byte("package serve\n"), 0o600)
		}},
		{"a missing file", func(dir string) error { return os.Remove(filepath.Join(dir, "subjects", "serve", "serve.go")) }},
		{"another file, which the go command would compile", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "subjects", "serve", "more.go"), []byte("package serve\n"), 0o600)
		}},
		{"a link", func(dir string) error {
			return os.Symlink("/etc/passwd", filepath.Join(dir, "subjects", "serve", "more.go"))
		}},
		{"a file in place of the folder", func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}},
	} {
		cache := t.TempDir()
		dir, err := Unpack(cache)
		if err != nil {
			t.Fatal(err)
		}
		if err := row.change(dir); err != nil {
			t.Fatalf("%s: %v", row.comment, err)
		}
		if _, err := Unpack(cache); err != nil {
			t.Errorf("%s: %v", row.comment, err)
		}
		if all, err := files(); err != nil || !same(dir, all) {
			t.Errorf("%s: still there: %v", row.comment, err)
		}
		if left, err := os.ReadDir(cache); err != nil || len(left) != 1 {
			t.Errorf("%s: leftovers: %v %v", row.comment, left, err)
		}
	}
}

func TestHas(t *testing.T) {
	for name, want := range map[string]bool{"watch-then-delete": true, "otel-global-meter": true, "none": false, "": false, "../sources/serve": false} {
		if Has(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// TestPack checks that files which a text archive cannot hold are refused.
func TestPack(t *testing.T) {
	for text, ok := range map[string]bool{"package a\n": true, "": true, "no newline": false, "a\n-- b --\nc\n": false} {
		data, err := pack(fstest.MapFS{"s/a.go": {Data: []byte(text)}, "s/a_test.go": {Data: []byte("package a\n")}}, "s")
		if (err == nil) != ok || strings.Contains(string(data), "_test") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
