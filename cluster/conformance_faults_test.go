//go:build e2e

package cluster

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/leakrig/leakrig/leak"
)

// breakKind stops parts of a cluster and checks that the undo brings them back: pods of a Deployment (the cluster's DNS
// server), a node, and the API server.
func breakKind(t *testing.T, c *kindCluster) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const namespace, selector = "kube-system", "k8s-app=kube-dns"
	var servers map[types.UID]corev1.Pod
	list := func(t *testing.T) map[types.UID]corev1.Pod {
		t.Helper()
		pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		found := map[types.UID]corev1.Pod{}
		for _, p := range pods.Items {
			found[p.UID] = p
		}
		return found
	}
	down := func(t *testing.T, p leak.Part) func(context.Context) error {
		t.Helper()
		up, err := c.Down(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return up
	}
	t.Run("pods that are deleted", func(t *testing.T) {
		before := list(t)
		if len(before) == 0 {
			t.Fatal("the cluster has no DNS server")
		}
		if err := down(t, leak.Part{Namespace: namespace, Selector: selector})(ctx); err != nil {
			t.Fatal(err)
		}
		servers = list(t)
		alive := 0
		for uid, p := range servers {
			if p.DeletionTimestamp != nil {
				continue
			}
			if _, old := before[uid]; old || !ready(p) {
				t.Errorf("%s is not new and ready", p.Name)
			}
			alive++
		}
		if alive != len(before) {
			t.Errorf("%d pods after %d", alive, len(before))
		}
	})
	t.Run("a node that is drained", func(t *testing.T) {
		node := slices.Collect(maps.Values(servers))[0].Spec.NodeName
		up := down(t, leak.Part{Node: node[len(c.name)+1:]})
		cordoned := func() bool {
			n, err := c.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return n.Spec.Unschedulable
		}
		if !cordoned() {
			t.Errorf("pods can be scheduled on %s", node)
		}
		for _, p := range list(t) {
			if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
				t.Errorf("%s is still on %s", p.Name, node)
			}
		}
		if err := up(ctx); err != nil || cordoned() {
			t.Errorf("%s is still drained: %v", node, err)
		}
	})
	t.Run("an API server that is stopped", func(t *testing.T) {
		up := down(t, leak.Part{Name: leak.KubeAPIServer})
		if _, err := c.Client.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{}); err == nil {
			t.Error("it answers")
		}
		if err := c.Check(ctx); err != nil {
			t.Errorf("a fault counts as the end of the cluster: %v", err)
		}
		if err := up(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
