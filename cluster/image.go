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

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// imageRepository is that of the images that are made from subjects. No registry has it.
const imageRepository = "leakrig.local/subject/"

// subjectImage makes an image of one static binary, without a Dockerfile or an engine. The same binary
// gives the same digest, which is the tag.
func subjectImage(program string, aliases []string) (ref string, image v1.Image, err error) {
	// It goes no further than the node, and is faster copied than compressed.
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return binaryTar(program, aliases) }, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return "", nil, err
	}
	if image, err = mutate.AppendLayers(empty.Image, layer); err != nil {
		return "", nil, err
	}
	image, err = mutate.Config(image, v1.Config{Entrypoint: []string{"/subject"}, User: "65532:65532", Env: []string{"PATH=/bin"}})
	if err != nil {
		return "", nil, err
	}
	digest, err := image.Digest()
	return imageRepository + filepath.Base(program) + ":" + digest.Hex[:16], image, err
}

// binaryTar is a layer with the binary as /subject, and links to it in /bin, without times.
func binaryTar(program string, aliases []string) (io.ReadCloser, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "subject", Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	for _, name := range aliases {
		if err := w.WriteHeader(&tar.Header{Name: "bin/" + name, Linkname: "/subject", Mode: 0o777, Typeflag: tar.TypeSymlink}); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(&b), w.Close()
}

// loadImage puts the image of a subject into every node.
func (c *kindCluster) loadImage(ctx context.Context, program string, aliases []string) (string, error) {
	ref, image, err := subjectImage(program, aliases)
	if err != nil {
		return "", fmt.Errorf("image of %s: %w", filepath.Base(program), err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return "", err
	}
	var archive bytes.Buffer
	if err := tarball.Write(tag, image, &archive); err != nil {
		return "", err
	}
	nodes, err := c.nodes()
	if err != nil {
		return "", err
	}
	for _, node := range nodes {
		done := make(chan error, 1)
		// kind's library takes no context; the goroutine ends when the node's container does.
		go func() { done <- nodeutils.LoadImageArchive(node, bytes.NewReader(archive.Bytes())) }()
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case err := <-done:
			if err != nil {
				return "", fmt.Errorf("load %s into %s: %w", ref, node, err)
			}
		}
	}
	return ref, nil
}
