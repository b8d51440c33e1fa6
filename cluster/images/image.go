// Package images builds container images of static binaries, without an engine: subjects, leakrig, and workers.
package images

import (
	"compress/gzip"
	"context"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/leakrig/leakrig/cluster/tarfile"
)

// imageRepository is that of the images that are made from subjects. No registry has it.
const imageRepository = "leakrig.local/subject/"

// Subject makes an image of one static binary. The same binary gives the same digest, which is the tag.
func Subject(program string, aliases []string) (ref string, image v1.Image, err error) {
	file, err := tarfile.Copy("subject", 0o755, program)
	if err != nil {
		return "", nil, err
	}
	entries := []tarfile.Entry{file}
	for _, name := range aliases {
		entries = append(entries, tarfile.Symlink("bin/"+name, "/subject"))
	}
	// It goes no further than the node, and is faster copied than compressed.
	image, err = imageOf(entries, gzip.NoCompression, v1.Config{Entrypoint: []string{"/subject"}, User: imageUser, Env: []string{"PATH=/bin"}})
	if err != nil {
		return "", nil, err
	}
	digest, err := image.Digest()
	return imageRepository + filepath.Base(program) + ":" + digest.Hex[:16], image, err
}

// imageUser is an unprivileged user.
const imageUser = "65532:65532"

// imageOf makes an image of one layer, without a Dockerfile or an engine. Nothing in it has a time, so that
// the same files make the same image.
func imageOf(entries []tarfile.Entry, compression int, config v1.Config) (v1.Image, error) {
	open := func() (io.ReadCloser, error) { return tarfile.Stream(context.Background(), entries), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithCompressionLevel(compression))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	return mutate.Config(image, config)
}
