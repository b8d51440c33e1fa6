package subjects

import (
	"bytes"
	"go/build"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/leakrig/leakrig/leak"
)

// Bounds of what is read of foreign source files.
const (
	sourceAround = 3 // lines before and after
	sourceFile   = 4 << 20
	sourceLine   = 200 // runes
)

// SourceFinder reads the lines that frames stand on from what is at hand: the module cache, and the
// standard library where it is of the same Go. It reads nothing else, whatever a profile names.
type SourceFinder struct {
	modules fs.FS
	// std is the standard library, by version of Go.
	std map[string]fs.FS
}

// NewSourceFinder looks where the go command would.
func NewSourceFinder() *SourceFinder {
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		if list := filepath.SplitList(build.Default.GOPATH); len(list) > 0 {
			cache = filepath.Join(list[0], "pkg", "mod")
		}
	}
	f := &SourceFinder{modules: rooted(cache), std: map[string]fs.FS{}}
	root := build.Default.GOROOT
	if tool, err := exec.LookPath("go"); err == nil && root == "" {
		if tool, err = filepath.EvalSymlinks(tool); err == nil {
			root = filepath.Dir(filepath.Dir(tool))
		}
	}
	if data, err := os.ReadFile(filepath.Join(root, "VERSION")); err == nil {
		version, _, _ := strings.Cut(string(data), "\n")
		f.std[strings.TrimSpace(version)] = rooted(filepath.Join(root, "src"))
	}
	return f
}

// rooted is the folder as a file system that no name and no link leads out of; an empty one where there is
// no such folder.
func rooted(dir string) fs.FS {
	if root, err := os.OpenRoot(dir); err == nil {
		return root.FS()
	}
	return none{}
}

type none struct{}

func (none) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Excerpt returns the line of the frame with a few around it.
func (f *SourceFinder) Excerpt(info leak.SubjectInfo, frame leak.Frame) (leak.Excerpt, bool) {
	module, version, file, ok := info.Origin(frame)
	if !ok || frame.Line < 1 || !strings.HasSuffix(file, ".go") {
		return leak.Excerpt{}, false
	}
	in, name := f.modules, escapePath(module)+"@"+escapePath(version)+"/"+file
	if module == "std" {
		if in, name = f.std[version], file; in == nil {
			in, name = f.modules, "golang.org/toolchain@v0.0.1-"+version+"."+build.Default.GOOS+"-"+build.Default.GOARCH+"/src/"+file
		}
	}
	data, err := readSource(in, name)
	if err != nil {
		return leak.Excerpt{}, false
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if frame.Line > len(lines) {
		return leak.Excerpt{}, false
	}
	e := leak.Excerpt{First: max(1, frame.Line-sourceAround)}
	for _, line := range lines[e.First-1 : min(len(lines), frame.Line+sourceAround)] {
		if r := []rune(line); len(r) > sourceLine {
			line = string(r[:sourceLine]) + "…"
		}
		e.Lines = append(e.Lines, strings.TrimRight(line, "\r"))
	}
	return e, true
}

func readSource(in fs.FS, name string) ([]byte, error) {
	file, err := in.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, sourceFile))
	if err == nil && bytes.IndexByte(data, 0) >= 0 {
		err = fs.ErrInvalid
	}
	return data, err
}

// escapePath is the module cache's spelling, which must work where case is ignored: "!b" for "B".
func escapePath(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
