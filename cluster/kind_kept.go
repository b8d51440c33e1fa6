package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/cluster/nodeimage"
)

// keptName returns the name of the kept cluster with this engine, image and number of nodes.
func keptName(e engine.Engine, image nodeImage, nodes int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", e, image.ref, max(nodes, 1)))
	return "leakrig-kept-" + hex.EncodeToString(sum[:4])
}

func keptKubeconfig(cache, name string) string {
	return filepath.Join(cache, "kept", name, "kubeconfig")
}

// answersAt reports whether the API server of a kubeconfig answers.
func answersAt(ctx context.Context, kubeconfig string) bool {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return false
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false
	}
	return (&apiserver.Connection{Client: client}).Check(ctx) == nil
}

// ownNames are the names that Boot gives. killedNames are names of clusters that only a killed run leaves.
var (
	killedNames = regexp.MustCompile(`^leakrig-\d{8}t\d{6}z(-\d+)?-[0-9a-f]{6}$`)
	ownNames    = regexp.MustCompile(`^leakrig-kept-[0-9a-f]{8}$|` + killedNames.String())
)

// Clean removes everything that leakrig created and no run uses: kind clusters, including kept ones, and objects that a
// killed leakrig left in a cluster. It returns descriptions of what it removed.
func Clean(ctx context.Context, cache string) ([]string, error) {
	removed, err := apiserver.Sweep(ctx, cache, func(apiserver.Claim) bool { return true })
	for i, name := range removed {
		removed[i] = "namespace " + name
	}
	e, noEngine := engine.Detect(ctx)
	if noEngine != nil { // then there are no clusters of its either
		return removed, errors.Join(err, noEngine)
	}
	clusters, err2 := removeUnused(ctx, e, cache, ownNames, true)
	for _, name := range clusters {
		removed = append(removed, "cluster "+name)
	}
	containers, err3 := nodeimage.SweepOverlays(ctx, nodeimage.Options{Engine: e, Cache: cache})
	for _, name := range containers {
		removed = append(removed, "container "+name)
	}
	return removed, errors.Join(err, err2, err3)
}

// removeUnused deletes the kind clusters with matching names that no run uses, and returns their names. It deletes
// clusters that were created with this cache, and very old ones of other caches if foreign is set.
func removeUnused(ctx context.Context, e engine.Engine, cache string, names *regexp.Regexp, foreign bool) ([]string, error) {
	found, err := e.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, name := range found {
		if !names.MatchString(name) || !known(cache, name) && !(foreign && old(ctx, e, name)) {
			continue
		}
		unlock, free := engine.Unused(cache, name)
		if !free {
			continue
		}
		err := e.Remove(ctx, name, 0)
		if err == nil {
			removed = append(removed, name)
			err = os.RemoveAll(filepath.Dir(keptKubeconfig(cache, name)))
		}
		unlock()
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// known reports whether the cluster was created with this cache. The engine may also serve leakrig processes in other
// containers, whose locks are not visible.
func known(cache, name string) bool {
	_, err := os.Stat(engine.InUseFile(cache, name))
	return err == nil
}

// old reports whether the cluster was created so long ago that a run is unlikely to use it.
func old(ctx context.Context, e engine.Engine, name string) bool {
	out, err := e.Run(ctx, "inspect", "-f", "{{.Created}}", name+"-control-plane")
	if err != nil {
		return false
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999 -0700 MST"} { // docker's, podman's
		if made, err := time.Parse(layout, out); err == nil {
			return time.Since(made) > oldAge
		}
	}
	return false
}

// oldAge is more than soaks take.
const oldAge = 14 * 24 * time.Hour

// CleanImages removes the node images that leakrig has built, those of pinned commands included, and returns
// their references. An image that a cluster still uses stays.
func CleanImages(ctx context.Context) ([]string, error) {
	e, err := engine.Detect(ctx)
	if err != nil {
		return nil, err
	}
	out, err := e.Run(ctx, "images", "--filter", "reference="+nodeimage.Repository, "--format", "{{.Repository}}:{{.Tag}}")
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, ref := range strings.Fields(out) {
		if !strings.HasPrefix(ref, nodeimage.Repository+":") { // podman lists all the names of an image
			continue
		}
		used, err := e.Run(ctx, "ps", "-a", "-q", "--filter", "ancestor="+ref)
		if err == nil && used == "" {
			if _, err = e.Run(ctx, "rmi", ref); err == nil {
				removed = append(removed, ref)
			}
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}
