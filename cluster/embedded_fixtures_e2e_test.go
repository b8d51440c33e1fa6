//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leakrig/leakrig/leak"
)

// A thousand nodes are there in seconds, ready and without taints, with their pods running; and a control
// plane of another version boots.
func TestEmbeddedFixtures(t *testing.T) {
	ctx := context.Background()
	e := &Embedded{Cache: cacheDir(t)}
	o := leak.BootOptions{
		Spec: leak.ClusterSpec{Kubernetes: "v1.24.17", Nodes: 1}, Fixtures: leak.Fixtures{Nodes: 1000, Pods: 1500},
		Run: "fixtures", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: testProgress{t},
	}
	begun := time.Now()
	booted, err := e.Boot(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer booted.Close(ctx)
	fmt.Println("MET kube-apiserver")
	if v := booted.Info().Kubernetes; v != "v1.24.17" {
		t.Errorf("booted %s", v)
	}
	t.Logf("booted and filled in %s", time.Since(begun))
	client := booted.(*plane).Client
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1000 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	perNode := map[string]int{}
	pods, err := client.CoreV1().Pods(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1500 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	for _, p := range pods.Items {
		perNode[p.Spec.NodeName]++
		if p.Status.Phase != corev1.PodRunning {
			t.Fatalf("%s is %s", p.Name, p.Status.Phase)
		}
	}
	for _, n := range nodes.Items {
		ready := len(n.Status.Conditions) == 1 && n.Status.Conditions[0].Type == corev1.NodeReady && n.Status.Conditions[0].Status == corev1.ConditionTrue
		if !ready || len(n.Spec.Taints) > 0 || perNode[n.Name] < 1 || perNode[n.Name] > 2 {
			t.Fatalf("%s: conditions %v, taints %v, %d pods", n.Name, n.Status.Conditions, n.Spec.Taints, perNode[n.Name])
		}
	}
}
