package nodeimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/leakrig/leakrig/cluster/tarfile"
)

// layer is an uncompressed layer: compression would cost half a minute, only for the engine to undo it.
type layer struct {
	open func() (io.ReadCloser, error)
	hash v1.Hash
	size int64
}

// newLayer returns a layer that is generated on every read.
func newLayer(ctx context.Context, entries []tarfile.Entry) (*layer, error) {
	return measure(func() (io.ReadCloser, error) { return tarfile.Stream(ctx, entries), nil })
}

// measure reads a layer once, for its size and hash.
func measure(open func() (io.ReadCloser, error)) (*layer, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, r)
	return &layer{open, v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}, n}, err
}

func (l *layer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return l.open() }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return l.open() }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

// newImage puts layers under a configuration. It sets no creation time, which would change the image ID.
func newImage(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config = runtime.GOARCH, "linux", config
	return mutate.ConfigFile(image, file)
}

// archive lists the files of a `docker save` archive with these images, by reference. The writer of
// go-containerregistry goes through a map: several images would stand in another order every time.
func archive(images map[string]v1.Image) ([]tarfile.Entry, error) {
	var manifest tarball.Manifest
	var entries []tarfile.Entry
	known := map[string]bool{}
	add := func(e tarfile.Entry) {
		if !known[e.Name] {
			known[e.Name] = true
			entries = append(entries, e)
		}
	}
	for _, ref := range sortedKeys(images) {
		config, err := images[ref].RawConfigFile()
		if err != nil {
			return nil, err
		}
		id, err := images[ref].ConfigName()
		if err != nil {
			return nil, err
		}
		d := tarball.Descriptor{Config: id.Hex + ".json", RepoTags: []string{ref}}
		add(tarfile.Text(d.Config, 0o644, config))
		layers, err := images[ref].Layers()
		if err != nil {
			return nil, err
		}
		for _, l := range layers {
			digest, err := l.Digest()
			if err != nil {
				return nil, err
			}
			size, err := l.Size()
			if err != nil {
				return nil, err
			}
			name := digest.Hex + ".tar"
			add(tarfile.Entry{Name: name, Mode: 0o644, Size: size, Open: l.Uncompressed})
			d.Layers = append(d.Layers, name)
		}
		manifest = append(manifest, d)
	}
	data, err := json.Marshal(manifest)
	add(tarfile.Text("manifest.json", 0o644, data))
	return entries, err
}

// entrypoint is the configuration of an image with one command.
func entrypoint(command string) v1.Config {
	return v1.Config{Entrypoint: []string{path.Join("/", command)}, Env: []string{"PATH=/usr/local/bin:/usr/sbin"}}
}
