package nodeimage

import (
	"fmt"
	"strings"

	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/leak"
)

const (
	// Repository is the repository of node images built by leakrig. They exist only in the engine and are never
	// pushed or pulled. It has a host name, although the host does not exist: podman would search for an unqualified
	// name in its registries.
	Repository = "leakrig.local/node"
	// ControlPlane is the repository of the images of the control plane on them: kubeadm's
	// imageRepository. Upstream's name would say that a local build is a release.
	ControlPlane = "leakrig.local"
)

// Options says which image.
type Options struct {
	// Kubernetes is the version: v1.34.4.
	Kubernetes string
	// Engine is the command line that finds and loads the image: docker or podman.
	Engine engine.Engine
	// Cache is leakrig's folder for builds.
	Cache    string
	Progress leak.Progress
}

// Tag returns the reference of the image for these options. It uses neither the engine nor the network, and the image
// may not exist.
func Tag(o Options) (string, error) {
	r, err := o.recipe()
	if err != nil {
		return "", err
	}
	h, err := r.hash()
	if err != nil {
		return "", err
	}
	return Repository + ":" + o.Kubernetes + "-" + h, nil
}

func (o Options) recipe() (recipe, error) {
	t, ok := releases[o.Kubernetes]
	if !ok {
		return recipe{}, leak.WithHint(fmt.Errorf("no node image of Kubernetes %q", o.Kubernetes), "leakrig can build %s", strings.Join(sortedKeys(releases), ", "))
	}
	return newRecipe(o.Kubernetes, t), nil
}

// KubeadmPatches returns the kubeadmConfigPatches of a kind cluster with these images. The tags are kubeadm's
// defaults.
func KubeadmPatches() []string {
	return []string{"kind: ClusterConfiguration\nimageRepository: " + ControlPlane + "\n"}
}
