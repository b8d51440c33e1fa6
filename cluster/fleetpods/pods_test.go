package fleetpods

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

func fleetPod(name, uid string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{ContainerPort: 6060}}}, {Name: "sidecar"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}, {Name: "sidecar"}}},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// Pods are listed page by page and read through the API server; nothing else is asked of it, and nothing is
// changed. A context that looks like production needs no --yes.
func TestPods(t *testing.T) {
	deleted := metav1.Now()
	pages := map[string][]corev1.Pod{
		"": {
			fleetPod("a", "u1", nil),
			fleetPod("b", "u2", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 2 }),
			fleetPod("going", "u3", func(p *corev1.Pod) { p.DeletionTimestamp = &deleted }),
		},
		"more": {
			fleetPod("c", "u4", func(p *corev1.Pod) { p.Status.ContainerStatuses[1].RestartCount = 5 }),
			fleetPod("d", "u5", func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = nil
				p.Status.ContainerStatuses[1].RestartCount = 5
			}),
			fleetPod("pending", "u6", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		},
	}
	var mu sync.Mutex
	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("labelSelector")+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		switch r.URL.Path {
		case "/base/api/v1/namespaces/shop/pods", "/base/api/v1/pods":
			list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
			from := r.URL.Query().Get("continue")
			list.Items = pages[from]
			if from == "" {
				list.Continue = "more"
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(list)
		case "/base/api/v1/namespaces/shop/pods/a:6060/proxy/debug/pprof/goroutine":
			fmt.Fprint(w, "profile of a")
		case "/base/api/v1/namespaces/shop/pods/b:6060/proxy/debug/pprof/goroutine":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"error trying to reach service: connection refused","code":503}`)
		case "/base/api/v1/namespaces/shop/pods/c:6060/proxy/debug/pprof/goroutine":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	config := api.NewConfig()
	config.CurrentContext = "prod-eu"
	config.Clusters["c"] = &api.Cluster{Server: server.URL + "/base", InsecureSkipTLSVerify: true}
	config.AuthInfos["me"] = &api.AuthInfo{Token: "mine"}
	config.Contexts["prod-eu"] = &api.Context{Cluster: "c", AuthInfo: "me", Namespace: "shop"}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	o := apiserver.Access{KubeconfigFile: file, Protected: []string{"prod"}}
	pods, err := New(o, Query{Selector: "app=x", Port: 6060})
	if err != nil {
		t.Fatal(err)
	}
	list, err := pods.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range list {
		ids = append(ids, p.ID+" "+p.Name)
	}
	// A restart of the container that serves the port is another life. A restart of a sidecar is not, unless the
	// serving container is unknown.
	if want := []string{"u1/0 shop/a", "u2/2 shop/b", "u4/0 shop/c", "u5/5 shop/d"}; !slices.Equal(ids, want) {
		t.Errorf("%q", ids)
	}
	client := &http.Client{Transport: pods.Transport(list[0])}
	resp, err := client.Get(pods.URL(list[0], 6060, "/debug/pprof") + "/goroutine")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "profile of a" {
		t.Errorf("%q %v", body, err)
	}
	// An error of the API server is reported as such, and a response of the pod is not changed.
	if _, err := client.Get(pods.URL(list[1], 6060, "/debug/pprof") + "/goroutine"); err == nil || !strings.Contains(err.Error(), "the API server: error trying to reach service: connection refused") {
		t.Errorf("%v", err)
	}
	if resp, err := client.Get(pods.URL(list[2], 6060, "/debug/pprof") + "/goroutine"); err != nil {
		t.Error(err)
	} else {
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || string(body) != "who are you?\n" || err != nil {
			t.Errorf("%s %q %v", resp.Status, body, err)
		}
	}
	for _, a := range asked {
		if !strings.HasPrefix(a, "GET ") || !strings.HasSuffix(a, " Bearer mine") {
			t.Errorf("asked %q", a)
		}
	}
	everywhere, err := New(o, Query{Selector: "app in (x,y)", All: true, Port: 6060})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := everywhere.List(t.Context()); err != nil || len(list) != 4 {
		t.Errorf("%v %v", list, err)
	}
	if last := asked[len(asked)-1]; !strings.HasPrefix(last, "GET /base/api/v1/pods app in (x,y) ") {
		t.Errorf("asked %q", last)
	}
	elsewhere, err := New(o, Query{Selector: "app=x", Namespace: "nosuch", Port: 6060})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.List(t.Context()); err == nil || !strings.Contains(leak.Hint(err), "pods/proxy") {
		t.Errorf("%v", err)
	}
	for _, selector := range []string{"", " ", "a=b=c"} {
		if _, err := New(o, Query{Selector: selector}); err == nil {
			t.Errorf("%q is taken for a selector", selector)
		}
	}
}

// servePortForward is what the kubelet does behind a port-forward: each pair of streams is a connection to a
// port of the pod's loopback, here to an address.
func servePortForward(w http.ResponseWriter, r *http.Request, address func(port string) string) {
	w.Header().Set(httpstream.HeaderProtocolVersion, portforward.PortForwardProtocolV1Name)
	var mu sync.Mutex
	errorStreams := map[string]httpstream.Stream{}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
		mu.Lock()
		defer mu.Unlock()
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			errorStreams[id] = s
			return nil
		}
		failed := errorStreams[id]
		go func() {
			<-replied
			defer failed.Close()
			defer s.Close()
			to, err := net.Dial("tcp", address(s.Headers().Get(corev1.PortHeader)))
			if err != nil {
				fmt.Fprint(failed, err)
				return
			}
			defer to.Close()
			go func() { _, _ = io.Copy(to, s) }()
			_, _ = io.Copy(s, to)
		}()
		return nil
	})
	if conn != nil {
		<-conn.CloseChan()
	}
}

// Through a port-forward what listens on a pod's loopback is reached, as localhost and for one request.
func TestPodsForwarded(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s at %s, close %t", r.URL.Path, r.Host, r.Close)
	}))
	defer inside.Close()
	var mu sync.Mutex
	open, forwards := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/shop/pods/a/portforward" {
			http.NotFound(w, r)
			return
		}
		mu.Lock()
		open++
		forwards++
		mu.Unlock()
		servePortForward(w, r, func(port string) string {
			if port != "6060" {
				return "127.0.0.1:1"
			}
			return inside.Listener.Addr().String()
		})
		mu.Lock()
		open--
		mu.Unlock()
	}))
	defer server.Close()
	pods, err := podsOf(&rest.Config{Host: server.URL}, Query{Selector: "app=x", Port: 6060, Forward: true})
	if err != nil {
		t.Fatal(err)
	}
	get := func(pod Pod, port int) (string, error) {
		client := &http.Client{Transport: pods.Transport(pod)}
		resp, err := client.Get(pods.URL(pod, port, "/debug/pprof") + "/goroutine")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	a := Pod{Name: "shop/a", namespace: "shop", name: "a"}
	for range 3 {
		if got, err := get(a, 6060); err != nil || got != "/debug/pprof/goroutine at localhost:6060, close true" {
			t.Errorf("%q %v", got, err)
		}
	}
	if got, err := get(a, 7070); err == nil {
		t.Errorf("a free port says %q", got)
	}
	if got, err := get(Pod{Name: "shop/b", namespace: "shop", name: "b"}, 6060); err == nil || !strings.Contains(err.Error(), "a.shop") && !strings.Contains(err.Error(), "b.shop") {
		t.Errorf("a pod that is none: %q %v", got, err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		left, all := open, forwards
		mu.Unlock()
		if left == 0 && all == 4 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d port-forwards are left open", left, all)
		}
	}
}
