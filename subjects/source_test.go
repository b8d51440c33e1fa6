package subjects

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/leakrig/leakrig/leak"
)

func TestExcerpt(t *testing.T) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	file := &fstest.MapFile{Data: []byte(text.String())}
	f := &SourceFinder{
		modules: fstest.MapFS{
			"example.com/m@v1.0.0/m.go": file, "github.com/!burnt!sushi/toml@v1.4.0/t.go": file, "example.com/m@v1.0.0/secret.txt": file,
			"example.com/m@v1.0.0/long.go":   {Data: []byte(strings.Repeat("x", 1000))},
			"example.com/m@v1.0.0/binary.go": {Data: []byte("a\x00b")},
		},
		std: map[string]fs.FS{"go1.26.8": fstest.MapFS{"net/net.go": file}},
	}
	info := leak.SubjectInfo{GoVersion: "go1.26.8"}
	for _, c := range []struct {
		about, file string
		line        int
		first, last int // 0: nothing
	}{
		{"in the middle", "example.com/m@v1.0.0/m.go", 10, 7, 13},
		{"the first line", "example.com/m@v1.0.0/m.go", 1, 1, 4},
		{"the last line", "example.com/m@v1.0.0/m.go", 20, 17, 20},
		{"past the end: another version's file", "example.com/m@v1.0.0/m.go", 21, 0, 0},
		{"capitals", "github.com/BurntSushi/toml@v1.4.0/t.go", 2, 1, 5},
		{"the standard library", "net/net.go", 5, 2, 8},
		{"no such version", "example.com/m@v1.0.1/m.go", 10, 0, 0},
		{"not Go", "example.com/m@v1.0.0/secret.txt", 10, 0, 0},
		{"not text", "example.com/m@v1.0.0/binary.go", 1, 0, 0},
		{"upwards", "example.com/m@v1.0.0/../m@v1.0.0/m.go", 10, 7, 13},
		{"out", "example.com/m@v1.0.0/../../../etc/m.go", 10, 0, 0},
	} {
		e, ok := f.Excerpt(info, leak.Frame{File: c.file, Line: c.line})
		if ok != (c.first > 0) {
			t.Errorf("%s: %v", c.about, e)
			continue
		}
		if ok && (e.First != c.first || e.Lines[0] != fmt.Sprint("line ", c.first) || e.Lines[len(e.Lines)-1] != fmt.Sprint("line ", c.last)) {
			t.Errorf("%s: %+v", c.about, e)
		}
	}
	if e, _ := f.Excerpt(info, leak.Frame{File: "example.com/m@v1.0.0/long.go", Line: 1}); len([]rune(e.Lines[0])) != sourceLine+1 {
		t.Errorf("a long line: %d", len(e.Lines[0]))
	}
}

// This test's own Go has its library, and a link does not lead out of the module cache.
func TestNewSourceFinder(t *testing.T) {
	cache := t.TempDir()
	outside := filepath.Join(t.TempDir(), "x.go")
	dir := filepath.Join(cache, "example.com", "m@v1.0.0")
	for _, err := range []error{
		os.WriteFile(outside, []byte("secret\n"), 0o600), os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "in.go"), []byte("package m\n"), 0o600), os.Symlink(outside, filepath.Join(dir, "out.go")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOMODCACHE", cache)
	f := NewSourceFinder()
	if e, ok := f.Excerpt(leak.SubjectInfo{}, leak.Frame{File: "example.com/m@v1.0.0/in.go", Line: 1}); !ok || e.Lines[0] != "package m" {
		t.Errorf("%v %v", e, ok)
	}
	if e, ok := f.Excerpt(leak.SubjectInfo{}, leak.Frame{File: "example.com/m@v1.0.0/out.go", Line: 1}); ok {
		t.Errorf("read %v through a link", e)
	}
	for version := range f.std {
		if e, ok := f.Excerpt(leak.SubjectInfo{GoVersion: version}, leak.Frame{File: "net/http/server.go", Line: 1}); !ok || !strings.Contains(e.Lines[0], "Copyright") {
			t.Errorf("%s: %v %v", version, e, ok)
		}
	}
}

// TestExcerptOfOwnModule checks that lines of the subject's own module are read from its folder as long as they are
// unchanged since the build, and that no other file of the folder is read.
func TestExcerptOfOwnModule(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, changed time.Duration) {
		t.Helper()
		path := filepath.Join(dir, name)
		at := time.Now().Add(changed)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", "package main\n\nfunc main() {}\n", -time.Hour)
	write("sub/a.go", "package sub\n", -time.Hour)
	write("edited.go", "package main\n", time.Hour)
	write("secret.txt", "secret\n", -time.Hour)
	info := leak.SubjectInfo{GoVersion: "go1.26.8", Main: "example.com/app"}
	f := (&SourceFinder{modules: none{}}).WithOwn(&OwnSource{files: rooted(dir), built: time.Now()})
	for _, c := range []struct {
		about, file string
		line        int
		want        string // of the first line; "" is nothing
	}{
		{"a file", "example.com/app/main.go", 3, "package main"},
		{"one in a folder", "example.com/app/sub/a.go", 1, "package sub"},
		{"past its end", "example.com/app/main.go", 4, ""},
		{"edited since it was built", "example.com/app/edited.go", 1, ""},
		{"not Go", "example.com/app/secret.txt", 1, ""},
		{"not there", "example.com/app/other.go", 1, ""},
		{"out", "example.com/app/../../../../etc/passwd.go", 1, ""},
		{"of another module", "example.com/other/main.go", 1, ""},
	} {
		e, ok := f.Excerpt(info, leak.Frame{File: c.file, Line: c.line})
		if ok != (c.want != "") || ok && e.Lines[0] != c.want {
			t.Errorf("%s: %v, %+v", c.about, ok, e)
		}
	}
	// After a change, and for a program that is not from that folder, there is no excerpt.
	if e, ok := (&SourceFinder{modules: none{}}).Excerpt(info, leak.Frame{File: "example.com/app/main.go", Line: 1}); ok {
		t.Errorf("without the folder: %+v", e)
	}
	if e, ok := f.Excerpt(leak.SubjectInfo{GoVersion: "go1.26.8"}, leak.Frame{File: "example.com/app/main.go", Line: 1}); ok {
		t.Errorf("of an unknown module: %+v", e)
	}
}
