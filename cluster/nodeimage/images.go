package nodeimage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/leakrig/leakrig/cluster/tarfile"
)

// controlPlane makes the images of the control plane, by reference: each FROM scratch, with one command.
func (b *builder) controlPlane(ctx context.Context, base tarfile.Index, binaries map[string]string) (map[string]v1.Image, error) {
	images := map[string]v1.Image{}
	for _, i := range b.recipe.images {
		b.Progress.Status("node image: image %s", i.ref())
		image, err := i.build(ctx, base, binaries[i.name()])
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", i.ref(), err)
		}
		images[i.ref()] = image
	}
	return images, nil
}

func (i controlPlaneImage) build(ctx context.Context, base tarfile.Index, binary string) (v1.Image, error) {
	file, err := tarfile.Copy(i.path, 0o755, binary)
	if err != nil {
		return nil, err
	}
	entries := []tarfile.Entry{file}
	if i.userland {
		tools, err := packetFilters(base)
		if err != nil {
			return nil, err
		}
		entries = append(entries, tools...)
	}
	layer, err := newLayer(ctx, entries)
	if err != nil {
		return nil, err
	}
	return newImage(entrypoint(i.path), layer)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
