package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/leak"
)

// partsPoll is the interval at which the state of pods is read.
const partsPoll = 100 * time.Millisecond

// Server is the address of the API server, as host:port.
func (c *Connection) Server() string {
	u, err := url.Parse(c.Config.Host)
	if err != nil {
		return ""
	}
	if u.Port() == "" && u.Host != "" {
		return u.Host + ":443"
	}
	return u.Host
}

// Through writes a kubeconfig for subjects that reaches the API server at another address. It keeps the name for
// which the server has its certificate.
func (c *Connection) Through(address string) (string, error) {
	config, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	u, err := url.Parse(cluster.Server)
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	if u.Scheme == "https" && cluster.TLSServerName == "" {
		cluster.TLSServerName = u.Hostname()
	}
	u.Host = address
	cluster.Server = u.String()
	path := filepath.Join(filepath.Dir(c.kubeconfig), "kubeconfig-"+strings.ReplaceAll(address, ":", "-"))
	return path, clientcmd.WriteToFile(*config, path) // mode 0600
}

// DownPods deletes pods. up waits until their controllers have created the same number of ready pods.
func (c *Connection) DownPods(ctx context.Context, namespace, selector string) (up func(context.Context) error, err error) {
	if namespace == "" {
		namespace = c.Namespace
	}
	pods := c.Client.CoreV1().Pods(namespace)
	before, err := pods.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("pods %s: %w", selector, err)
	}
	if len(before.Items) == 0 {
		return nil, leak.WithHint(fmt.Errorf("pods %s: none in namespace %s", selector, namespace), "kubectl get pods -n %s --show-labels", namespace)
	}
	old := map[types.UID]bool{}
	for _, p := range before.Items {
		if metav1.GetControllerOf(&p) == nil {
			return nil, leak.WithHint(fmt.Errorf("pod %s has no controller that would replace it", p.Name), "use a Deployment")
		}
		old[p.UID] = true
	}
	up = func(ctx context.Context) error {
		return wait(ctx, fmt.Sprintf("%d pods %s are not ready again", len(old), selector), func() (bool, error) {
			now, err := pods.List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return false, err
			}
			n := 0
			for _, p := range now.Items {
				if !old[p.UID] && p.DeletionTimestamp == nil && ready(p) {
					n++
				}
			}
			return n >= len(old), nil
		})
	}
	for _, p := range before.Items {
		if err := IgnoreNotFound(pods.Delete(ctx, p.Name, metav1.DeleteOptions{})); err != nil {
			return up, fmt.Errorf("delete pod %s: %w", p.Name, err)
		}
	}
	return up, nil
}

func ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Drain cordons a node and evicts its pods, except those that a DaemonSet or the kubelet itself would start again. up
// uncordons the node. An eviction that a PodDisruptionBudget refuses is tried again until ctx ends.
func (c *Connection) Drain(ctx context.Context, node string) (up func(context.Context) error, err error) {
	cordon := func(ctx context.Context, on bool) error {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on)
		_, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("cordon or uncordon node %s: %w", node, err)
		}
		return nil
	}
	up = func(ctx context.Context) error { return cordon(ctx, false) }
	if err := cordon(ctx, true); err != nil {
		return up, err
	}
	pods, err := c.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return up, fmt.Errorf("pods of node %s: %w", node, err)
	}
	for _, p := range pods.Items {
		if owner := metav1.GetControllerOf(&p); p.Annotations[corev1.MirrorPodAnnotationKey] != "" || owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
		err := wait(ctx, "pod "+p.Name+" is not evicted", func() (bool, error) {
			err := c.Client.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}})
			return !apierrors.IsTooManyRequests(err), IgnoreNotFound(err)
		})
		if err != nil {
			return up, err
		}
	}
	return up, nil
}

// wait polls until done or until ctx ends. The last error of done explains why it was not.
func wait(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-time.After(partsPoll):
		}
	}
}
