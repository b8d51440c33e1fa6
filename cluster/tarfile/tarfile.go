// Package tarfile writes tars of which the same files give the same bytes, and reads their files at random.
package tarfile

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	_ "embed" // of its own source
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Source is the source of this package, for the key of a cache: any change may change what is written.
//
//go:embed tarfile.go
var Source string

// Entry is one file of a tar. Its name has no leading slash.
type Entry struct {
	Name string
	Mode fs.FileMode // type and permission bits, with setuid, setgid and sticky as in package fs
	UID  int
	GID  int
	Link string // what a symlink points at
	Size int64
	Open func() (io.ReadCloser, error) // nil where Size is 0
}

// Text is a regular file with the given content.
func Text(name string, mode fs.FileMode, data []byte) Entry {
	return Entry{Name: name, Mode: mode, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

// Copy is a regular file with the content of a file on this machine.
func Copy(name string, mode fs.FileMode, file string) (Entry, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: name, Mode: mode, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(file) }}, nil
}

// Symlink is a symbolic link to target.
func Symlink(name, target string) Entry {
	return Entry{Name: name, Mode: fs.ModeSymlink | 0o777, Link: target}
}

// Folder is an empty folder.
func Folder(name string) Entry { return Entry{Name: name, Mode: fs.ModeDir | 0o755} }

// Write writes the entries sorted, without times, and with the folders that they lack, so that the
// same entries in any order give the same bytes. A name that comes twice is an error: which one would
// win is not for the reader of a tar to decide.
func Write(ctx context.Context, w io.Writer, entries []Entry) error {
	sorted, err := arrange(entries)
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, e := range sorted {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := e.writeTo(t); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return t.Close()
}

// WriteFile writes a tar atomically.
func WriteFile(ctx context.Context, file string, entries []Entry) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	buffered := bufio.NewWriterSize(tmp, 1<<20)
	err = errors.Join(Write(ctx, buffered, entries), buffered.Flush(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

func arrange(entries []Entry) ([]Entry, error) {
	byName := map[string]Entry{}
	for _, e := range entries {
		if _, twice := byName[e.Name]; twice {
			return nil, fmt.Errorf("%s: two files of this name", e.Name)
		}
		byName[e.Name] = e
	}
	for _, e := range entries {
		for dir := path.Dir(e.Name); dir != "."; dir = path.Dir(dir) {
			if _, ok := byName[dir]; !ok {
				byName[dir] = Folder(dir)
			}
		}
	}
	sorted := make([]Entry, 0, len(byName))
	for _, e := range byName {
		sorted = append(sorted, e)
	}
	// A folder sorts before its content.
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return sorted, nil
}

func (e Entry) writeTo(t *tar.Writer) error {
	h := &tar.Header{Name: e.Name, Mode: int64(permissions(e.Mode)), Uid: e.UID, Gid: e.GID, ModTime: time.Unix(0, 0)}
	switch {
	case e.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, e.Name+"/"
	case e.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	}
	if err := t.WriteHeader(h); err != nil || h.Size == 0 {
		return err
	}
	r, err := e.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if n, err := io.Copy(t, r); err != nil || n != e.Size {
		return fmt.Errorf("%d of %d bytes: %w", n, e.Size, orChanged(err))
	}
	return nil
}

func orChanged(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// permissions are the bits of chmod.
func permissions(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// Stream is the tar of the entries as a reader. Closing it early ends the writing.
func Stream(ctx context.Context, entries []Entry) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(Write(ctx, w, entries)) }()
	return r
}

// Index is a tar on disk with random access to its files.
type Index map[string]Entry

// Open reads the headers of a tar that Write wrote.
func Open(file string) (Index, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := Index{}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		// The tar reader is unbuffered and has read only headers, so the content begins at the current offset.
		start, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(h.Name, "/")
		all[name] = Entry{Name: name, Mode: h.FileInfo().Mode(), UID: h.Uid, GID: h.Gid, Link: h.Linkname, Size: h.Size, Open: section(file, start, h.Size)}
	}
}

// section opens a part of a file.
func section(file string, start, size int64) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		return part{io.NewSectionReader(f, start, size), f}, nil
	}
}

// part is a part of an open file.
type part struct {
	*io.SectionReader
	io.Closer
}

// Follow returns the file at the end of the links that name leads through, or false.
func (x Index) Follow(name string) (Entry, bool) {
	for range 16 { // a ring of links never ends
		next, ok := x.step(name)
		if !ok {
			e, ok := x[name]
			return e, ok
		}
		name = next
	}
	return Entry{}, false
}

// step replaces the first link in a path: /lib is one, too.
func (x Index) step(name string) (string, bool) {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		e, ok := x[name[:i]]
		if !ok || e.Mode&fs.ModeSymlink == 0 {
			continue
		}
		target := e.Link
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(e.Name), target)
		}
		return strings.TrimPrefix(path.Join("/", target, name[i:]), "/"), true
	}
	return "", false
}
