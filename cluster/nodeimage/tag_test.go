package nodeimage

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

const version = "v1.34.4"

func testRecipe() recipe { return newRecipe(version, releases[version]) }

// The tag depends on nothing but what is in the image.
func TestTag(t *testing.T) {
	tag, err := Tag(Options{Kubernetes: version})
	if err != nil || !strings.HasPrefix(tag, "leakrig.local/node:v1.34.4-") {
		t.Fatalf("%q, %v", tag, err)
	}
	again, err := Tag(Options{Kubernetes: version, Engine: "podman", Cache: "/elsewhere"})
	if err != nil || again != tag {
		t.Errorf("another engine and cache: %q instead of %q, %v", again, tag, err)
	}
	if _, err := Tag(Options{Kubernetes: "v1.0.0"}); err == nil || !strings.Contains(leak.Hint(err), version) {
		t.Errorf("a version without a recipe: %v, hint %q", err, leak.Hint(err))
	}
}

// Every input is in the hash.
func TestHashCoversEveryInput(t *testing.T) {
	changes := map[string]func(*recipe){
		"nothing":              func(*recipe) {},
		"the recipe's version": func(r *recipe) { r.version += "1" },
		"the architecture":     func(r *recipe) { r.arch += "1" },
		"Debian's suite":       func(r *recipe) { r.debian.suite = "trixie" },
		"Debian's mirror":      func(r *recipe) { r.debian.mirror = "http://127.0.0.1" },
		"the packages":         func(r *recipe) { r.debian.packages = append(r.debian.packages[:1:1], "vim") },
		"the dropped files":    func(r *recipe) { r.debian.dropped = nil },
		"kind":                 func(r *recipe) { r.kind = "v0.34.0" },
		"an own file": func(r *recipe) {
			r.files = fstest.MapFS{"files/etc/containerd/config.toml": {Data: []byte("version = 3")}}
		},
		"the name of an own file": func(r *recipe) {
			r.files = fstest.MapFS{"files/etc/containerd/config2.toml": {Data: []byte("version = 3")}}
		},
		"the pin of a command":     func(r *recipe) { r.commands[0].module = upstream.Pause },
		"the package of a command": func(r *recipe) { r.commands[0].pkg += "2" },
		"the place of a command":   func(r *recipe) { r.commands[0].path += "2" },
		"one command less":         func(r *recipe) { r.commands = r.commands[1:] },
		"the pin of an image":      func(r *recipe) { r.images[0].module = upstream.Pause },
		"the tag of an image":      func(r *recipe) { r.images[0].tag += "2" },
		"the tools in an image":    func(r *recipe) { r.images[0].userland = true },
		"one image less":           func(r *recipe) { r.images = r.images[1:] },
	}
	seen := map[string]string{}
	for name, change := range changes {
		r := testRecipe()
		change(&r)
		h, err := r.hash()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other, taken := seen[h]; taken {
			t.Errorf("%q and %q give the same hash", name, other)
		}
		seen[h] = name
	}
	unpinned := testRecipe()
	unpinned.commands[0].module = upstream.Module{}
	if h, err := unpinned.hash(); err == nil {
		t.Errorf("a module without a pin has the hash %s", h)
	}
}

// Moving a byte over the boundary between two inputs is a change, too.
func TestHashKeepsPartsApart(t *testing.T) {
	if hash("ab", "c") == hash("a", "bc") || hash("a", "") == hash("a") {
		t.Error("different parts, the same hash")
	}
}

// The base files have to be those of the library that boots the image.
func TestKindIsTheLibrarys(t *testing.T) {
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if r.Mod.Path == kindModule && r.Mod.Version != kindVersion {
			t.Errorf("go.mod requires kind %s, the image is made for %s", r.Mod.Version, kindVersion)
		}
	}
}

func TestKubeadmPatches(t *testing.T) {
	found := false
	for _, patch := range KubeadmPatches() {
		var p struct{ Kind, ImageRepository string }
		if err := yaml.UnmarshalStrict([]byte(patch), &p); err != nil {
			t.Errorf("%q: %v", patch, err)
		}
		found = found || (p.Kind == "ClusterConfiguration" && p.ImageRepository == ControlPlane)
	}
	if !found {
		t.Errorf("no patch names %s as the repository", ControlPlane)
	}
}
