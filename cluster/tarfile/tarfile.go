package nodeimage

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// entry is one file of a tar. Its name has no leading slash.
type entry struct {
	name string
	mode fs.FileMode // type and permission bits, with setuid, setgid and sticky as in package fs
	uid  int
	gid  int
	link string // what a symlink points at
	size int64
	open func() (io.ReadCloser, error) // nil where size is 0
}

// text is a regular file with the given content.
func text(name string, mode fs.FileMode, data []byte) entry {
	return entry{name: name, mode: mode, size: int64(len(data)), open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

// copyOf is a regular file with the content of a file on this machine.
func copyOf(name string, mode fs.FileMode, file string) (entry, error) {
	info, err := os.Stat(file)
	if err != nil {
		return entry{}, err
	}
	return entry{name: name, mode: mode, size: info.Size(), open: func() (io.ReadCloser, error) { return os.Open(file) }}, nil
}

func symlink(name, target string) entry {
	return entry{name: name, mode: fs.ModeSymlink | 0o777, link: target}
}

func folder(name string) entry { return entry{name: name, mode: fs.ModeDir | 0o755} }

// writeTar writes the entries sorted, without times, and with the folders that they lack, so that the
// same entries in any order give the same bytes. A name that comes twice is an error: which one would
// win is not for the reader of a tar to decide.
func writeTar(ctx context.Context, w io.Writer, entries []entry) error {
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
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return t.Close()
}

func arrange(entries []entry) ([]entry, error) {
	byName := map[string]entry{}
	for _, e := range entries {
		if _, twice := byName[e.name]; twice {
			return nil, fmt.Errorf("%s: two files of this name", e.name)
		}
		byName[e.name] = e
	}
	for _, e := range entries {
		for dir := path.Dir(e.name); dir != "."; dir = path.Dir(dir) {
			if _, ok := byName[dir]; !ok {
				byName[dir] = folder(dir)
			}
		}
	}
	sorted := make([]entry, 0, len(byName))
	for _, e := range byName {
		sorted = append(sorted, e)
	}
	// A folder sorts before its content.
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return sorted, nil
}

func (e entry) writeTo(t *tar.Writer) error {
	h := &tar.Header{Name: e.name, Mode: int64(permissions(e.mode)), Uid: e.uid, Gid: e.gid, ModTime: time.Unix(0, 0)}
	switch {
	case e.mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
	case e.mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.size
	}
	if err := t.WriteHeader(h); err != nil || h.Size == 0 {
		return err
	}
	r, err := e.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if n, err := io.Copy(t, r); err != nil || n != e.size {
		return fmt.Errorf("%d of %d bytes: %w", n, e.size, orChanged(err))
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

// stream is the tar of the entries as a reader. Closing it early ends the writing.
func stream(ctx context.Context, entries []entry) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeTar(ctx, w, entries)) }()
	return r
}

// indexed is a tar on disk with random access to its files.
type indexed map[string]entry

// index reads the headers of a tar that writeTar wrote.
func index(file string) (indexed, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := indexed{}
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
		all[name] = entry{name: name, mode: h.FileInfo().Mode(), uid: h.Uid, gid: h.Gid, link: h.Linkname, size: h.Size, open: section(file, start, h.Size)}
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

// follow returns the file at the end of the links that name leads through, or false.
func (x indexed) follow(name string) (entry, bool) {
	for range 16 { // a ring of links never ends
		next, ok := x.step(name)
		if !ok {
			e, ok := x[name]
			return e, ok
		}
		name = next
	}
	return entry{}, false
}

// step replaces the first link in a path: /lib is one, too.
func (x indexed) step(name string) (string, bool) {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		e, ok := x[name[:i]]
		if !ok || e.mode&fs.ModeSymlink == 0 {
			continue
		}
		target := e.link
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(e.name), target)
		}
		return strings.TrimPrefix(path.Join("/", target, name[i:]), "/"), true
	}
	return "", false
}
