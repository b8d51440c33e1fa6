//go:build e2e

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/cluster/nodeimage"
	"github.com/leakrig/leakrig/cluster/subjectpod"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/subjects"
)

// reachFromEveryNode has every node reach a pod, by the routes between their networks.
func reachFromEveryNode(t *testing.T, c *kindCluster) {
	ctx := context.Background()
	s, err := c.RunPod(ctx, calibration(t, "-plant=nothing"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(ctx)
	found, err := s.(*subjectpod.Pod).Current(ctx)
	// The kubelet reports the pod's address shortly after the subject has started to answer.
	for deadline := time.Now().Add(10 * time.Second); err == nil && found.Status.PodIP == "" && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		found, err = s.(*subjectpod.Pod).Current(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.engine.Run(ctx, "ps", "--filter", "label="+engine.ClusterLabel+"="+c.name, "--format", "{{.Names}}")
	if err != nil || len(strings.Fields(nodes)) != c.Info().Nodes {
		t.Fatalf("nodes %q %v", nodes, err)
	}
	for node := range strings.FieldsSeq(nodes) {
		out, err := c.engine.Run(ctx, "exec", node, "curl", "-s", "-m", "5", "http://"+found.Status.PodIP+":8080/healthz")
		if err != nil || out != "ok" {
			t.Errorf("from %s: %q %v", node, out, err)
		}
	}
}

func mustClose(t *testing.T, c leak.Cluster) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// needsKind skips a test, loudly, where no engine answers, or not the one that kind's variable names, and never in CI.
func needsKind(t *testing.T) *Kind {
	t.Helper()
	ctx := context.Background()
	e, err := engine.Detect(ctx)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
	options := nodeimage.Options{Kubernetes: DefaultVersion, Engine: e, Cache: cacheDir(t), Progress: testProgress{t}}
	if _, err := nodeimage.Build(ctx, options); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
	t.Cleanup(func() {
		if left := containersOf(t, ""); left != "" {
			t.Errorf("containers are left: %s", left)
		}
		left, err := e.Volumes(ctx)
		maps.DeleteFunc(left, func(cluster string, _ []string) bool { return !strings.HasPrefix(cluster, "leakrig-") })
		if err != nil || len(left) > 0 {
			t.Errorf("volumes are left: %v %v", left, err)
		}
	})
	return &Kind{Options{Cache: cacheDir(t)}}
}

// containersOf lists the containers of a run's cluster, or with "" of every cluster, whether they live or not.
func containersOf(t *testing.T, run string) string {
	t.Helper()
	e, err := engine.Detect(context.Background())
	if err != nil {
		t.Error(err)
		return ""
	}
	found, err := e.Run(context.Background(), "ps", "-a", "-q", "--filter", "name=leakrig-"+run)
	if err != nil {
		t.Error(err)
	}
	return found
}

func cacheDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("LEAKRIG_CACHE"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "leakrig")
}

func TestEmbedded(t *testing.T) {
	conform(t, &Embedded{Cache: cacheDir(t)}, "conformance", 0, func(o leak.BootOptions) bool {
		return len(processesWith(o.Scratch)) > 0
	})
}

func TestKind(t *testing.T) { conformKind(t, "docker") }

func TestKindPodman(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: nothing was run on podman, which was tried as root alone")
	}
	conformKind(t, "podman")
}

func conformKind(t *testing.T, name string) {
	t.Setenv(engine.KindVariable, name)
	k := needsKind(t)
	if name == "podman" {
		fmt.Println("MET podman")
	}
	conform(t, k, "conformance", 3, func(leak.BootOptions) bool { return containersOf(t, "conformance") != "" })
}

// conform tests every provider, with this number of nodes if it creates any. begun reports that a boot has created
// something and is not complete yet; nil means from its start.
func conform(t *testing.T, p leak.Provider, run string, nodes int, begun func(leak.BootOptions) bool) {
	ctx := context.Background()
	options := func(t *testing.T) leak.BootOptions {
		return leak.BootOptions{
			Spec: leak.ClusterSpec{Kubernetes: DefaultVersion},
			Run:  run, Scratch: t.TempDir(), Logs: t.TempDir(), Progress: testProgress{t},
		}
	}
	t.Run("boot, reach, check, close", func(t *testing.T) {
		o := options(t)
		o.Spec.Nodes = nodes
		c, err := p.Boot(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("MET kube-apiserver")
		if c.Info().Provider == "kind" {
			fmt.Println("MET kind")
		}
		closed := false
		defer func() {
			if !closed {
				c.Close(ctx)
			}
		}()
		if got := c.Info().Kubernetes; got != DefaultVersion {
			t.Errorf("the API server says it is %s", got)
		}
		info, err := os.Stat(c.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("others can read the kubeconfig: %s", info.Mode())
		}
		createPod(t, c.Kubeconfig())
		runProcess(t, c)
		if runner, ok := c.(leak.PodRunner); ok {
			runPods(t, runner)
		}
		switch c := c.(type) {
		case *kindCluster:
			if c.Info().Nodes != nodes {
				t.Errorf("%d nodes", c.Info().Nodes)
			}
			reachFromEveryNode(t, c)
			observeKind(t, c)
		case leak.Observer:
			observeComponents(t, c, []string{leak.KubeAPIServer}, nil)
		}
		if saver, ok := c.(leak.LogSaver); ok {
			if err := saver.SaveLogs(ctx); err != nil {
				t.Error(err)
			}
			t.Run("existing", func(t *testing.T) { attach(t, c.Kubeconfig()) })
		}
		if log := map[string]string{"embedded": "kube-apiserver.log", "kind": "*/kubelet.log"}[c.Info().Provider]; log != "" {
			logs, _ := filepath.Glob(filepath.Join(o.Logs, log))
			if len(logs) == 0 {
				t.Errorf("no %s below %s", log, o.Logs)
			}
			for _, path := range logs {
				if info, err := os.Stat(path); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v %v", path, info, err)
				}
			}
		}
		if err := c.Check(ctx); err != nil {
			t.Error(err)
		}
		if c, ok := c.(*kindCluster); ok {
			breakKind(t, c) // at the end: the controllers take a while to find the API server again
		}
		closed = true
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := c.Check(ctx); err == nil || leak.Hint(err) == "" {
			t.Errorf("a closed cluster answers: %v", err)
		}
		if left := processesWith(o.Scratch); len(left) > 0 {
			t.Errorf("still running: %q", left)
		}
	})
	t.Run("cancelled while it boots", func(t *testing.T) {
		o := options(t)
		cancelled, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			for begun != nil && !begun(o) && cancelled.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
		}()
		c, err := p.Boot(cancelled, o)
		if err == nil {
			c.Close(ctx)
			t.Fatal("booted although the context had ended")
		}
		if left := processesWith(o.Scratch); len(left) > 0 {
			t.Errorf("still running: %q", left)
		}
	})
	t.Run("no place for its files", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		o := options(t)
		o.Scratch = file
		c, err := p.Boot(ctx, o)
		if err == nil {
			c.Close(ctx)
			t.Fatal("booted into a file")
		}
	})
}

func createPod(t *testing.T, kubeconfig string) {
	t.Helper()
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil || namespace == "default" {
		t.Errorf("namespace %q, %v: the run needs a separate one", namespace, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
	if _, err := client.CoreV1().Pods(namespace).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// attach is the existing provider on a cluster that is there: it leaves nothing behind.
func attach(t *testing.T, kubeconfig string) {
	ctx := context.Background()
	x := &Existing{Options{Access: apiserver.Access{KubeconfigFile: kubeconfig, Protected: []string{"prod"}}, Cache: t.TempDir()}}
	conform(t, x, "attached-conformance", 0, nil)
	o := leak.BootOptions{Run: "attached", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: testProgress{t}}
	if err := x.Preflight(ctx, o); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c, err := x.Boot(ctx, o)
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	createPod(t, c.Kubeconfig())
	a := c.(*attached)
	namespace, err := a.Client.CoreV1().Namespaces().Get(ctx, a.Namespace, metav1.GetOptions{})
	if err != nil || namespace.Labels[leak.RunLabel] != "attached" {
		t.Errorf("%v, labels %v", err, namespace.Labels)
	}
	// Another user deletes the namespace during the run.
	if err := a.Client.CoreV1().Namespaces().Delete(ctx, a.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(ctx); err == nil || !strings.Contains(err.Error(), "namespace leakrig-attached of this run") || leak.Hint(err) == "" {
		t.Errorf("the namespace was deleted: %v", err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	breakOff(t, x, o, took)
	// Neither this run's nor, of what conform has tried, that of a boot which was cancelled or had no place.
	namespaces, err := a.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: leak.RunLabel})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range namespaces.Items {
		if strings.Contains(n.Name, "attached") && n.DeletionTimestamp == nil {
			t.Errorf("namespace %s is still there", n.Name)
		}
	}
	sweepKilled(t, x, a, o)
}

// breakOff cancels boots at times up to twice the duration of one boot, because concurrent boots slow each other
// down. The API server may execute a cancelled request, and its object must be deleted.
func breakOff(t *testing.T, x *Existing, o leak.BootOptions, took time.Duration) {
	var boots sync.WaitGroup
	const n = 16
	for i := range n {
		o.Run, o.Scratch = fmt.Sprintf("attached-%d", i), t.TempDir()
		boots.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*took*time.Duration(i+1)/n)
			defer cancel()
			if c, err := x.Boot(ctx, o); err == nil {
				if err := c.Close(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	boots.Wait()
}

// sweepKilled has a run find what two others have left that were killed: the namespace that bears the label
// of its run goes, the one that does not stays.
func sweepKilled(t *testing.T, x *Existing, a *attached, o leak.BootOptions) {
	ctx := context.Background()
	for _, run := range []string{"killed", "foreign"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: leak.NamespaceOf(run)}}
		if run == "killed" {
			namespace.Labels = map[string]string{leak.RunLabel: run}
		}
		if _, err := a.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// As workers have it whose commands run in another namespace.
		rights := metav1.ObjectMeta{Name: "workers-of-" + run, Labels: map[string]string{leak.RunLabel: run}}
		_, err1 := a.Client.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: rights}, metav1.CreateOptions{})
		_, err2 := a.Client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: rights, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: rights.Name},
		}, metav1.CreateOptions{})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		o.Run = run
		data, err := json.Marshal(x.Access.Claim(o.Run))
		if err == nil {
			err = os.MkdirAll(apiserver.ClaimsDir(x.Cache), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(apiserver.ClaimsDir(x.Cache), run+".json"), data, 0o600) // and nobody holds it
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o.Run, o.Scratch = "next", t.TempDir()
	c, err := x.Boot(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if claims, err := filepath.Glob(filepath.Join(apiserver.ClaimsDir(x.Cache), "*")); err != nil || len(claims) != 1 || filepath.Base(claims[0]) != "next.json" {
		t.Errorf("claims while the run lives: %v %v", claims, err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	for run, stays := range map[string]bool{"killed": false, "foreign": true} {
		left, err := a.Client.CoreV1().Namespaces().Get(ctx, leak.NamespaceOf(run), metav1.GetOptions{})
		if there := err == nil && left.DeletionTimestamp == nil; there != stays {
			t.Errorf("%s: %v, %v", run, there, err)
		}
	}
	roles, err1 := a.Client.RbacV1().Roles("default").List(ctx, metav1.ListOptions{LabelSelector: leak.RunLabel})
	bindings, err2 := a.Client.RbacV1().RoleBindings("default").List(ctx, metav1.ListOptions{LabelSelector: leak.RunLabel})
	if err := errors.Join(err1, err2); err != nil || len(roles.Items)+len(bindings.Items) > 0 {
		t.Errorf("%d roles and %d bindings of workers are left, %v", len(roles.Items), len(bindings.Items), err)
	}
	if claims, err := filepath.Glob(filepath.Join(apiserver.ClaimsDir(x.Cache), "*")); err != nil || len(claims) > 0 {
		t.Errorf("claims after it: %v %v", claims, err)
	}
}

// runProcess starts a subject on this machine that uses the cluster, reaches it, and stops it.
func runProcess(t *testing.T, c leak.Cluster) {
	ctx := context.Background()
	l := subjects.Launcher{
		Spec:    leak.SubjectSpec{Build: "watch-then-delete", Pprof: "/debug/pprof", Ready: "/healthz", ReadyTimeout: leak.Duration(time.Minute)},
		Builder: subjects.Builder{Cache: cacheDir(t)}, Scratch: t.TempDir(), Placement: leak.PlacementProcess,
	}
	log := filepath.Join(t.TempDir(), "subject.log")
	v := leak.Variant{Name: "v"}
	if err := l.Build(ctx, v); err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(ctx, v, c, log)
	if err != nil {
		t.Fatal(err)
	}
	target := s.Target()
	resp, err := (&http.Client{Transport: target.Transport(), Timeout: time.Minute}).Post(target.URL+"/watch-then-delete?name=conformance", "", nil)
	if err != nil {
		t.Error(err)
	} else {
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("its operation on the cluster: %s", resp.Status)
		}
	}
	if body := get(t, target, target.Pprof+"/goroutine?debug=1"); !strings.Contains(body, "goroutine profile: total") {
		t.Errorf("pprof says %.80q", body)
	}
	if err := s.Stop(ctx); err != nil || s.Err() != nil {
		t.Errorf("stopped: %v, and it says %v", err, s.Err())
	}
	if left := processesWith(l.Scratch); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its log: %v %v", info, err)
	}
}

// runPods is what every cluster that runs pods has to do.
func runPods(t *testing.T, runner leak.PodRunner) {
	ctx := context.Background()
	t.Run("a pod that runs", func(t *testing.T) {
		s, err := runner.RunPod(ctx, calibration(t, "-plant=nothing"))
		if err != nil {
			t.Fatal(err)
		}
		target := s.Target()
		if body := get(t, target, target.Pprof+"/goroutine?debug=1"); !strings.Contains(body, "goroutine profile: total") {
			t.Errorf("pprof says %.80q", body)
		}
		status, err := fs.ReadFile(target.Proc, "status")
		if err != nil || !strings.Contains(string(status), "VmRSS:") {
			t.Errorf("/proc: %v %.80q", err, status)
		}
		if fds, err := fs.ReadDir(target.Proc, "fd"); err != nil || len(fds) < 3 {
			t.Errorf("descriptors: %d %v", len(fds), err)
		}
		checkResident(t, s.(*subjectpod.Pod), string(status))
		if got := s.Info().Placement; got != leak.PlacementPod {
			t.Errorf("placement %s", got)
		}
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
		if s.Err() != nil {
			t.Errorf("stopped, and said to have died: %v", s.Err())
		}
		deadline := time.Now().Add(20 * time.Second)
		for {
			found, err := s.(*subjectpod.Pod).Current(ctx)
			if err != nil {
				break // there is none
			}
			if time.Now().After(deadline) {
				t.Fatalf("stopped, and 20 s later %s is still there: %s", found.Name, apiserver.PodState(found))
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Run("a pod that never starts", func(t *testing.T) {
		l := calibration(t, "-plant=nonsense")
		s, err := runner.RunPod(ctx, l)
		if err == nil {
			s.Stop(ctx)
			t.Fatal("it started")
		}
		if log, _ := os.ReadFile(l.Log); !strings.Contains(string(log), `unknown -plant "nonsense"`) {
			t.Errorf("its log: %q", log)
		}
		if !strings.Contains(err.Error(), "exit code 1") || leak.Hint(err) == "" {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		plant, died, hint string
		end               func(t *testing.T, s *subjectpod.Pod)
	}{
		"a pod that is killed for its memory": {"heap", "exit code 137", "subject.limits", func(t *testing.T, s *subjectpod.Pod) {
			client := &http.Client{Transport: s.Target().Transport(), Timeout: 5 * time.Second}
			for range 5000 { // of a MiB each
				if resp, err := client.Post(s.Target().URL+"/work", "", nil); err == nil {
					resp.Body.Close()
				}
				if s.Err() != nil {
					return
				}
			}
		}},
		// Its container starts again within a second, and is not the subject that was measured.
		"a pod that ends and starts again": {"nothing", "Error, exit code 137", "see ", func(t *testing.T, s *subjectpod.Pod) {
			stat, err := fs.ReadFile(s.Target().Proc, "stat")
			if err == nil {
				pid, _, _ := strings.Cut(string(stat), " ")
				_, err = runner.(*kindCluster).engine.Run(ctx, "exec", nodeOf(s), "kill", "-9", pid)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		"a pod that is deleted": {"nothing", "the pod is gone", "see ", func(t *testing.T, s *subjectpod.Pod) {
			if err := s.Client.CoreV1().Pods(s.Namespace).Delete(ctx, nameOf(s), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := calibration(t, "-plant="+c.plant)
			l.Limits = map[string]string{"memory": "24Mi"}
			s, err := runner.RunPod(ctx, l)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop(ctx)
			c.end(t, s.(*subjectpod.Pod))
			for deadline := time.Now().Add(time.Minute); s.Err() == nil; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it lives on")
				}
			}
			if err := s.Err(); !strings.Contains(err.Error(), c.died) || !strings.Contains(leak.Hint(err), c.hint) {
				t.Errorf("%v, hint: %s", err, leak.Hint(err))
			}
		})
	}
	t.Run("cancelled while it starts", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		if s, err := runner.RunPod(short, calibration(t, "-plant=nothing")); err == nil {
			s.Stop(ctx)
			t.Error("it started although the context had ended")
		}
	})
}

// checkResident holds the kubelet's figure, which the process probe falls back on, against /proc's.
func checkResident(t *testing.T, p *subjectpod.Pod, status string) {
	t.Helper()
	_, rest, _ := strings.Cut(status, "VmRSS:")
	var kib float64
	if _, err := fmt.Sscanf(rest, "%f", &kib); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	for {
		rss, read, err := p.Resident(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if read.After(asked) {
			// The kernel counts the binary's pages in VmRSS, the kubelet only anonymous memory.
			if rss < 100<<10 || rss > 2*kib*1024 {
				t.Errorf("the kubelet says %.0f bytes, /proc %.0f KiB", rss, kib)
			}
			return
		}
		if time.Since(asked) > time.Minute {
			t.Fatalf("the kubelet's last look was at %s, %s before it was asked", read, asked.Sub(read))
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// calibration is a launch of the subject of that name.
func calibration(t *testing.T, args ...string) leak.Launch {
	t.Helper()
	program := filepath.Join(t.TempDir(), "calibration")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	build.Dir = "../subjects/calibration"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return leak.Launch{
		Variant: "v", Program: program, Args: args, Pprof: "/debug/pprof", Ready: "/healthz",
		ReadyTimeout: time.Minute, Log: filepath.Join(t.TempDir(), "subject.log"),
	}
}

func get(t *testing.T, target leak.Target, url string) string {
	t.Helper()
	resp, err := (&http.Client{Transport: target.Transport()}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// processesWith lists the command lines that name a folder.
func processesWith(dir string) []string {
	var found []string
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// Ready-made binaries are used where their version is the right one, and only there.
func TestEmbeddedFromKubebuilderAssets(t *testing.T) {
	e := &Embedded{Cache: cacheDir(t)}
	o := leak.BootOptions{Spec: leak.ClusterSpec{Kubernetes: DefaultVersion}, Progress: testProgress{t}}
	built, err := e.binaries(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	assetsDir := t.TempDir()
	for name, path := range map[string]string{"kube-apiserver": built.APIServer, "etcd": built.Etcd} {
		if err := os.Symlink(path, filepath.Join(assetsDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", assetsDir)
	got, err := e.binaries(context.Background(), o)
	if want := filepath.Join(assetsDir, "kube-apiserver"); err != nil || got.APIServer != want {
		t.Errorf("%v %v, want %s", got, err, want)
	}
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir()) // nothing there: built ones are used
	if got, err := e.binaries(context.Background(), o); err != nil || got != built {
		t.Errorf("%v %v, want %v", got, err, built)
	}
}

type testProgress struct{ t *testing.T }

func (p testProgress) Log(format string, args ...any) { p.t.Logf(format, args...) }
func (p testProgress) Status(string, ...any)          {}

func nodeOf(p *subjectpod.Pod) string { _, node := p.Place(); return node }
func nameOf(p *subjectpod.Pod) string { name, _ := p.Place(); return name }
