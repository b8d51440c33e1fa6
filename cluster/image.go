package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// imageRepository is that of the images that are made from subjects. No registry has it.
const imageRepository = "leakrig.local/subject/"

// subjectImage makes an image of one static binary. The same binary gives the same digest, which is the tag.
func subjectImage(program string, aliases []string) (ref string, image v1.Image, err error) {
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

// loadImage loads the image of a subject into every node that does not have it from an earlier run.
func (c *kindCluster) loadImage(ctx context.Context, program string, aliases []string) (string, error) {
	ref, image, err := subjectImage(program, aliases)
	if err != nil {
		return "", fmt.Errorf("image of %s: %w", filepath.Base(program), err)
	}
	return ref, c.putImage(ctx, ref, image)
}

// putImage loads an image into every node that does not have it under this name.
func (c *kindCluster) putImage(ctx context.Context, ref string, image v1.Image) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	loading, cancel := context.WithTimeoutCause(ctx, loadTimeout, fmt.Errorf("the engine did not load it in %s", loadTimeout))
	defer cancel()
	nodes, err := bounded(loading, c.nodes)
	if err != nil {
		return fmt.Errorf("load %s: %w", ref, err)
	}
	archive := sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := tarball.Write(tag, image, &b)
		return b.Bytes(), err
	})
	for _, node := range nodes {
		_, err := bounded(loading, func() (struct{}, error) { return struct{}{}, loadInto(node, ref, archive) })
		if err != nil {
			return fmt.Errorf("load %s into %s: %w", ref, node, err)
		}
	}
	return nil
}

// loadTimeout bounds how long an image takes into the nodes.
const loadTimeout = 5 * time.Minute

// bounded does something that takes no context, as kind's library does, and stops waiting for it when ctx ends. It
// goes on then until the engine answers or the node's container is gone.
func bounded[T any](ctx context.Context, do func() (T, error)) (got T, err error) {
	done := make(chan struct{})
	var result T
	var failed error
	go func() {
		defer close(done)
		result, failed = do()
	}()
	select {
	case <-ctx.Done():
		return got, context.Cause(ctx)
	case <-done:
		return result, failed
	}
}

func loadInto(node nodes.Node, ref string, archive func() ([]byte, error)) error {
	if _, err := nodeutils.ImageID(node, ref); err == nil {
		return nil
	}
	data, err := archive()
	if err != nil {
		return err
	}
	return nodeutils.LoadImageArchive(node, bytes.NewReader(data))
}
