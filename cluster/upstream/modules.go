package upstream

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
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

// Containerd is containerd, ctr and containerd-shim-runc-v2.
var Containerd = Module{
	name: "containerd", version: "v1.7.35",
	stamp: []string{"-X", "github.com/containerd/containerd/version.Version=v1.7.35"},
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

// Fingerprint names everything that decides what is built, apart from the Go toolchain. Only pinned
// modules have one.
func (m Module) Fingerprint() (string, error) {
	p, err := m.pinned()
	if err != nil {
		return "", fmt.Errorf("%s %s is not pinned: %w", m.name, m.version, err)
	}
	return m.name + "-" + m.version + "-" + fingerprint(p, m.stamp), nil
}
