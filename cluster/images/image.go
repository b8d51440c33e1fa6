// Package images builds container images of static binaries, without an engine: subjects, leakrig, and workers.
package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imageRepository is that of the images that are made from subjects. No registry has it.
const imageRepository = "leakrig.local/subject/"

// Subject makes an image of one static binary. The same binary gives the same digest, which is the tag.
func Subject(program string, aliases []string) (ref string, image v1.Image, err error) {
	entries := []entry{{name: "subject", file: program, mode: 0o755}}
	for _, name := range aliases {
		entries = append(entries, entry{name: "bin/" + name, link: "/subject", mode: 0o777})
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

// entry is the content of an image at a path without a leading slash: a file of this machine, a link, or a folder if it
// is neither.
type entry struct {
	name, file, link string
	mode             int64
}

// imageOf makes an image of one layer, without a Dockerfile or an engine. Nothing in it has a time, so that
// the same files make the same image.
func imageOf(entries []entry, compression int, config v1.Config) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return layerTar(entries) }, tarball.WithCompressionLevel(compression))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	return mutate.Config(image, config)
}

func layerTar(entries []entry) (io.ReadCloser, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Linkname: e.link, Typeflag: tar.TypeDir}
		var data []byte
		switch {
		case e.link != "":
			header.Typeflag = tar.TypeSymlink
		case e.file != "":
			var err error
			if data, err = os.ReadFile(e.file); err != nil {
				return nil, err
			}
			header.Typeflag, header.Size = tar.TypeReg, int64(len(data))
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(&b), w.Close()
}
