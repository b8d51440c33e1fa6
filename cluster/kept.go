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
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster/upstream"
)

// keptName names the one kept cluster of its kind: the same image and as many nodes.
func keptName(image nodeImage, nodes int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", image.ref, max(nodes, 1)))
	return "leakrig-kept-" + hex.EncodeToString(sum[:4])
}

func keptKubeconfig(cache, name string) string {
	return filepath.Join(cache, "kept", name, "kubeconfig")
}

// inUseFile is locked, shared, by every run that uses a cluster.
func inUseFile(cache, name string) string { return filepath.Join(cache, "in-use", name) }

// answersAt tells whether the API server of a kubeconfig answers.
func answersAt(ctx context.Context, kubeconfig string) bool {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return false
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false
	}
	return (&connection{client: client}).Check(ctx) == nil
}

// ownNames are those that Boot gives: of a run, and of a kept cluster.
var ownNames = regexp.MustCompile(`^leakrig-(kept-[0-9a-f]{8}|\d{8}t\d{6}z(-\d+)?-[0-9a-f]{6})$`)

// Clean removes the kind clusters that leakrig has made and that no run uses, and returns their names:
// the kept ones, and what a rig that was killed has left.
func Clean(ctx context.Context, cache string) ([]string, error) {
	e, err := detectEngine(ctx)
	if err != nil {
		return nil, err
	}
	out, err := e.run(ctx, "ps", "-a", "--filter", "label="+clusterLabel, "--format", `{{.Label "`+clusterLabel+`"}}`)
	if err != nil {
		return nil, err
	}
	names := strings.Fields(out)
	slices.Sort(names)
	var removed []string
	var errs []error
	for _, name := range slices.Compact(names) {
		if !ownNames.MatchString(name) {
			continue
		}
		unlock, free := upstream.TryLock(inUseFile(cache, name))
		if !free {
			continue
		}
		err := e.remove(ctx, name, 0)
		if err == nil {
			removed = append(removed, name)
			err = os.RemoveAll(filepath.Dir(keptKubeconfig(cache, name)))
		}
		unlock()
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}
