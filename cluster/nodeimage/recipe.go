package nodeimage

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/leakrig/leakrig/cluster/tarfile"
	"github.com/leakrig/leakrig/cluster/upstream"
)

// kind's base files belong to the version of its library that boots the image.
const (
	kindModule  = "sigs.k8s.io/kind"
	kindVersion = "v0.33.0"
	kindSum     = "h1:AjvDv3vOygb/VKLVQW87lfktIBzkxR8Ump9DjxC8+Lk="
)

//go:embed files
var ownFiles embed.FS

// code is the source of this package: any change may change the image. Slow parts are cached under other keys, so a
// change costs seconds.
//
//go:embed *.go
var code embed.FS

// codeVersion is a hash of the code that writes images, without its tests.
func codeVersion() string {
	var parts []string
	entries, _ := code.ReadDir(".") // an embedded folder can be read
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			data, _ := code.ReadFile(e.Name())
			parts = append(parts, e.Name(), string(data))
		}
	}
	return hash(append(parts, tarfile.Source)...)
}

// recipe is everything that an image is made of, apart from the code that follows it.
type recipe struct {
	version, arch string
	debian        debian
	kind          string
	files         fs.FS
	commands      []command
	images        []controlPlaneImage
}

// command is an upstream command at its place on the node.
type command struct {
	module upstream.Module
	pkg    string
	path   string
}

// name is that of the binary.
func (c command) name() string { return path.Base(c.path) }

// controlPlaneImage is an image with one command. Its tag is the one that kubeadm asks for.
type controlPlaneImage struct {
	command
	tag string
	// userland says that the command runs iptables and nft.
	userland bool
}

// ref is the reference by which the kubelet asks for the image.
func (i controlPlaneImage) ref() string { return ControlPlane + "/" + i.name() + ":" + i.tag }

// tags are those of the images that are not Kubernetes' own.
type tags struct{ etcd, coredns, pause string }

// releases are the versions of Kubernetes that there is a recipe for, with the tags that `kubeadm config
// images list` names. Another version is a pin in package upstream and a line here.
var releases = map[string]tags{
	"v1.34.4": {etcd: "3.6.5-0", coredns: "v1.12.1", pause: "3.10.1"},
}

// containerdVersion is the containerd of the images.
const containerdVersion = "v1.7.35"

func containerdCommand(m upstream.Module, name string) command {
	return command{m, upstream.ContainerdPath(m.Version()) + "/cmd/" + name, "usr/local/bin/" + name}
}

func newRecipe(version string, t tags) recipe {
	kubernetes := upstream.Kubernetes(version)
	kube := func(dir, name string) command {
		return command{kubernetes, "k8s.io/kubernetes/cmd/" + name, dir + "/" + name}
	}
	containerd := func(name string) command {
		return containerdCommand(upstream.Containerd(containerdVersion), name)
	}
	return recipe{
		version: codeVersion(),
		arch:    runtime.GOARCH,
		debian:  bookworm.from(os.Getenv(mirrorVariable)),
		kind:    kindVersion + " " + kindSum,
		files:   ownFiles,
		commands: []command{
			kube("usr/bin", "kubeadm"),
			kube("usr/bin", "kubelet"),
			kube("usr/bin", "kubectl"),
			containerd("containerd"),
			containerd("containerd-shim-runc-v2"),
			containerd("ctr"),
			{upstream.Crictl, "github.com/kubernetes-sigs/cri-tools/cmd/crictl", "usr/local/bin/crictl"},
		},
		images: []controlPlaneImage{
			{command: kube("usr/local/bin", "kube-apiserver"), tag: version},
			{command: kube("usr/local/bin", "kube-controller-manager"), tag: version},
			{command: kube("usr/local/bin", "kube-scheduler"), tag: version},
			{command: kube("usr/local/bin", "kube-proxy"), tag: version, userland: true},
			{command: command{upstream.Etcd, "go.etcd.io/etcd/server/v3", "usr/local/bin/etcd"}, tag: t.etcd},
			{command: command{upstream.CoreDNS, ".", "coredns"}, tag: t.coredns},
			{command: command{upstream.Pause, ".", "pause"}, tag: t.pause},
		},
	}
}

// image returns the image of a command of the control plane.
func (r recipe) image(name string) controlPlaneImage {
	for _, i := range r.images {
		if i.name() == name {
			return i
		}
	}
	panic("no image of " + name)
}

// hash names the recipe: it changes with every input and with nothing else.
func (r recipe) hash() (string, error) {
	parts := []string{r.version, r.arch, r.debian.hash(), r.kind}
	for _, c := range r.commands {
		f, err := c.module.Fingerprint()
		if err != nil {
			return "", err
		}
		parts = append(parts, f, c.pkg, c.path)
	}
	for _, i := range r.images {
		f, err := i.module.Fingerprint()
		if err != nil {
			return "", err
		}
		parts = append(parts, f, i.pkg, i.path, i.ref(), fmt.Sprint(i.userland))
	}
	err := fs.WalkDir(r.files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(r.files, name)
		parts = append(parts, name, string(data))
		return err
	})
	return hash(parts...), err
}

// hash is short, since it stands in names; the length of each part keeps "ab","c" from "a","bc".
func hash(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%d\n%s", len(p), p)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:6])
}
