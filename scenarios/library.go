package scenarios

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

//go:embed *.yaml museum/*.yaml
var library embed.FS

const extension = ".yaml"

// maxSize is the maximum size of a scenario file in bytes. The longest that a person would write has a few hundred
// lines.
const maxSize = 1 << 20

// Source is a scenario file that was found but not yet decoded.
type Source struct {
	// Name is as a user would name it in messages: a path, or "watch-then-delete.yaml (built in)".
	Name string
	// Path is the path on disk, "" for an embedded file.
	Path string
	Data []byte
	// Set holds values for the file's parameters that replace their defaults.
	Set map[string]string
	// Recorded is set for the scenario of a run directory. Its secrets are removed, so it may have parameters that
	// nothing refers to.
	Recorded bool
	// Files is the folder of the file. Body files and similar files are read from it.
	Files fs.FS
}

// Names lists the scenarios of the library, sorted, with those in its groups.
func Names() []string {
	files := builtInFiles()
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), extension)
	}
	slices.Sort(files)
	return files
}

// Group returns the folder of a built-in scenario within the library, such as museum, or "".
func Group(name string) string {
	for _, f := range builtInFiles() {
		if path.Base(f) == name+extension && path.Dir(f) != "." {
			return path.Dir(f)
		}
	}
	return ""
}

// builtInFiles lists the files of the library.
func builtInFiles() []string {
	var files []string
	for _, pattern := range []string{"*" + extension, "*/*" + extension} {
		matches, err := fs.Glob(library, pattern)
		if err != nil { // only for a malformed pattern
			return nil
		}
		files = append(files, matches...)
	}
	return files
}

// Find returns the scenario with this name in the library. It reads a file instead if the argument has a path
// separator or a YAML extension.
func Find(nameOrFile string) (Source, error) {
	find := builtIn
	if isPath(nameOrFile) {
		find = onDisk
	}
	src, err := find(nameOrFile)
	if err != nil {
		return Source{}, &leak.UsageError{Err: err}
	}
	return src, nil
}

func isPath(s string) bool {
	return strings.ContainsRune(s, filepath.Separator) || strings.HasSuffix(s, extension) || strings.HasSuffix(s, ".yml")
}

func builtIn(name string) (Source, error) {
	if !slices.Contains(Names(), name) {
		return Source{}, leak.WithHint(fmt.Errorf("no scenario is named %s", quote(name)), "%s", unknownNameHint(name))
	}
	files, err := fs.Sub(library, cmp.Or(Group(name), "."))
	if err != nil {
		return Source{}, fmt.Errorf("read scenario %s: %w", name, err)
	}
	data, err := fs.ReadFile(files, name+extension)
	if err != nil {
		return Source{}, fmt.Errorf("read scenario %s: %w", name, err)
	}
	return Source{Name: name + extension + " (built in)", Data: data, Files: files}, nil
}

func unknownNameHint(name string) string {
	if near := Nearest(name, Names()); near != "" {
		return fmt.Sprintf("did you mean %s? `leakrig list` shows all; a file is given with its path, ./%s.yaml", near, near)
	}
	return "`leakrig list` shows the names; a file is given with its path, such as ./mine.yaml"
}

func onDisk(path string) (Source, error) {
	data, err := readLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Source{}, leak.WithHint(fmt.Errorf("scenario %s: no such file", path), "%s", missingFileHint(path))
	}
	if err != nil {
		return Source{}, fmt.Errorf("read scenario: %w", err)
	}
	// Use os.OpenRoot, not os.DirFS: a symbolic link must not lead out of the folder.
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return Source{}, fmt.Errorf("read scenario: %w", err)
	}
	return Source{Name: path, Path: path, Data: data, Files: root.FS()}, nil
}

func missingFileHint(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if slices.Contains(Names(), name) {
		return fmt.Sprintf("the built-in scenario is named without its ending: %s", name)
	}
	return "`leakrig list` shows the built-in ones"
}

// readLimited reads one byte more than Load accepts, so that Load reports a file that is too large.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}
