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
	"time"
	"unicode"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// Limits for reading source files, which are untrusted.
const (
	sourceAround = 3 // lines before and after
	sourceFile   = 4 << 20
	sourceLine   = 200 // runes
)

// SourceFinder reads the source lines of frames from local files: the module cache, and the standard library if it
// has the same Go version. It reads no other files, for any profile.
type SourceFinder struct {
	modules fs.FS
	// std is the standard library, by version of Go.
	std map[string]fs.FS
	own *OwnSource
}

// OwnSource is the folder that a subject was built from, and the time of the build: later changes are not part of the
// binary.
type OwnSource struct {
	files fs.FS
	built time.Time
}

// WithOwn also reads lines of the subject's own module, right after a run that built it; nil adds nothing.
func (f *SourceFinder) WithOwn(own *OwnSource) *SourceFinder {
	f.own = own
	return f
}

// excerpt reads the lines around one of the subject's own.
func (o *OwnSource) excerpt(file string, line int) (rundir.Excerpt, bool) {
	if o == nil {
		return rundir.Excerpt{}, false
	}
	info, err := fs.Stat(o.files, file)
	if err != nil || info.ModTime().After(o.built) {
		return rundir.Excerpt{}, false
	}
	return excerpt(o.files, file, line)
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

// rooted returns the folder as a file system that no name and no link can leave; an empty one if the folder is
// missing.
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
func (f *SourceFinder) Excerpt(info leak.SubjectInfo, frame leak.Frame) (rundir.Excerpt, bool) {
	if file, ok := info.Own(frame); ok {
		return f.own.excerpt(file, frame.Line)
	}
	module, version, file, ok := info.Origin(frame)
	if !ok {
		return rundir.Excerpt{}, false
	}
	in, name := f.modules, escapePath(module)+"@"+escapePath(version)+"/"+file
	if module == "std" {
		if in, name = f.std[version], file; in == nil {
			in, name = f.modules, "golang.org/toolchain@v0.0.1-"+version+"."+build.Default.GOOS+"-"+build.Default.GOARCH+"/src/"+file
		}
	}
	return excerpt(in, name, frame.Line)
}

// excerpt reads a few lines of a Go file.
func excerpt(in fs.FS, name string, at int) (rundir.Excerpt, bool) {
	if at < 1 || !strings.HasSuffix(name, ".go") {
		return rundir.Excerpt{}, false
	}
	data, err := readSource(in, name)
	if err != nil {
		return rundir.Excerpt{}, false
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if at > len(lines) {
		return rundir.Excerpt{}, false
	}
	e := rundir.Excerpt{First: max(1, at-sourceAround)}
	for _, line := range lines[e.First-1 : min(len(lines), at+sourceAround)] {
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
