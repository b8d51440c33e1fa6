//go:build e2e

package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
)

// met prints the real part that a test has met, which `make test` counts.
func met(part string) { fmt.Printf("MET %s\n", part) }

// controlPlane is a real kube-apiserver with a node that is this test's own.
type controlPlane struct {
	leak.Target
	client kubernetes.Interface
}

func bootEmbedded(t *testing.T) *controlPlane {
	t.Helper()
	cache := os.Getenv("LEAKRIG_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "leakrig")
	}
	c, err := (&cluster.Embedded{Cache: cache}).Boot(t.Context(), leak.BootOptions{
		Run: "load", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: testProgress{t},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	met("kube-apiserver")
	return &controlPlane{leak.Target{Kubeconfig: c.Kubeconfig(), Namespace: "leakrig-load"}, client}
}

type testProgress struct{ t *testing.T }

func (p testProgress) Log(format string, args ...any) { p.t.Logf(format, args...) }
func (testProgress) Status(string, ...any)            {}

// addNode makes a node of the test's kubelet, with a running pod.
func (c *controlPlane) addNode(t *testing.T, k *kubelet) {
	t.Helper()
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	_, port, err1 := net.SplitHostPort(server.Listener.Addr().String())
	number, err2 := strconv.Atoi(port)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	node, err3 := c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	_, err1 = c.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "subject", Labels: map[string]string{"app": "subject"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	pod, err2 = c.client.CoreV1().Pods(c.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := c.client.CoreV1().Pods(c.Namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Selector = "app=subject"
}

// The embedded control plane starts this binary again, as what is to become etcd.
func TestMain(m *testing.M) {
	cluster.Child()
	os.Exit(m.Run())
}

// Everything against one API server, since its boot takes longest.
func TestEmbeddedAPIServer(t *testing.T) {
	c := bootEmbedded(t)
	k := &kubelet{over: make(chan struct{})}
	defer close(k.over)
	c.addNode(t, k)

	t.Run("exec", func(t *testing.T) {
		perProtocol(t, func(t *testing.T, protocol string) {
			for _, e := range []struct {
				name             string
				change           func(*Exec)
				timedOut, silent int
				want             string
			}{
				{"says", func(e *Exec) { e.Output = `^op \d+\n$` }, 0, 0, ""},
				{"standard input", func(e *Exec) { e.Command, e.Stdin, e.Output = []string{"cat"}, "in {{.Op}}", `^in \d+$` }, 0, 0, ""},
				{"a terminal", func(e *Exec) { e.TTY, e.Output = true, "op" }, 0, 0, ""},
				{"another exit code", func(e *Exec) { e.Command = []string{"fail", "x"} }, 0, 0, "exit code 3, want 0: x: no such thing"},
				{"silent", func(e *Exec) { e.Command, e.Output = []string{"silent"}, "." }, 0, 40, "returned without its output"},
				{"hangs", func(e *Exec) { e.Command = []string{"hang"} }, 40, 0, "timed out"},
				{"no such container", func(e *Exec) { e.Container = "sidecar" }, 0, 0, "container sidecar is not valid for pod subject"},
			} {
				t.Run(e.name, func(t *testing.T) {
					action := execAction(func(a *Exec) {
						a.Protocol, a.Times, a.Concurrency = protocol, 40, 20
						e.change(a)
						if e.timedOut > 0 {
							a.Timeout = leak.Duration(time.Second)
						}
					})
					tally, err := action.Run(t.Context(), c.Target, 1)
					if err != nil || tally.Attempted != 40 || tally.TimedOut != e.timedOut || tally.Silent != e.silent || (tally.Failed > 0) != (e.want != "") {
						t.Fatalf("%+v, %v", tally, err)
					}
					if e.want != "" && (len(tally.Errors) != 1 || !strings.Contains(tally.Errors[0].Message, e.want)) {
						t.Errorf("%+v", tally.Errors)
					}
					nothingLeft(t, true)
				})
			}
		})
	})

	t.Run("churn", func(t *testing.T) {
		for _, round := range []struct {
			name   string
			change func(*Churn)
			want   string
		}{
			{"config maps", func(*Churn) {}, ""},
			{"of another group", func(c *Churn) {
				c.Template = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: 'd-{{.Op}}'}\nspec:\n  selector: {matchLabels: {app: x}}\n  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: none}]}}\n"
			}, ""},
			{"that live a while", func(c *Churn) { c.Lifetime = leak.Duration(200 * time.Millisecond) }, ""},
			{"refused", func(c *Churn) {
				c.Template = "{apiVersion: v1, kind: Pod, metadata: {name: 'p-{{.Op}}'}, spec: {containers: []}}"
			}, "Invalid: Pod \"p-"},
			// The deadline comes while the object is there: it is removed with the round.
			{"left by a failed operation", func(c *Churn) {
				c.Timeout, c.Lifetime = leak.Duration(300*time.Millisecond), leak.Duration(299*time.Millisecond)
			}, "timed out"},
		} {
			t.Run(round.name, func(t *testing.T) {
				action := churnKind.New().(*Churn)
				action.Template, action.Times, action.Concurrency = "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'churn-{{.Op}}'}}", 50, 10
				round.change(action)
				if err := action.Validate(); err != nil {
					t.Fatal(err)
				}
				tally, err := action.Run(t.Context(), c.Target, 1001)
				if err != nil || tally.Attempted != 50 || (round.want == "") != (tally.Failed == 0) {
					t.Fatalf("%+v, %v", tally, err)
				}
				if round.want != "" && !strings.HasPrefix(tally.Errors[0].Message, round.want) {
					t.Errorf("%+v", tally.Errors)
				}
				if d := action.Lifetime.D(); tally.Failed == 0 && tally.Latency.P50 < d.Seconds() {
					t.Errorf("objects lived %.3fs, want %s", tally.Latency.P50, d)
				}
				c.nothingMade(t)
			})
		}
		for want, template := range map[string]string{
			"has no namespace":   "{apiVersion: v1, kind: Namespace, metadata: {name: 'n-{{.Op}}'}}",
			"does not know":      "{apiVersion: v1, kind: Nonsense, metadata: {name: 'n-{{.Op}}'}}",
			"ask the API server": "{apiVersion: nonsense.dev/v1, kind: Nonsense, metadata: {name: 'n-{{.Op}}'}}",
		} {
			action := churnKind.New().(*Churn)
			action.Template = template
			if _, err := action.Run(t.Context(), c.Target, 1); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	})

	t.Run("held by a finalizer", func(t *testing.T) {
		if testing.Short() {
			t.Skip("waits for its deadline")
		}
		action := churnKind.New().(*Churn)
		action.Template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'held-{{.Op}}', finalizers: [leakrig.dev/held]}}"
		_, err := action.Run(t.Context(), c.Target, 2001)
		if err == nil || !strings.Contains(err.Error(), "held-2001 is still there") || leak.Hint(err) == "" {
			t.Errorf("%v", err)
		}
		_, err = c.client.CoreV1().ConfigMaps(c.Namespace).Patch(t.Context(), "held-2001", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})

	t.Run("watch", func(t *testing.T) {
		for _, end := range []string{endStop, endAbandon} {
			t.Run(end, func(t *testing.T) {
				before := c.watches(t)
				most := before
				ctx, stop := context.WithCancel(t.Context())
				counted := make(chan struct{})
				go func() {
					defer close(counted)
					for ctx.Err() == nil {
						most = max(most, c.watches(t))
						time.Sleep(20 * time.Millisecond)
					}
				}()
				action := watchKind.New().(*Watch)
				action.End, action.Times, action.Concurrency = end, 300, 10
				tally, err := action.Run(t.Context(), c.Target, 1)
				stop()
				<-counted
				if err != nil || tally.Succeeded != 300 {
					t.Fatalf("%+v, %v", tally, err)
				}
				if abandoned := most-before > 100; abandoned != (end == endAbandon) {
					t.Errorf("%d watches at once, %d before", most, before)
				}
				c.nothingMade(t)
				// The API server has noticed that the client is gone, and leakrig has nothing left.
				eventually(t, func() string {
					if now := c.watches(t); now > before {
						return fmt.Sprintf("%d watches on config maps, %d before", now, before)
					}
					return ""
				})
				nothingLeft(t, true)
			})
		}
	})
}

// nothingMade fails where objects of a round are left.
func (c *controlPlane) nothingMade(t *testing.T) {
	t.Helper()
	maps, err1 := c.client.CoreV1().ConfigMaps(c.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: loadLabel})
	deployments, err2 := c.client.AppsV1().Deployments(c.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: loadLabel})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if n := len(maps.Items) + len(deployments.Items); n > 0 {
		t.Errorf("%d objects are left", n)
	}
}

var watchesOfConfigMaps = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*resource="configmaps".*verb="WATCH".*\} (\d+)$`)

// watches is how many watches on config maps the API server says it serves.
func (c *controlPlane) watches(t *testing.T) int {
	metrics, err := c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		t.Error(err)
		return 0
	}
	sum := 0
	for _, m := range watchesOfConfigMaps.FindAllSubmatch(metrics, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		sum += n
	}
	return sum
}
