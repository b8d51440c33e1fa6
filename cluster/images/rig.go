package images

import (
	"cmp"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/leak"
)

// Rig is an image of leakrig itself.
type Rig struct {
	// Binary is leakrig's binary, Programs are further ones, which are found by their base names on the PATH. All
	// are static and for Linux on the same architecture.
	Binary   string
	Programs []string
	// Tag is what the image is called, as in leakrig:v1.
	Tag string
	// Version is that of leakrig, for the image's label.
	Version string
}

// architectures are those of the binaries, as Go calls them.
var architectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// Write writes the image as an archive that docker, podman and kind load. The same binaries give the same
// bytes. It returns the architecture.
func (r Rig) Write(w io.Writer) (arch string, err error) {
	tag, err := name.NewTag(r.Tag)
	if err != nil {
		return "", leak.WithHint(fmt.Errorf("image: %w", err), "as in leakrig:v1 or registry.example.com/leakrig:v1")
	}
	image, arch, err := r.image(gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	if err := tarball.Write(tag, image, w); err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	return arch, nil
}

// image makes the image, with its layer compressed so much, as compress/gzip counts.
func (r Rig) image(compression int) (image v1.Image, arch string, err error) {
	sticky := fs.ModeDir | fs.ModeSticky | 0o777
	entries := []tarfile.Entry{tarfile.Folder("bin"), {Name: "tmp", Mode: sticky}, {Name: "work", Mode: sticky}}
	for i, program := range append([]string{r.Binary}, r.Programs...) {
		is, err := static(program)
		if err == nil && i > 0 && is != arch {
			err = fmt.Errorf("it is for %s, leakrig for %s", is, arch)
		}
		if err != nil {
			return nil, "", leak.WithHint(fmt.Errorf("image: %s: %w", program, err), "CGO_ENABLED=0 GOOS=linux GOARCH=%s go build makes one that runs there", cmp.Or(arch, "amd64"))
		}
		arch = is
		name := "bin/" + filepath.Base(program)
		if i == 0 {
			name = "leakrig"
		}
		file, err := tarfile.Copy(name, 0o755, program)
		if err != nil {
			return nil, "", fmt.Errorf("image: %w", err)
		}
		entries = append(entries, file)
	}
	image, err = imageOf(entries, compression, v1.Config{
		Entrypoint: []string{"/leakrig"}, User: imageUser, WorkingDir: "/work",
		Env:    []string{"PATH=/bin", "HOME=/tmp", "LEAKRIG_CACHE=/tmp/leakrig"},
		Labels: map[string]string{"org.opencontainers.image.title": "leakrig", "org.opencontainers.image.version": r.Version, "org.opencontainers.image.licenses": "Apache-2.0"},
	})
	if err != nil {
		return nil, "", fmt.Errorf("image: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, "", fmt.Errorf("image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, "", fmt.Errorf("image: %w", err)
	}
	return image, arch, nil
}

// static returns the architecture of a program that needs no other file.
func static(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("no program for Linux: %w", err)
	}
	defer f.Close()
	arch, ok := architectures[f.Machine]
	if !ok {
		return "", fmt.Errorf("its architecture %s is none of amd64 and arm64", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("it is linked dynamically, and the image has no libraries")
		}
	}
	return arch, nil
}
