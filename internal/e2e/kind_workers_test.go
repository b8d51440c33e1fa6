//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/rundir"

	corev1 "k8s.io/api/core/v1"

	policyv1 "k8s.io/api/policy/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/leak"
)

// workersScenario has a subject that leaks a goroutine per operation. --set sets the number of workers for 400
// operations per round.
const workersScenario = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: workers}
spec:
  parameters: {workers: "1", rate: "0"}
  cluster: {providers: [kind], nodes: 3}
  subject: {build: calibration, args: [-plant=goroutine], placement: {kind: pod}}
  variants:
    - {name: leaky, expect: leaking, fingerprint: [planted]}
  warmup: {rounds: 1}
  rounds: 5
  round:
    - post: {path: /work, times: 400, concurrency: 8, rate: $(rate), workers: $(workers)}
  settle: {quiet: 300ms, timeout: 20s}
  probes: [goroutine]
  checks:
    - stack: {name: planted, match: 'main\.leakySend', state: chan send, maxPerOp: 0.01}
`

// workersThroughAPI has the other actions, with the minimal permissions of their workers. They go through the API
// server, or run a program from leakrig's machine.
const workersThroughAPI = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: workers-api}
spec:
  cluster: {providers: [kind], nodes: 3}
  subject: {build: calibration, placement: {kind: pod}}
  variants:
    - {name: current, expect: clean}
  warmup: {rounds: 0}
  rounds: 1
  round:
    - exec: {command: [/subject, -plant=none], exit: 1, times: 6, concurrency: 4, workers: 2}
    - watch: {times: 20, concurrency: 4, workers: 2}
    - churn:
        template: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: "d-{{.Op}}"}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}'
        times: 20
        concurrency: 4
        workers: 2
    - command:
        argv: [program, "5"]
        rules: [{resources: [pods], verbs: [get]}]
        times: 20
        concurrency: 4
        operations: 5
        workers: 2
  operation: watch
  settle: {quiet: 300ms, timeout: 20s}
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 10}]
`

// workersOnExisting runs the same workers in an existing cluster, from an image that its nodes have.
const workersOnExisting = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: workers-existing}
spec:
  cluster: {providers: [existing]}
  subject: {build: calibration}
  variants:
    - {name: current, expect: clean}
  warmup: {rounds: 0}
  rounds: 1
  round:
    - watch: {times: 20, concurrency: 4, workers: 2}
  settle: {quiet: 300ms, timeout: 20s}
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 10}]
`

// TestKindWorkers checks that four workers give the same verdict and the same growth per operation as one, with every
// operation counted once. A killed worker and a drained node are reported and judged, and the record is complete. No
// object of the workers is left in the cluster.
func TestKindWorkers(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	defer run(t, "clean")
	began := time.Now()
	dir := t.TempDir()
	rigBinary := built(t, "cmd/leakrig", ".")
	file := func(name, text string) string {
		path := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := func(scenario, runs string, more ...string) []string {
		return append([]string{"run", scenario, "--cluster", "kind", "--worker-rig", rigBinary, "--runs-dir", runs}, more...)
	}
	scenario := file("workers", workersScenario)

	growth := map[int]float64{}
	var kubeconfig string
	for _, workers := range []int{1, 4} {
		at, runs := time.Now(), t.TempDir()
		r := run(t, args(scenario, runs, "--keep", "--reuse", "--set", fmt.Sprintf("workers=%d", workers))...)
		if r.code != leak.ExitMet {
			t.Fatalf("%d workers: %s", workers, r)
		}
		record := readRecord(t, runDir(t, runs))
		growth[workers] = findingOf(t, variantVerdict(t, readVerdict(t, runDir(t, runs)), "leaky"), "planted").PerOperation
		for _, s := range record.Variants[0].Snapshots[1:] {
			wholeTally(t, s.Load[0], workers, 400)
			if s.Load[0].Succeeded != 400 {
				t.Errorf("%d workers, round %d: %+v", workers, s.Round, s.Load[0])
			}
		}
		kept := regexp.MustCompile(`kubeconfig (\S+)`).FindStringSubmatch(r.stderr)
		if kept == nil {
			t.Fatalf("the kept cluster's kubeconfig is not named: %s", r)
		}
		kubeconfig = kept[1]
		t.Logf("%d workers: %g an operation, in %s\n%s", workers, growth[workers], time.Since(at).Round(time.Second), r.stderr)
	}
	if math.Abs(growth[1]-1) > 0.005 || math.Abs(growth[4]-growth[1]) > 0.005 {
		t.Errorf("growth per operation: %v", growth)
	}
	met("kind")

	cluster := kubernetesAt(t, kubeconfig)
	disturbed := t.TempDir()
	r := start(t, args(scenario, disturbed, "--reuse", "--set", "workers=4", "--set", "rate=100")...)
	r.until(t, `leaky: round 1/5`)
	cluster.underLoad(t, 2)
	killed := cluster.kill(t)
	r.until(t, `leaky: round 3/5`)
	cluster.underLoad(t, 4)
	node, evicted := cluster.drain(t)
	got := r.wait(t)
	cluster.uncordon(t, node)
	checkLost(t, got, runDir(t, disturbed), map[int]lost{2: {[]string{killed}, "its pod was deleted"}, 4: {evicted, "Evict"}})

	setenv(t, "PATH", filepath.Dir(built(t, "internal/e2e", "./testdata/hit"))+":"+os.Getenv("PATH"))
	at, runs := time.Now(), t.TempDir()
	if r := run(t, args(file("workers-api", workersThroughAPI), runs, "--reuse")...); r.code != leak.ExitMet {
		t.Error(r)
	} else {
		for _, tally := range readRecord(t, runDir(t, runs)).Variants[0].Final().Load {
			if want := map[string]int{"exec": 6, "watch": 20, "churn": 20, "command": 100}[tally.Action]; tally.Failed > 0 || tally.Attempted != want || len(tally.Workers) != 2 {
				t.Errorf("%+v, want %d", tally, want)
			}
		}
		t.Logf("through the API server, in %s\n%s", time.Since(at).Round(time.Second), r.stderr)
	}
	runs = t.TempDir()
	if r := run(t, "run", file("workers-existing", workersOnExisting), "--cluster", "existing", "--kubeconfig", kubeconfig, "--worker-image", imageOf(t, "worker"), "--runs-dir", runs); r.code != leak.ExitInconclusive || !strings.Contains(r.stdout, "left no trace") {
		t.Error(r) // a watch does not reach the subject
	} else {
		wholeTally(t, readRecord(t, runDir(t, runs)).Variants[0].Final().Load[0], 2, 20)
	}
	cluster.gone(t)
	t.Logf("all in %s", time.Since(began).Round(time.Second))
}

// lost describes the workers that were lost in a round, with a word of the reason.
type lost struct {
	pods []string
	word string
}

// checkLost checks a run that lost workers in some rounds: more than 1 % of its operations failed, so it has no
// verdict, and the record of all rounds is complete.
func checkLost(t *testing.T, got result, dir rundir.Dir, rounds map[int]lost) {
	t.Helper()
	if got.code != leak.ExitInconclusive || !regexp.MustCompile(`worker \d of 4 lost`).MatchString(got.stdout) {
		t.Errorf("lost workers were not judged: %s", got)
	}
	variant := readRecord(t, dir).Variants[0]
	if len(variant.Snapshots) != 6 || variant.Failure != nil || variant.Idle == nil {
		t.Fatalf("the record is not whole: %s", got)
	}
	// The subject leaks a goroutine per operation. Its count equals the operations reported by the workers.
	const inFlight = 2 // operations of each worker that may be cut off when it is lost
	succeeded, cut := 0, 0
	for _, s := range variant.Snapshots[1:] {
		load := s.Load[0]
		wholeTally(t, load, 4, 400)
		var told []string
		for _, w := range load.Workers {
			if w.Lost != "" {
				told = append(told, w.Pod)
				t.Logf("round %d: %+v", s.Round, w)
			}
		}
		slices.Sort(told)
		if want := rounds[s.Round]; !slices.Equal(told, want.pods) || len(told) > 0 && (load.Failed == 0 || !strings.Contains(load.Errors[0].Message, want.word)) {
			t.Errorf("round %d: lost %v, want %v: %+v", s.Round, told, want, load)
		}
		succeeded += load.Succeeded
		cut += len(told) * inFlight
		count := func(s leak.Snapshot) int { return int(s.Sample("goroutine").Values["count"]) }
		if grown := count(s) - count(variant.Snapshots[0]); grown < succeeded || grown > succeeded+cut {
			t.Errorf("round %d: %d goroutines more, and %d operations", s.Round, grown, succeeded)
		}
	}
}

// wholeTally checks that each operation belongs to one worker and counts once.
func wholeTally(t *testing.T, tally leak.Tally, workers, times int) {
	t.Helper()
	operations, succeeded := 0, 0
	for i, w := range tally.Workers {
		if i > 0 && w.First != tally.Workers[i-1].First+tally.Workers[i-1].Operations {
			t.Errorf("worker %d begins with operation %d: %+v", i+1, w.First, tally.Workers)
		}
		if w.Lost == "" && w.Attempted != w.Operations {
			t.Errorf("worker %d: %+v", i+1, w)
		}
		operations, succeeded = operations+w.Operations, succeeded+w.Succeeded
	}
	errors := 0
	for _, e := range tally.Errors {
		errors += e.Count
	}
	if len(tally.Workers) != workers || operations != times || tally.Attempted != times || tally.Succeeded != succeeded || tally.Failed != times-succeeded || errors != tally.Failed {
		t.Errorf("%+v", tally)
	}
}

// liveCluster is the cluster as seen by its administrator.
type liveCluster struct{ kubernetes.Interface }

func kubernetesAt(t *testing.T, kubeconfig string) liveCluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 1000, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return liveCluster{client}
}

// underLoad waits until workers are in the middle of a round. The warm-up has separate workers.
func (c liveCluster) underLoad(t *testing.T, round int) {
	t.Helper()
	name := fmt.Sprintf("workers-%d", round+1)
	waitFor(t, func() bool {
		maps, err := c.CoreV1().ConfigMaps("").List(context.Background(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil && len(maps.Items) == 1 && maps.Items[0].Data["start"] != ""
	})
	// An operation leaks a goroutine: new goroutines show that operations are in progress.
	before := c.goroutines(t)
	waitFor(t, func() bool { return c.goroutines(t) >= before+50 })
}

// goroutines reads how many goroutines the only subject has, through the API server's proxy.
func (c liveCluster) goroutines(t *testing.T) (n int) {
	t.Helper()
	pod := c.subject(t)
	for _, v := range pod.Spec.Containers[0].Env {
		_, port, err := net.SplitHostPort(v.Value)
		if v.Name != "LEAKRIG_LISTEN" || err != nil {
			continue
		}
		page, err := c.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, port, "/debug/pprof/goroutine", map[string]string{"debug": "1"}).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(page), "goroutine profile: total %d", &n); err != nil {
			t.Fatalf("%v: %.80q", err, page)
		}
		return n
	}
	t.Fatalf("%s does not name the address it listens on", pod.Name)
	panic("not reached")
}

// subject returns the pod of the only subject.
func (c liveCluster) subject(t *testing.T) corev1.Pod {
	t.Helper()
	subjects, err := c.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{LabelSelector: "leakrig.dev/run,!batch.kubernetes.io/job-name"})
	if err != nil || len(subjects.Items) != 1 {
		t.Fatalf("%d subjects, %v", len(subjects.Items), err)
	}
	return subjects.Items[0]
}

func (c liveCluster) workers(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := c.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name"})
	if err != nil || len(pods.Items) != 4 {
		t.Fatalf("%d workers, %v", len(pods.Items), err)
	}
	return pods.Items
}

// kill deletes one worker's pod without grace, and returns its name.
func (c liveCluster) kill(t *testing.T) string {
	t.Helper()
	pod, now := c.workers(t)[1], int64(0)
	if err := c.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	return pod.Name
}

// drain drains a node without the subject, as kubectl drain does, but evicts only the workers.
func (c liveCluster) drain(t *testing.T) (node string, evicted []string) {
	t.Helper()
	home, workers := c.subject(t).Spec.NodeName, c.workers(t)
	for _, w := range workers {
		if w.Spec.NodeName != home {
			node = w.Spec.NodeName
		}
	}
	if node == "" {
		t.Fatal("all workers are on the subject's node")
	}
	c.schedule(t, node, false)
	for _, w := range workers {
		if w.Spec.NodeName != node {
			continue
		}
		if err := c.PolicyV1().Evictions(w.Namespace).Evict(context.Background(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace}}); err != nil {
			t.Fatal(err)
		}
		evicted = append(evicted, w.Name)
	}
	slices.Sort(evicted)
	return node, evicted
}

func (c liveCluster) uncordon(t *testing.T, node string) { c.schedule(t, node, true) }

func (c liveCluster) schedule(t *testing.T, node string, may bool) {
	t.Helper()
	n, err := c.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	if err == nil {
		n.Spec.Unschedulable = !may
		_, err = c.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// gone waits until no object has the label of a run. The kept cluster deletes the namespaces without leakrig.
func (c liveCluster) gone(t *testing.T) {
	t.Helper()
	o := metav1.ListOptions{LabelSelector: "leakrig.dev/run"}
	ctx := context.Background()
	waitFor(t, func() bool {
		jobs, err1 := c.BatchV1().Jobs("").List(ctx, o)
		pods, err2 := c.CoreV1().Pods("").List(ctx, o)
		maps, err3 := c.CoreV1().ConfigMaps("").List(ctx, o)
		secrets, err4 := c.CoreV1().Secrets("").List(ctx, o)
		roles, err5 := c.RbacV1().Roles("").List(ctx, o)
		bindings, err6 := c.RbacV1().RoleBindings("").List(ctx, o)
		accounts, err7 := c.CoreV1().ServiceAccounts("").List(ctx, o)
		namespaces, err8 := c.CoreV1().Namespaces().List(ctx, o)
		for _, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8} {
			if err != nil {
				return false
			}
		}
		return len(jobs.Items)+len(pods.Items)+len(maps.Items)+len(secrets.Items)+len(roles.Items)+len(bindings.Items)+len(accounts.Items)+len(namespaces.Items) == 0
	})
}
