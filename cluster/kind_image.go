package cluster

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/leakrig/leakrig/cluster/images"
)

// loadImage loads the image of a subject into every node that does not have it from an earlier run.
func (c *kindCluster) loadImage(ctx context.Context, program string, aliases []string) (string, error) {
	ref, image, err := images.Subject(program, aliases)
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
