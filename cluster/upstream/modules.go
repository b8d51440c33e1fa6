package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/leakrig/leakrig/leak"
)

// Etcd is the etcd that Kubernetes v1.34 names; older API servers accept it as well.
var Etcd = Module{name: "etcd", version: "v3.6.5"}

// Kubernetes is the set of all Kubernetes commands at a released version.
func Kubernetes(version string) Module {
	m := Module{name: "kubernetes", version: version, generate: kubernetesMod}
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		m.stamp = append(m.stamp,
			"-X", pkg+".gitVersion="+version, "-X", pkg+".gitMajor="+major, "-X", pkg+".gitMinor="+minor, "-X", pkg+".gitTreeState=clean")
	}
	return m
}

// Containerd is containerd, ctr and containerd-shim-runc-v2 at a released version.
func Containerd(version string) Module {
	path := ContainerdPath(version)
	return Module{
		name: "containerd", version: version,
		generate: func(ctx context.Context, version string) ([]byte, error) {
			return dependentMod(ctx, "containerd", path, version)
		},
		stamp: []string{"-X", path + "/version.Version=" + version},
	}
}

// ContainerdPath is the path of containerd's module at a version.
func ContainerdPath(version string) string {
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return "github.com/containerd/containerd/" + major
	}
	return "github.com/containerd/containerd"
}

// Runc is runc at a released version. It enters namespaces in C, so it needs a C compiler, and libseccomp.
func Runc(version string) Module {
	const path = "github.com/opencontainers/runc"
	return Module{
		name: "runc", version: version, cgo: true, tags: "seccomp", // without it no pod with a seccomp profile starts
		generate: func(ctx context.Context, version string) ([]byte, error) {
			return dependentMod(ctx, "runc", path, version)
		},
		stamp: []string{"-X", "main.version=" + strings.TrimPrefix(version, "v"), "-linkmode", "external", "-extldflags", "-static"},
	}
}

// CoreDNS is the CoreDNS that kubeadm v1.34 asks for, with the plugins of kubeadm's Corefile alone. Its
// main package is ".".
var CoreDNS = Module{name: "coredns", version: "v1.12.1"}

// Crictl is the newest crictl whose checksum the public database knows.
var Crictl = Module{
	name: "crictl", version: "v1.30.0",
	stamp: []string{"-X", "github.com/kubernetes-sigs/cri-tools/pkg/version.Version=v1.30.0"},
}

// Pause is leakrig's own pause program. Its main package is ".".
var Pause = Module{name: "pause", version: "v1.0.0"}

// Version is the version of the upstream module.
func (m Module) Version() string { return m.version }

// With returns m built with other versions of modules than its go.mod names, by module path.
func (m Module) With(modules map[string]string) Module {
	m.modules = modules
	return m
}

// Check validates the versions of m without checking that they exist.
func (m Module) Check() error {
	errs := []error{checkVersion(m.name, m.version)}
	for _, path := range slices.Sorted(maps.Keys(m.modules)) {
		errs = append(errs, module.CheckPath(path), checkVersion(path, m.modules[path]))
	}
	return errors.Join(errs...)
}

func checkVersion(what, version string) error {
	if module.CanonicalVersion(version) != version || version == "" {
		return leak.WithHint(fmt.Errorf("%s: %q is not a full version", what, version), "as in v1.7.35")
	}
	return nil
}

// Fingerprint identifies all inputs of the build except the Go toolchain and, without a pin, the go command's
// resolution of the requirements.
func (m Module) Fingerprint() (string, error) {
	p, err := m.pinned()
	switch {
	case errors.Is(err, fs.ErrNotExist) && m.generate != nil:
		p = pin{}
	case err != nil:
		return "", fmt.Errorf("%s %s is not pinned: %w", m.name, m.version, err)
	}
	parts := append([]string{fingerprint(p, m.stamp)}, m.stamp...)
	for _, path := range slices.Sorted(maps.Keys(m.modules)) {
		parts = append(parts, path, m.modules[path])
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return m.name + "-" + m.version + "-" + hex.EncodeToString(sum[:6]), nil
}
