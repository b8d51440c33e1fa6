package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/leakrig/leakrig/leak"
)

// fillWorkers is how many requests are under way while a cluster is filled. An API server on two cores
// is not faster with more.
const fillWorkers = 32

// pageSize is how many objects are listed at a time.
const pageSize = 500

// NoFixtures refuses fixtures on clusters with real nodes. A fake node is ready and has no taint, so that the subject
// counts it. A scheduler would assign pods to it, also those of other users, which would never start. Without
// heartbeats, the node becomes unready.
func NoFixtures(f leak.Fixtures, provider string) error {
	if f == (leak.Fixtures{}) {
		return nil
	}
	return leak.Usage("use --cluster embedded", "fixtures on %s: its scheduler would put pods on the fake nodes, where nothing runs them", provider)
}

// Fill creates the fixtures in the run's cluster. They stay unchanged, since the embedded control plane has no
// controller that checks heartbeats, and are deleted with the cluster.
func (c *Connection) Fill(ctx context.Context, f leak.Fixtures, p leak.Progress) error {
	if f == (leak.Fixtures{}) {
		return nil
	}
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	start := time.Now()
	err = parallel(ctx, f.Nodes, func(i int) error {
		p.Status("fixtures: %d of %d nodes", i, f.Nodes)
		_, err := client.CoreV1().Nodes().Create(ctx, c.fakeNode(i), metav1.CreateOptions{})
		return err
	})
	if err == nil {
		err = parallel(ctx, f.Pods, func(i int) error {
			p.Status("fixtures: %d of %d pods", i, f.Pods)
			return c.runFakePod(ctx, client, i, i%f.Nodes)
		})
	}
	if err == nil {
		err = c.filled(ctx, client, f)
	}
	if err != nil {
		return leak.WithHint(fmt.Errorf("fixtures: %w", err), "%s", c.Hint)
	}
	p.Log("fixtures: %d nodes and %d pods in %.1fs", f.Nodes, f.Pods, time.Since(start).Seconds())
	return nil
}

// parallel calls do with 0 to n-1. The first error ends it.
func parallel(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(fillWorkers, n) {
		wg.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					continue
				}
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// fakeNode returns a node without a kubelet.
func (c *Connection) fakeNode(i int) *corev1.Node {
	name := c.fakeNodeName(i)
	labels := c.Labels()
	labels[corev1.LabelHostname], labels[corev1.LabelOSStable], labels[corev1.LabelArchStable] = name, "linux", "amd64"
	now := metav1.Now()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse(fmt.Sprint(leak.PodsPerNode)), corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "LeakrigFixture", LastHeartbeatTime: now, LastTransitionTime: now,
			}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo:  corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "leakrig-fixture"},
		},
	}
}

func (c *Connection) fakeNodeName(i int) string { return fmt.Sprintf("%s-%d", c.Namespace, i) }

// runFakePod creates a pod that appears to run on a fake node. A pod's status cannot be set on creation.
func (c *Connection) runFakePod(ctx context.Context, client kubernetes.Interface, i, node int) error {
	noToken := false
	pods := client.CoreV1().Pods(c.Namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fixture-%d", i), Labels: c.Labels()},
		Spec: corev1.PodSpec{
			NodeName: c.fakeNodeName(node), AutomountServiceAccountToken: &noToken,
			Containers: []corev1.Container{{Name: "app", Image: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// filled checks the created objects, because an admission plugin may have changed them.
func (c *Connection) filled(ctx context.Context, client kubernetes.Interface, f leak.Fixtures) error {
	options := metav1.ListOptions{LabelSelector: leak.RunLabel + "=" + c.Run, Limit: pageSize}
	nodes, pods := 0, 0
	for more := true; more; {
		list, err := client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if len(n.Spec.Taints) > 0 || len(n.Status.Conditions) != 1 || n.Status.Conditions[0].Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s is not ready, or has taints: %v", n.Name, n.Spec.Taints)
			}
		}
		nodes += len(list.Items)
		options.Continue, more = list.Continue, list.Continue != ""
	}
	for more := true; more; {
		list, err := client.CoreV1().Pods(c.Namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
			}
		}
		pods += len(list.Items)
		options.Continue, more = list.Continue, list.Continue != ""
	}
	if nodes != f.Nodes || pods != f.Pods {
		return fmt.Errorf("%d nodes and %d pods are there, of %d and %d", nodes, pods, f.Nodes, f.Pods)
	}
	return nil
}
