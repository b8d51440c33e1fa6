package images

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/leakrig/leakrig/leak"
)

// program builds a tiny static program for linux/amd64 and changes its bytes: what stands in a header is all
// that is looked at, and cross-compiling takes long.
func program(t *testing.T, name string, changes ...func([]byte)) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module tiny\n\ngo 1.24\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", name, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(data)
	}
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// machine changes what the ELF header says.
func machine(m elf.Machine) func([]byte) {
	return func(b []byte) { binary.LittleEndian.PutUint16(b[18:], uint16(m)) }
}

// dynamic makes the first program header one of a dynamic loader.
func dynamic(b []byte) {
	binary.LittleEndian.PutUint32(b[binary.LittleEndian.Uint64(b[32:]):], uint32(elf.PT_INTERP))
}

func TestRigImage(t *testing.T) {
	rig, tool := program(t, "rig", machine(elf.EM_AARCH64)), program(t, "my-service", machine(elf.EM_AARCH64))
	r := Rig{Binary: rig, Programs: []string{tool}, Tag: "example.com/leakrig:v1", Version: "v1"}
	var archive, again bytes.Buffer
	arch, err := r.Write(&archive)
	if err != nil || arch != "arm64" {
		t.Fatal(arch, err)
	}
	if _, err := r.Write(&again); err != nil || !bytes.Equal(archive.Bytes(), again.Bytes()) {
		t.Errorf("the same binaries make another image (%v)", err)
	}
	image, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || config.Config.User != imageUser || strings.Join(config.Config.Entrypoint, " ") != "/leakrig" || config.Config.Labels["org.opencontainers.image.version"] != "v1" {
		t.Errorf("%+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	data, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	modes := map[string]int64{}
	for r := tar.NewReader(data); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
		if h.Uid != 0 || !h.ModTime.IsZero() && h.ModTime.Unix() != 0 {
			t.Errorf("%s: owner %d, time %s", h.Name, h.Uid, h.ModTime)
		}
	}
	for name, mode := range map[string]int64{"leakrig": 0o755, "bin/my-service": 0o755, "tmp/": 0o1777, "work/": 0o1777} {
		if modes[name] != mode {
			t.Errorf("%s has mode %o", name, modes[name])
		}
	}
}

func TestRigImageRefuses(t *testing.T) {
	linux := program(t, "rig")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		r    Rig
		want string
	}{
		{"a program for another system", Rig{Binary: program(t, "rig", func(b []byte) { copy(b, "\xcf\xfa\xed\xfe") }), Tag: "a:b"}, "no program for Linux"},
		{"another architecture", Rig{Binary: linux, Programs: []string{program(t, "other", machine(elf.EM_AARCH64))}, Tag: "a:b"}, "it is for arm64, leakrig for amd64"},
		{"an architecture without images", Rig{Binary: program(t, "rig", machine(elf.EM_RISCV)), Tag: "a:b"}, "is none of amd64 and arm64"},
		{"a dynamic program", Rig{Binary: program(t, "rig", dynamic), Tag: "a:b"}, "linked dynamically"},
		{"a script", Rig{Binary: linux, Programs: []string{text}, Tag: "a:b"}, "no program for Linux"},
		{"no such file", Rig{Binary: filepath.Join(t.TempDir(), "none"), Tag: "a:b"}, "no such file"},
		{"a tag that is none", Rig{Binary: linux, Tag: "A b"}, "image: "},
	} {
		if _, err := c.r.Write(io.Discard); err == nil || !strings.Contains(err.Error(), c.want) || leak.Hint(err) == "" {
			t.Errorf("%s: %v (hint %q)", c.name, err, leak.Hint(err))
		}
	}
}
