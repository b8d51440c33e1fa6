package tarfile

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nowhere opens a file that does not exist.
func nowhere() (io.ReadCloser, error) { return os.Open("/nowhere") }

func written(t *testing.T, entries []Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(context.Background(), &b, entries); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var someFiles = []Entry{
	Text("usr/bin/su", 0o755|fs.ModeSetuid, []byte("su")),
	Text("etc/empty", 0o600, nil),
	Symlink("lib", "usr/lib"),
	{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	{Name: "var/mail", Mode: fs.ModeDir | 0o775, GID: 8},
}

// The same files in any order give the same bytes.
func TestTarIsDeterministic(t *testing.T) {
	want := written(t, someFiles)
	reversed := slices.Clone(someFiles)
	slices.Reverse(reversed)
	if !bytes.Equal(written(t, reversed), want) {
		t.Error("the order of the entries shows")
	}
}

func TestTarHeaders(t *testing.T) {
	var got []string
	for r := tar.NewReader(bytes.NewReader(written(t, someFiles))); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s: time %v, owner %q %q", h.Name, h.ModTime, h.Uname, h.Gname)
		}
		got = append(got, h.Name+" "+fs.FileMode(h.FileInfo().Mode()).String()+" "+h.Linkname)
	}
	want := []string{
		"etc/ drwxr-xr-x ", "etc/empty -rw------- ", "lib Lrwxrwxrwx usr/lib", "tmp/ dtrwxrwxrwx ",
		"usr/ drwxr-xr-x ", "usr/bin/ drwxr-xr-x ", "usr/bin/su urwxr-xr-x ", "var/ drwxr-xr-x ", "var/mail/ drwxrwxr-x ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTarRefuses(t *testing.T) {
	shrunk := Text("a", 0o644, []byte("abc"))
	shrunk.Size = 4
	grown := Text("a", 0o644, []byte("abc"))
	grown.Size = 2
	cancelled, cancel := context.WithCancelCause(context.Background())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	for name, c := range map[string]struct {
		ctx     context.Context
		entries []Entry
		want    error
	}{
		"two files of one name":    {context.Background(), []Entry{Text("a", 0o644, nil), Text("a", 0o600, nil)}, nil},
		"a file that has shrunk":   {context.Background(), []Entry{shrunk}, io.ErrUnexpectedEOF},
		"a file that has grown":    {context.Background(), []Entry{grown}, tar.ErrWriteTooLong},
		"to go on after a Ctrl-C":  {cancelled, []Entry{Text("a", 0o644, nil)}, interrupted},
		"a file that is not there": {context.Background(), []Entry{{Name: "a", Size: 1, Open: nowhere}}, fs.ErrNotExist},
	} {
		err := Write(c.ctx, io.Discard, c.entries)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIndex checks that a tar on disk is read as written, including links through links.
func TestIndex(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rootfs.tar")
	err := WriteFile(context.Background(), file, []Entry{
		Text("usr/lib/x86/libc.so.6.1", 0o644, []byte("libc")),
		Symlink("usr/lib/x86/libc.so.6", "libc.so.6.1"),
		Symlink("lib", "usr/lib"),
		Symlink("usr/lib64/ld.so", "/lib/x86/libc.so.6"),
		Symlink("ring", "ring"),
	})
	if err != nil {
		t.Fatal(err)
	}
	x, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usr/lib/x86/libc.so.6.1", "usr/lib/x86/libc.so.6", "lib/x86/libc.so.6", "usr/lib64/ld.so"} {
		e, ok := x.Follow(name)
		if !ok {
			t.Errorf("%s leads nowhere", name)
			continue
		}
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r); string(data) != "libc" || err != nil {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		r.Close()
	}
	for _, name := range []string{"ring", "usr/lib/nothing"} {
		if _, ok := x.Follow(name); ok {
			t.Errorf("%s leads somewhere", name)
		}
	}
}

// A file that could not be written as a whole is not there, and nothing else is.
func TestWriteFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(context.Background(), filepath.Join(dir, "x.tar"), []Entry{{Name: "a", Size: 1, Open: nowhere}}); err == nil {
		t.Error("no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
