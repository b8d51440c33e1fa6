package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// keptName names the one kept cluster of its kind: the same image and as many nodes.
func keptName(image nodeImage, nodes int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", image.ref, max(nodes, 1)))
	return "leakrig-kept-" + hex.EncodeToString(sum[:4])
}

func answers(ctx context.Context, config *rest.Config) bool {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err == nil
}

// Clean removes every kind cluster that leakrig has made and returns their names: the kept ones, and
// what a rig that was killed has left.
func Clean(ctx context.Context, cache string) ([]string, error) {
	e, err := detectEngine(ctx)
	if err != nil {
		return nil, err
	}
	out, err := e.run(ctx, "ps", "-a", "--filter", "label="+clusterLabel, "--format", `{{.Label "`+clusterLabel+`"}}`)
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	seen := map[string]bool{}
	for _, name := range strings.Fields(out) {
		if !strings.HasPrefix(name, "leakrig-") || seen[name] {
			continue
		}
		seen[name] = true
		if err := e.remove(ctx, name, 0); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	errs = append(errs, os.RemoveAll(filepath.Join(cache, "kept")))
	return removed, errors.Join(errs...)
}
