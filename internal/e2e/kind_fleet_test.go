//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leakrig/leakrig/fleet"
	"github.com/leakrig/leakrig/leak"
)

// podReplicas has three pods of one program, which share the load of execs and of workers.
const podReplicas = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: pod-replicas}
spec:
  cluster: {providers: [kind]}
  subject: {build: calibration, args: [-plant=goroutine], placement: {kind: pod}, replicas: 3}
  variants:
    - {name: leaky, expect: leaking, fingerprint: [planted]}
  warmup: {rounds: 1}
  rounds: 6
  round:
    - post: {path: /work, times: 60, concurrency: 6, workers: 2}
    - exec: {command: [/subject, -plant=none], exit: 1, times: 9, concurrency: 3}
  operation: post
  settle: {quiet: 300ms, timeout: 20s}
  probes: [goroutine, process]
  checks:
    - stack: {name: planted, match: 'main\.leakySend', state: chan send, maxPerOp: 0.01}
`

// TestKindFleet checks that replicas as pods are loaded and judged separately. Then the same program runs as a
// Deployment, which leakrig did not start, and leakrig observes its pods as a fleet. It finds the leaking pod through
// the API server, and no other, while a pod is deleted and replaced.
func TestKindFleet(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	defer run(t, "clean")
	scenario, runs := filepath.Join(t.TempDir(), "pod-replicas.yaml"), t.TempDir()
	if err := os.WriteFile(scenario, []byte(podReplicas), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "run", scenario, "--cluster", "kind", "--keep", "--worker-rig", built(t, "cmd/leakrig", "."), "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	replicas := variantVerdict(t, readVerdict(t, runDir(t, runs)), "leaky").Replicas
	if len(replicas) != 3 {
		t.Fatalf("%d replicas were judged", len(replicas))
	}
	for i := range replicas {
		if per := findingOf(t, replicas[i], "planted").PerOperation; replicas[i].Outcome != leak.Leaking || math.Abs(per-1) > 0.005 {
			t.Errorf("replica %d: %s, %g an operation", i+1, replicas[i].Outcome, per)
		}
	}
	for _, s := range readRecord(t, runDir(t, runs)).Variants[0].Snapshots[1:] {
		if posts, execs := s.Load[0], s.Load[1]; posts.Succeeded != 20 || execs.Succeeded != 3 {
			t.Errorf("round %d: %+v", s.Round, s.Load)
		}
	}
	met("kind")

	kept := regexp.MustCompile(`kubeconfig (\S+)`).FindStringSubmatch(r.stderr)
	if kept == nil {
		t.Fatalf("the kept cluster's kubeconfig is not named: %s", r)
	}
	cluster := kubernetesAt(t, kept[1])
	n := envInt(t, "LEAKRIG_FLEET_PODS", 12) // a node has room for about a hundred
	pods := cluster.deploy(t, "shop", "orders", imageOf(t, "subject"), int32(n))
	leaky, deleted := pods[3], pods[7]
	stop := make(chan struct{})
	go func() {
		for tick := time.Tick(200 * time.Millisecond); ; {
			select {
			case <-tick:
				_ = cluster.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/shop/pods/" + leaky + ":6060/proxy/work").Do(t.Context()).Error()
			case <-stop:
				return
			}
		}
	}()
	defer close(stop)
	// Run two surveys at once, as two people would, while a pod is deleted and replaced.
	vias, surveys := []string{"proxy", "port-forward"}, []*rig{}
	for _, via := range vias {
		surveys = append(surveys, start(t, "fleet", "--selector", "app=orders", "--all-namespaces", "--kubeconfig", kept[1], "--via", via,
			"--every", "1s", "--for", "30s", "--min-judged", "0.8", "--max-per-hour", "1000", "--runs-dir", t.TempDir(), "--format", "json"))
	}
	for _, survey := range surveys {
		survey.until(t, `sweep 3 of 31`)
	}
	if err := cluster.CoreV1().Pods("shop").Delete(t.Context(), deleted, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := fleet.Tally{Seen: n + 1, Judged: n, Leaking: 1, Clean: n - 1, NotJudged: 1, Gone: 1}
	for i, survey := range surveys {
		via, got := vias[i], survey.wait(t)
		var v fleet.Verdict
		if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || got.code != leak.ExitNotMet {
			t.Fatal(err, got)
		}
		if v.Targets != want || len(v.Stacks) == 0 {
			t.Errorf("via %s: %+v, want %+v: %s", via, v.Targets, want, v.Sentence)
			continue
		}
		if s := v.Stacks[0]; s.Stack.String() != "chan send at main.leakySend" || s.Targets[0].Target != "shop/"+leaky || s.Targets[0].Outcome != leak.Leaking {
			t.Errorf("via %s: %+v", via, s)
		}
		t.Logf("via %s: %s; the slowest sweep took %.2f s", via, v.Sentence, v.SlowestSweep)
	}
}

// imageOf returns the image of a subject or of workers on the nodes of the only cluster.
func imageOf(t *testing.T, what string) string {
	t.Helper()
	out := output(t, engine("exec", strings.Fields(containers(t))[0], "crictl", "images", "-o", "json"))
	ref := regexp.MustCompile(`"(leakrig\.local/` + what + `[/:][^"@]+)"`).FindStringSubmatch(out)
	if ref == nil {
		t.Fatalf("the node has no image of a %s: %s", what, out)
	}
	return ref[1]
}

// deploy creates a Deployment and returns the names of its pods when all are ready.
func (c liveCluster) deploy(t *testing.T, namespace, name, image string, n int32) []string {
	t.Helper()
	labels := map[string]string{"app": name}
	container := corev1.Container{
		Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Args: []string{"-plant=goroutine"},
		Env: []corev1.EnvVar{{Name: "LEAKRIG_LISTEN", Value: "0.0.0.0:6060"}},
	}
	_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{
				Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
			},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	waitFor(t, func() bool {
		pods, err := c.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: fmt.Sprintf("app=%s", name)})
		names = nil
		for _, p := range pods.Items {
			if len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready {
				names = append(names, p.Name)
			}
		}
		return err == nil && len(names) == int(n)
	})
	return names
}
