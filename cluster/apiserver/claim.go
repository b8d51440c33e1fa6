package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// Claim is what a run has in a cluster that outlives it. It is written down before it is made and locked
// while the run lives, so that a later run can take away what one that was killed has left.
type Claim struct {
	// Kubeconfig are the files that lead to the cluster, as in KUBECONFIG; Context is "" for their own.
	Kubeconfig, Context string
	Run, Namespace      string
}

// sweepTimeout bounds the removal of one claim.
const sweepTimeout = 10 * time.Second

func ClaimsDir(cache string) string { return filepath.Join(cache, "claims") }

// Take writes the claim down; release forgets it.
func (c Claim) Take(cache string) (release func(), err error) {
	path := filepath.Join(ClaimsDir(cache), c.Run+".json")
	unlock, err := upstream.Share(path)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(path, data, 0o600) // into the file that is locked
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return func() {
		os.Remove(path)
		unlock()
	}, nil
}

// Sweep removes the namespaces of killed runs and returns their names. It considers only the claims for which concern
// returns true.
func Sweep(ctx context.Context, cache string, concern func(Claim) bool) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(ClaimsDir(cache), "*.json"))
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, path := range paths {
		c, err := readClaim(path)
		if err != nil || !concern(c) {
			continue
		}
		unlock, free := upstream.TryLock(path)
		if !free {
			continue
		}
		there, err := c.remove(ctx)
		if err == nil {
			os.Remove(path)
		}
		if there {
			removed = append(removed, c.Namespace)
		}
		unlock()
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

func readClaim(path string) (c Claim, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil && !strings.HasPrefix(c.Namespace, "leakrig-") {
		err = fmt.Errorf("%s: %q is not the namespace of a run", path, c.Namespace)
	}
	return c, err
}

// remove deletes the namespace if it belongs to the run, and the permissions of its workers in other namespaces. It
// reports whether the namespace existed. A deleted cluster has nothing to remove.
func (c Claim) remove(ctx context.Context) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	files := filepath.SplitList(c.Kubeconfig)
	inside := os.Getenv("KUBERNETES_SERVICE_HOST") != "" // then no file is needed
	if !inside && !slices.ContainsFunc(files, func(f string) bool { _, err := os.Stat(f); return err == nil }) {
		return false, nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: files}, &clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
	if err != nil {
		return false, fmt.Errorf("namespace %s of a run that was killed: %w", c.Namespace, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, err
	}
	found, err := client.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	if there = err == nil && found.Labels[leak.RunLabel] == c.Run; there {
		err = client.CoreV1().Namespaces().Delete(ctx, c.Namespace, metav1.DeleteOptions{})
	}
	if err := errors.Join(IgnoreNotFound(err), c.removeRights(ctx, client)); err != nil {
		return false, fmt.Errorf("namespace %s of a run that was killed: %w", c.Namespace, err)
	}
	return there, nil
}

// removeRights deletes the roles of the run's workers, which stand where their pods' commands run. Who may not look
// for them everywhere may not have made them either.
func (c Claim) removeRights(ctx context.Context, client kubernetes.Interface) error {
	of := metav1.ListOptions{LabelSelector: leak.RunLabel + "=" + c.Run}
	bindings, err1 := client.RbacV1().RoleBindings("").List(ctx, of)
	roles, err2 := client.RbacV1().Roles("").List(ctx, of)
	if apierrors.IsForbidden(err1) || apierrors.IsForbidden(err2) {
		return nil
	}
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var errs []error
	for _, b := range bindings.Items {
		errs = append(errs, IgnoreNotFound(client.RbacV1().RoleBindings(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})))
	}
	for _, r := range roles.Items {
		errs = append(errs, IgnoreNotFound(client.RbacV1().Roles(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{})))
	}
	return errors.Join(errs...)
}
