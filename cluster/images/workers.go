package images

import (
	"compress/gzip"
	"os"
	"os/exec"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/leakrig/leakrig/leak"
)

const workerRepository = "leakrig.local/worker"

// Workers provides the image of workers in a kind cluster.
type Workers struct {
	Image, Rig string
	Programs   []string // beside leakrig, by name
}

// found returns the paths of the programs on this machine that the image contains.
func (w Workers) found() ([]string, error) {
	var paths []string
	for _, name := range w.Programs {
		path, err := exec.LookPath(name)
		if err == nil {
			_, err = static(path)
		}
		if err != nil {
			return nil, leak.Usage("the image of workers takes static programs for Linux from the PATH; --worker-image names one that has others (`leakrig image --add FILE`, or any with /leakrig in it)", "load from workers: %s: %w", name, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// binary is leakrig's own for Linux, which the image is made of.
func (w Workers) binary() (string, error) {
	if w.Rig != "" {
		return w.Rig, nil
	}
	return os.Executable()
}

// Check reports before a boot whether an image is possible.
func (w Workers) Check() error {
	if w.Image != "" {
		return nil
	}
	programs, err := w.found()
	if err != nil {
		return err
	}
	rig, err := w.binary()
	if err != nil {
		return err
	}
	arch, err := static(rig)
	if err != nil {
		return leak.Usage("--worker-rig names a static binary of leakrig for Linux, as CGO_ENABLED=0 GOOS=linux go build ./cmd/leakrig makes it", "load from workers: %s: %w", rig, err)
	}
	for _, p := range programs {
		if is, err := static(p); err != nil || is != arch {
			return leak.Usage("--worker-rig names a leakrig of another architecture", "load from workers: %s is for %s, and leakrig for %s", p, is, arch)
		}
	}
	return nil
}

// Build makes the image of workers.
func (w Workers) Build() (ref string, image v1.Image, err error) {
	rig, err := w.binary()
	if err != nil {
		return "", nil, err
	}
	programs, err := w.found()
	if err != nil {
		return "", nil, err
	}
	if image, _, err = (Rig{Binary: rig, Programs: programs}).image(gzip.NoCompression); err != nil {
		return "", nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", nil, err
	}
	return workerRepository + ":" + digest.Hex[:16], image, nil
}
