package nodeimage

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// Build makes the image unless the engine has it, and returns its reference. Concurrent builders wait
// for each other. It needs Linux, root and debootstrap where the cache has no rootfs.
func Build(ctx context.Context, o Options) (ref string, err error) {
	ref, err = Tag(o)
	if err != nil {
		return "", err
	}
	present, err := Present(ctx, o)
	if err != nil || present {
		return ref, err
	}
	b, unlock, err := newBuilder(ctx, o)
	if err != nil {
		return ref, err
	}
	defer unlock()
	present, err = Present(ctx, o) // now that this process has waited
	if err != nil || present {
		return ref, err
	}
	start := time.Now()
	if err := b.build(ctx, ref); err != nil {
		return ref, fmt.Errorf("node image %s: %w", ref, err)
	}
	o.Progress.Log("node image: %s is built, in %s", ref, time.Since(start).Round(time.Second))
	if b.recipe.debian.mirror != "" {
		o.Progress.Log("node image: runs take it where %s is the same", mirrorVariable)
	}
	return ref, nil
}

// builder makes one image.
type builder struct {
	Options
	recipe recipe
	dir    string // below the cache
}

// newBuilder takes the lock on leakrig's folder for node images.
func newBuilder(ctx context.Context, o Options) (b *builder, unlock func(), err error) {
	b = &builder{Options: o, dir: filepath.Join(o.Cache, "node-image")}
	if b.recipe, err = o.recipe(); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, nil, leak.WithHint(err, "LEAKRIG_CACHE names another folder for what is built once")
	}
	unlock, err = upstream.Lock(ctx, filepath.Join(b.dir, ".lock"), func() {
		o.Progress.Log("waiting for another leakrig that is building a node image")
	})
	if err != nil {
		return nil, nil, err
	}
	b.removeOthers("tmp-*", "") // of a builder that was killed: the lock says that there is no other
	return b, unlock, nil
}

func (b *builder) build(ctx context.Context, ref string) error {
	rootfs, err := b.rootfs(ctx)
	if err != nil {
		return err
	}
	image, err := b.assemble(ctx, rootfs)
	if err != nil {
		return err
	}
	if err := b.load(ctx, ref, image); err != nil {
		return err
	}
	b.removeOthers("rootfs-*.tar", rootfs)
	return nil
}

// assemble makes the image of a rootfs.
func (b *builder) assemble(ctx context.Context, rootfs string) (v1.Image, error) {
	binaries, err := b.binaries(ctx)
	if err != nil {
		return nil, err
	}
	base, err := tarfile.Open(rootfs)
	if err != nil {
		return nil, err
	}
	images, err := b.controlPlane(ctx, base, binaries)
	if err != nil {
		return nil, err
	}
	return b.node(ctx, rootfs, binaries, images)
}

// binaries builds every command, and returns their paths by name.
func (b *builder) binaries(ctx context.Context) (map[string]string, error) {
	commands := b.recipe.commands
	for _, i := range b.recipe.images {
		commands = append(commands, i.command)
	}
	u := upstream.Builder{Cache: b.Cache, Progress: b.Progress}
	paths := map[string]string{}
	for i, c := range commands {
		b.Progress.Status("node image: command %d of %d: %s", i+1, len(commands), c.name())
		path, err := u.Build(ctx, c.module, c.pkg, c.name())
		if err != nil {
			return nil, err
		}
		paths[c.name()] = path
	}
	return paths, nil
}

// node puts the layers of the node's image together: what changes least comes first.
func (b *builder) node(ctx context.Context, rootfs string, binaries map[string]string, images map[string]v1.Image) (v1.Image, error) {
	b.Progress.Status("node image: assembling")
	debian, err := measure(func() (io.ReadCloser, error) { return os.Open(rootfs) })
	if err != nil {
		return nil, err
	}
	files, err := b.nodeFiles(ctx, binaries)
	if err != nil {
		return nil, err
	}
	own, err := newLayer(ctx, files)
	if err != nil {
		return nil, err
	}
	imported, err := imagesLayer(ctx, images)
	if err != nil {
		return nil, err
	}
	return newImage(nodeConfig, debian, own, imported)
}

// removeOthers removes the matches below the folder except keep. Failures only waste space.
func (b *builder) removeOthers(pattern, keep string) {
	found, _ := filepath.Glob(filepath.Join(b.dir, pattern))
	for _, path := range found {
		if path != keep {
			_ = os.RemoveAll(path)
		}
	}
}
