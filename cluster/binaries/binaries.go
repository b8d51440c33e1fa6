// Package binaries provides kube-apiserver and etcd for control planes without nodes: binaries of this machine, releases
// of envtest that it downloads, or builds from upstream modules.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// Modes of Source.
const (
	// Auto downloads binaries if that works, and builds them otherwise.
	Auto     = "auto"
	Download = "download"
	Build    = "build"
)

// Modes lists the modes.
func Modes() []string { return []string{Auto, Download, Build} }

// assetsVariable names a folder with kube-apiserver and etcd, as everywhere else where envtest is used.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Source provides binaries.
type Source struct {
	// Mode is Auto, Download or Build; "" is Build.
	Mode string
	// Index is the URL of the index of envtest's releases; "" is envtest's own.
	Index string
	// Cache is the folder for binaries.
	Cache    string
	Progress leak.Progress

	scale float64 // of the limits of downloads, for tests
}

// Want is a version of Kubernetes.
type Want struct {
	Version string
	// Minor accepts any release of the same minor version.
	Minor bool
	// HeapDump needs the endpoint for heap dumps, which only builds of leakrig have.
	HeapDump bool
}

// Pair has the paths of the two binaries.
type Pair struct {
	APIServer, Etcd string
	// Origin says where they come from, for the record.
	Origin string
}

// Get returns the binaries of KUBEBUILDER_ASSETS if they have the wanted version, those in the cache, or new ones.
func (s Source) Get(ctx context.Context, w Want) (Pair, error) {
	if p, ok := s.assets(ctx, w); ok {
		return p, nil
	}
	if p, ok := s.Find(w); ok {
		return p, nil
	}
	switch s.Mode {
	case Download:
		return s.download(ctx, w)
	case Auto:
		if w.HeapDump {
			s.Progress.Log("building kube-apiserver %s: the scenario observes it, and downloaded ones serve no heap dumps", w.Version)
			break
		}
		p, err := s.download(ctx, w)
		if err == nil || ctx.Err() != nil {
			return p, err
		}
		if _, missing := exec.LookPath("go"); missing != nil {
			return Pair{}, leak.WithMachineHint(fmt.Errorf("kube-apiserver %s cannot be downloaded, and cannot be built without Go: %w", w.Version, err),
				"install Go, or set %s to the URL of a mirror", IndexVariable)
		}
		s.Progress.Log("building kube-apiserver %s and etcd from upstream modules: %v", w.Version, err)
	}
	return s.build(ctx, w)
}

// assets returns the binaries of KUBEBUILDER_ASSETS.
func (s Source) assets(ctx context.Context, w Want) (Pair, bool) {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		return Pair{}, false
	}
	p := pairIn(dir)
	p.Origin = assetsVariable
	version, err := versionOf(ctx, p.APIServer)
	if err == nil && version == w.Version {
		return p, true
	}
	if version == "" {
		version = "of no known version"
	}
	s.Progress.Log("%s has kube-apiserver %s, the scenario needs %s: not used", assetsVariable, version, w.Version)
	return Pair{}, false
}

func pairIn(dir string) Pair {
	return Pair{APIServer: filepath.Join(dir, "kube-apiserver"), Etcd: filepath.Join(dir, "etcd")}
}

// Find returns the binaries of an earlier run that the mode accepts. It prefers builds.
func (s Source) Find(w Want) (Pair, bool) {
	if s.Mode != Download {
		if p, ok := s.built(w); ok {
			return p, true
		}
	}
	if s.Mode == Build || s.Mode == "" || s.Mode == Auto && w.HeapDump {
		return Pair{}, false
	}
	return s.downloaded(w)
}

const builtOrigin = "built from upstream modules"

// built returns the binaries that an earlier run has built.
func (s Source) built(w Want) (Pair, bool) {
	apiserver, ok1 := upstream.Find(s.Cache, upstream.Kubernetes(w.Version), "kube-apiserver")
	etcd, ok2 := upstream.Find(s.Cache, upstream.Etcd, "etcd")
	return Pair{apiserver, etcd, builtOrigin}, ok1 && ok2
}

func (s Source) build(ctx context.Context, w Want) (Pair, error) {
	b := upstream.Builder{Cache: s.Cache, Progress: s.Progress}
	apiserver, err := b.Build(ctx, upstream.Kubernetes(w.Version), "k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver")
	if err != nil {
		return Pair{}, err
	}
	etcd, err := b.Build(ctx, upstream.Etcd, "go.etcd.io/etcd/server/v3", "etcd")
	return Pair{apiserver, etcd, builtOrigin}, err
}

// versionTimeout is how long a binary may take to print its version.
const versionTimeout = 20 * time.Second

// versionOf returns the version that a kube-apiserver prints.
func versionOf(ctx context.Context, apiserver string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, apiserver, "--version").Output()
	version, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "Kubernetes ")
	if err == nil && !ok {
		err = errors.New("it prints no version of Kubernetes")
	}
	return version, err
}
