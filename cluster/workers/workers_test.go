package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

// fakeCrews is a connection to an API server that only remembers, and pods that test functions play.
type fakeCrews struct {
	*apiserver.Connection
	client *fake.Clientset
	tasks  sync.WaitGroup
}

// play is what the i-th pod of the Job does; start says how many Jobs there were.
type play func(f *fakeCrews, w *worker, start, i int)

func newFakeCrews(t *testing.T, p play) *fakeCrews {
	t.Helper()
	f := &fakeCrews{client: fake.NewClientset()}
	f.Connection = &apiserver.Connection{Client: f.client, Namespace: "leakrig-r", Run: "r"}
	ctx, cancel := context.WithCancel(t.Context())
	jobs, err := f.client.BatchV1().Jobs(f.Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); jobs.Stop(); f.tasks.Wait() })
	go func() {
		start := 0
		for e := range jobs.ResultChan() {
			job := e.Object.(*batchv1.Job)
			switch e.Type {
			case "ADDED":
				start++
				for i := range int(*job.Spec.Completions) {
					f.pod(ctx, job, i, p, start)
				}
			case "DELETED": // as the garbage collector
				pods, _ := f.client.CoreV1().Pods(f.Namespace).List(ctx, metav1.ListOptions{})
				for _, pod := range pods.Items {
					_ = f.client.CoreV1().Pods(f.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
				}
			}
		}
	}()
	return f
}

func (f *fakeCrews) pod(ctx context.Context, job *batchv1.Job, i int, p play, start int) {
	name := fmt.Sprintf("%s-%d-x%d", job.Name, i, start)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: f.Namespace, Labels: job.Spec.Template.Labels, Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(i)},
	}, Spec: corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	_, _ = f.client.CoreV1().Pods(f.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	w := &worker{index: i, name: job.Name, pod: name, maps: f.client.CoreV1().ConfigMaps(f.Namespace), disconnect: func() {}, poll: workerPoll / 4}
	f.tasks.Go(func() { p(f, w, start, i) })
}

// change changes the pod of a worker.
func (f *fakeCrews) change(w *worker, change func(*corev1.Pod)) {
	pod, err := f.client.CoreV1().Pods(f.Namespace).Get(context.Background(), w.pod, metav1.GetOptions{})
	if err == nil {
		change(pod)
		_, _ = f.client.CoreV1().Pods(f.Namespace).UpdateStatus(context.Background(), pod, metav1.UpdateOptions{})
	}
}

func ended(phase corev1.PodPhase, reason string, code int32, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: message}}}}
	}
}

func evicted(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"}}
}

// works is a worker that does what it should.
func works(t *testing.T) play {
	return func(_ *fakeCrews, w *worker, _, i int) {
		if err := w.begin(t.Context()); err != nil {
			return
		}
		if err := w.report(t.Context(), map[string]string{resultKey: fmt.Sprintf("did %d", i), lateKey: w.late.String()}); err != nil {
			t.Error(err)
		}
	}
}

// left returns the remaining objects of crews in all namespaces.
func (f *fakeCrews) left(t *testing.T) []string {
	t.Helper()
	var left []string
	for resource, kind := range map[string]string{
		"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount", "pods": "Pod",
		"batch/jobs": "Job", "rbac.authorization.k8s.io/roles": "Role", "rbac.authorization.k8s.io/rolebindings": "RoleBinding",
	} {
		group, name, ok := strings.Cut(resource, "/")
		if !ok {
			group, name = "", resource
		}
		gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
		list, err := f.client.Tracker().List(gvr, gvr.GroupVersion().WithKind(kind), "")
		if err != nil {
			t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			left = append(left, name+"/"+item.(metav1.Object).GetName())
		}
	}
	return left
}

// TestWorkers checks that all start together, that each reports separately, and that no objects are left.
func TestWorkers(t *testing.T) {
	f := newFakeCrews(t, works(t))
	ends, err := Run(t.Context(), f.Connection, "image", corev1.PullNever, leak.Work{
		Workers: 4, Order: []byte("order"), Limit: time.Minute,
		Rules: []leak.WorkerRule{{Namespace: "web", PolicyRule: leak.PolicyRule{Resources: []string{"pods"}, Verbs: []string{"list"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, end := range ends {
		if string(end.Result) != fmt.Sprintf("did %d", i) || end.Lost != "" || end.Pod != fmt.Sprintf("workers-1-%d-x1", i) || end.Node != "node" || end.Late > time.Second {
			t.Errorf("worker %d: %+v", i, end)
		}
	}
	if left := f.left(t); len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n"))
	}
}

// TestWorkersLost checks for all kinds of loss after the start that the others continue, and that the end has the
// reason.
func TestWorkersLost(t *testing.T) {
	for _, c := range []struct {
		comment, lost, result string
		end                   func(f *fakeCrews, w *worker)
	}{
		{"killed for its memory", "OOMKilled, exit code 137", "", func(f *fakeCrews, w *worker) { f.change(w, ended(corev1.PodFailed, "OOMKilled", 137, "")) }},
		{"crashed", "Error, exit code 2: panic: oh", "", func(f *fakeCrews, w *worker) {
			f.change(w, ended(corev1.PodFailed, "Error", 2, "goroutine 1\npanic: oh\n"))
		}},
		{"deleted", "its pod was deleted", "", func(f *fakeCrews, w *worker) {
			_ = f.client.CoreV1().Pods(f.Namespace).Delete(context.Background(), w.pod, metav1.DeleteOptions{})
		}},
		{"evicted by the kubelet", "Evicted: The node was low on resource: memory.", "", func(f *fakeCrews, w *worker) {
			f.change(w, func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
			})
		}},
		{"drained, and reported its progress", "EvictionByEvictionAPI: Eviction API: evicting", "half", func(f *fakeCrews, w *worker) {
			f.change(w, evicted)
			_ = w.report(context.Background(), map[string]string{resultKey: "half", cutKey: "stopped"})
		}},
		{"stopped and gone, with word of how far it came", "its pod was deleted", "half", func(f *fakeCrews, w *worker) {
			_ = f.client.CoreV1().Pods(f.Namespace).Delete(context.Background(), w.pod, metav1.DeleteOptions{})
			_ = w.report(context.Background(), map[string]string{resultKey: "half", cutKey: "stopped"})
		}},
		{"done before its pod was evicted", "", "all", func(f *fakeCrews, w *worker) {
			_ = w.report(context.Background(), map[string]string{resultKey: "all"})
			f.change(w, evicted)
		}},
		{"silent", "no result 3s after the start", "", func(*fakeCrews, *worker) {}},
	} {
		t.Run(c.comment, func(t *testing.T) {
			t.Parallel()
			well := works(t)
			f := newFakeCrews(t, func(f *fakeCrews, w *worker, start, i int) {
				if i != 1 {
					well(f, w, start, i)
				} else if err := w.begin(t.Context()); err == nil {
					c.end(f, w)
				}
			})
			ends, err := Run(t.Context(), f.Connection, "image", corev1.PullNever, leak.Work{Workers: 3, Limit: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if ends[1].Lost != c.lost || string(ends[1].Result) != c.result || (ends[1].Result == nil) != (c.result == "") {
				t.Errorf("%q %q", ends[1].Lost, ends[1].Result)
			}
			for _, i := range []int{0, 2} {
				if ends[i].Lost != "" || string(ends[i].Result) != fmt.Sprintf("did %d", i) {
					t.Errorf("worker %d: %+v", i, ends[i])
				}
			}
			if left := f.left(t); len(left) > 0 {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// TestWorkersBeforeTheStart checks that all start again if one is lost before the start. A pod that cannot be deleted
// is an error.
func TestWorkersBeforeTheStart(t *testing.T) {
	well := works(t)
	for _, c := range []struct {
		comment, want string
		starts        int
		play          play
	}{
		{"evicted once", "", 2, func(f *fakeCrews, w *worker, start, i int) {
			if start == 1 && i == 0 {
				f.change(w, evicted)
				return
			}
			well(f, w, start, i)
		}},
		{"evicted every time", "worker 1 of 2 was lost before the start: EvictionByEvictionAPI", 3, func(f *fakeCrews, w *worker, start, i int) {
			if i == 0 {
				f.change(w, evicted)
				return
			}
			well(f, w, start, i)
		}},
		{"no such command", "worker 1 of 2 ended before the start: StartError, exit code 128: no such file", 1, func(f *fakeCrews, w *worker, start, i int) {
			if i == 0 {
				f.change(w, ended(corev1.PodFailed, "StartError", 128, "no such file"))
				return
			}
			well(f, w, start, i)
		}},
		{"an order that it cannot read", "worker 1 of 2: order: format 2", 1, func(f *fakeCrews, w *worker, start, i int) {
			if i == 0 {
				_ = w.report(context.Background(), map[string]string{failedKey: "order: format 2", hintKey: "another image"})
				return
			}
			well(f, w, start, i)
		}},
	} {
		t.Run(c.comment, func(t *testing.T) {
			t.Parallel()
			f := newFakeCrews(t, c.play)
			ends, err := Run(t.Context(), f.Connection, "image", corev1.PullNever, leak.Work{Workers: 2, Limit: time.Minute})
			if c.want == "" && (err != nil || len(ends) != 2 || ends[0].Result == nil) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%+v %v", ends, err)
			}
			if got := int(f.Crews.Load()); got != c.starts {
				t.Errorf("started %d times", got)
			}
			if left := f.left(t); len(left) > 0 {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// A pod that was made after the pods were listed, and has its place before the places are, is not lost.
func TestWorkerListedLate(t *testing.T) {
	f := newFakeCrews(t, works(t))
	seen := false // that the place is taken
	f.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !seen, &corev1.PodList{}, nil
	})
	f.client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		place, err := f.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), f.Namespace, "workers-1-0")
		seen = err == nil && place.(*corev1.ConfigMap).Data[podKey] != ""
		return false, nil, nil
	})
	ends, err := Run(t.Context(), f.Connection, "image", corev1.PullNever, leak.Work{Workers: 1, Limit: time.Minute})
	if err != nil || ends[0].Lost != "" || ends[0].Pod != "workers-1-0-x1" {
		t.Errorf("%+v, %v", ends, err)
	}
}

// An interrupt ends it, and takes all with it.
func TestWorkersInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := newFakeCrews(t, func(_ *fakeCrews, w *worker, _, i int) {
		if w.begin(t.Context()) == nil && i == 0 {
			cancel(errors.New("the subject died"))
		}
	})
	_, err := Run(ctx, f.Connection, "image", corev1.PullNever, leak.Work{Workers: 2, Limit: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "the subject died") {
		t.Error(err)
	}
	for range 100 {
		if len(f.left(t)) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left: %s", f.left(t))
}

// A pod that comes in the place of a lost worker performs nothing.
func TestWorkerTakesNoPlace(t *testing.T) {
	f := newFakeCrews(t, works(t))
	maps := f.client.CoreV1().ConfigMaps(f.Namespace)
	for _, name := range []string{"w", "w-0"} {
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{podKey: ""}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first := &worker{name: "w", pod: "first", maps: maps, poll: time.Millisecond}
	second := &worker{name: "w", pod: "second", maps: maps, poll: time.Millisecond}
	if err := first.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The fake API server's answer to a test that fails is not the real one's: that is in the tests on kind.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := second.take(ctx); err == nil {
		t.Error("both have the place")
	}
	if m, err := maps.Get(t.Context(), "w-0", metav1.GetOptions{}); err != nil || m.Data[podKey] != "first" {
		t.Errorf("%+v %v", m, err)
	}
}

// TestWorkerJob checks that the Job runs each index once, that the others continue if one fails, and that its pods
// have minimal permissions.
func TestWorkerJob(t *testing.T) {
	c := &crew{Connection: &apiserver.Connection{Namespace: "leakrig-r", Run: "r"}, image: "image", pull: corev1.PullNever, name: "workers-7", work: leak.Work{
		Workers: 4, Limit: time.Minute,
		Rules: []leak.WorkerRule{
			{PolicyRule: leak.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"create"}}},
			{Namespace: "web", PolicyRule: leak.PolicyRule{Resources: []string{"pods/exec"}, Verbs: []string{"create"}}},
		},
	}}
	job := c.job()
	spec, pod := job.Spec, job.Spec.Template.Spec
	if *spec.Completions != 4 || *spec.Parallelism != 4 || *spec.CompletionMode != batchv1.IndexedCompletion || *spec.BackoffLimitPerIndex != 0 || *spec.BackoffLimit < 100 ||
		*spec.ActiveDeadlineSeconds < 150 || spec.PodFailurePolicy != nil || pod.RestartPolicy != corev1.RestartPolicyNever || pod.ServiceAccountName != "workers-7" {
		t.Errorf("%+v", spec)
	}
	if job.Labels[leak.RunLabel] != "r" || spec.Template.Labels[leak.RunLabel] != "r" {
		t.Errorf("labels: %v %v", job.Labels, spec.Template.Labels)
	}
	s := pod.Containers[0].SecurityContext
	if !*s.RunAsNonRoot || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || len(s.Capabilities.Add) > 0 || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("%+v", s)
	}
	var rules []string
	for namespace, role := range c.roles() {
		if role.Labels[leak.RunLabel] != "r" {
			t.Errorf("%s: labels %v", namespace, role.Labels)
		}
		for _, r := range role.Rules {
			rules = append(rules, fmt.Sprint(namespace, " ", role.Name, " ", r.APIGroups, r.Resources, r.ResourceNames, r.Verbs))
		}
	}
	slices.Sort(rules)
	want := []string{
		"leakrig-r workers-7 [] [configmaps] [workers-7-0 workers-7-1 workers-7-2 workers-7-3] [patch]",
		"leakrig-r workers-7 [] [configmaps] [workers-7] [get]",
		"leakrig-r workers-7 [apps] [deployments] [] [create]",
		"web leakrig-r-workers-7 [] [pods/exec] [] [create]",
	}
	if !slices.Equal(rules, want) {
		t.Errorf("rules:\n%s", strings.Join(rules, "\n"))
	}
}

// Outside of a pod that leakrig has made, the command says what it is for.
func TestRunWorkerElsewhere(t *testing.T) {
	t.Setenv(workersVariable, "")
	if err := Main(t.Context(), nil); err == nil || leak.Hint(err) == "" {
		t.Error(err)
	}
}
