package nodeimage

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

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func written(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeTar(context.Background(), &b, entries); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var someFiles = []entry{
	text("usr/bin/su", 0o755|fs.ModeSetuid, []byte("su")),
	text("etc/empty", 0o600, nil),
	symlink("lib", "usr/lib"),
	{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	{name: "var/mail", mode: fs.ModeDir | 0o775, gid: 8},
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
	shrunk := text("a", 0o644, []byte("abc"))
	shrunk.size = 4
	grown := text("a", 0o644, []byte("abc"))
	grown.size = 2
	cancelled, cancel := context.WithCancelCause(context.Background())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	for name, c := range map[string]struct {
		ctx     context.Context
		entries []entry
		want    error
	}{
		"two files of one name":    {context.Background(), []entry{text("a", 0o644, nil), text("a", 0o600, nil)}, nil},
		"a file that has shrunk":   {context.Background(), []entry{shrunk}, io.ErrUnexpectedEOF},
		"a file that has grown":    {context.Background(), []entry{grown}, tar.ErrWriteTooLong},
		"to go on after a Ctrl-C":  {cancelled, []entry{text("a", 0o644, nil)}, interrupted},
		"a file that is not there": {context.Background(), []entry{{name: "a", size: 1, open: openFile("/nowhere")}}, fs.ErrNotExist},
	} {
		err := writeTar(c.ctx, io.Discard, c.entries)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIndex checks that a tar on disk is read as written, including links through links.
func TestIndex(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rootfs.tar")
	err := writeFile(context.Background(), file, []entry{
		text("usr/lib/x86/libc.so.6.1", 0o644, []byte("libc")),
		symlink("usr/lib/x86/libc.so.6", "libc.so.6.1"),
		symlink("lib", "usr/lib"),
		symlink("usr/lib64/ld.so", "/lib/x86/libc.so.6"),
		symlink("ring", "ring"),
	})
	if err != nil {
		t.Fatal(err)
	}
	x, err := index(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usr/lib/x86/libc.so.6.1", "usr/lib/x86/libc.so.6", "lib/x86/libc.so.6", "usr/lib64/ld.so"} {
		e, ok := x.follow(name)
		if !ok {
			t.Errorf("%s leads nowhere", name)
			continue
		}
		r, err := e.open()
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r); string(data) != "libc" || err != nil {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		r.Close()
	}
	for _, name := range []string{"ring", "usr/lib/nothing"} {
		if _, ok := x.follow(name); ok {
			t.Errorf("%s leads somewhere", name)
		}
	}
}

// A file that could not be written as a whole is not there, and nothing else is.
func TestWriteFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	if err := writeFile(context.Background(), filepath.Join(dir, "x.tar"), []entry{{name: "a", size: 1, open: openFile("/nowhere")}}); err == nil {
		t.Error("no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Two images that share a layer, and are listed out of a map, make the same archive every time.
func TestArchiveIsDeterministic(t *testing.T) {
	pack := func() []byte {
		shared, err := newLayer(context.Background(), someFiles)
		if err != nil {
			t.Fatal(err)
		}
		images := map[string]v1.Image{}
		for _, name := range []string{"a", "b", "c", "d"} {
			own, err := newLayer(context.Background(), []entry{text(name, 0o755, []byte(name))})
			if err != nil {
				t.Fatal(err)
			}
			image, err := newImage(entrypoint(name), shared, own)
			if err != nil {
				t.Fatal(err)
			}
			images[ControlPlane+"/"+name+":v1"] = image
		}
		entries, err := archive(images)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 1+4+1+4 { // manifest, configurations, the shared layer, the own ones
			t.Errorf("%d files", len(entries))
		}
		return written(t, entries)
	}
	first := pack()
	for range 5 {
		if !bytes.Equal(pack(), first) {
			t.Fatal("another archive")
		}
	}
}
