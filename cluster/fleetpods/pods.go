// Package fleetpods lists existing pods and reads them through the API server. It changes nothing.
package fleetpods

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/leakrig/leakrig/leak/httpclient"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

// podsPage is how many pods are asked for at once, so that a list of thousands is never held whole.
const podsPage = 250

// Pods are existing pods of a cluster. leakrig reads them through the API server and does not change them.
type Pods struct {
	api       *apiserver.Connection
	transport http.RoundTripper
	server    *url.URL
	query     Query
}

// Query says which pods, and where in them something is served.
type Query struct {
	// Selector is a label selector as kubectl takes it.
	Selector string
	// Namespace is one, "" for that of the context. All asks for those of all of them.
	Namespace string
	All       bool
	// Port is where pprof is served in the pod.
	Port int
	// Forward reads through a port-forward, which reaches what listens on the pod's loopback alone, too, instead
	// of the API server's proxy.
	Forward bool
}

// Pod is one life of one pod.
type Pod struct {
	// ID changes when the pod is another one, and when its container was restarted.
	ID string
	// Name is "namespace/name".
	Name string

	namespace, name string
}

// New reads the kubeconfig.
func New(a apiserver.Access, q Query) (*Pods, error) {
	if _, err := labels.Parse(q.Selector); err != nil || strings.TrimSpace(q.Selector) == "" {
		return nil, leak.Usage("as kubectl takes it: app=x, or 'app in (x,y)'", "--selector %q is none", q.Selector)
	}
	apiserver.Quiet()
	// Fleets only list pods and read their profiles. They change nothing, so a context that looks like production needs
	// no --yes.
	a.Yes = true
	config, err := a.Load()
	if err != nil {
		return nil, err
	}
	if q.Namespace == "" && !q.All {
		q.Namespace = config.Contexts[config.CurrentContext].Namespace
		if q.Namespace == "" {
			q.Namespace = metav1.NamespaceDefault
		}
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// The sweep limits the concurrency; client-side throttling would only delay it.
	client.QPS = -1
	return podsOf(client, q)
}

func podsOf(config *rest.Config, q Query) (*Pods, error) {
	if q.All {
		q.Namespace = metav1.NamespaceAll
	}
	p := &Pods{api: &apiserver.Connection{Config: config}, query: q}
	var err error
	if p.server, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if p.transport, err = rest.TransportFor(config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	p.transport = httpclient.OnlyTo(httpclient.OriginOf(p.server), p.transport)
	lists := rest.CopyConfig(config)
	lists.AcceptContentTypes, lists.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	if p.api.Client, err = kubernetes.NewForConfig(lists); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return p, nil
}

// List returns the pods that run at the moment.
func (p *Pods) List(ctx context.Context) ([]Pod, error) {
	var all []Pod
	o := metav1.ListOptions{LabelSelector: p.query.Selector, FieldSelector: "status.phase=Running", Limit: podsPage}
	for {
		page, err := p.api.Client.CoreV1().Pods(p.query.Namespace).List(ctx, o)
		if err != nil {
			return nil, leak.WithHint(fmt.Errorf("list pods: %w", err), "may this user list pods there, and get pods/proxy or create pods/portforward? --context names another one")
		}
		for i := range page.Items {
			pod := &page.Items[i]
			if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
				continue
			}
			all = append(all, Pod{
				ID:        string(pod.UID) + "/" + strconv.Itoa(restarts(pod, p.query.Port)),
				Name:      pod.Namespace + "/" + pod.Name,
				namespace: pod.Namespace, name: pod.Name,
			})
		}
		if o.Continue = page.Continue; o.Continue == "" {
			return all, nil
		}
	}
}

// restarts counts those of the container that serves the port, or of all where none says that it does.
func restarts(pod *corev1.Pod, port int) int {
	serving := ""
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if int(p.ContainerPort) == port {
				serving = c.Name
			}
		}
	}
	n := 0
	for _, s := range pod.Status.ContainerStatuses {
		if serving == "" || s.Name == serving {
			n += int(s.RestartCount)
		}
	}
	return n
}

// URL returns the URL of a port and path of the pod: through the API server's proxy, or for the forwarding transport.
//
// The proxy may keep its connection to the pod open, which is one goroutine of the pod for any number of requests and
// therefore not growth. A port-forward keeps none, but each request needs a connection to the API server and a stream
// through the kubelet.
func (p *Pods) URL(pod Pod, port int, path string) string {
	if p.query.Forward {
		return "http://" + net.JoinHostPort(pod.name+"."+pod.namespace, strconv.Itoa(port)) + path
	}
	return p.server.JoinPath("api", "v1", "namespaces", pod.namespace, "pods", pod.name+":"+strconv.Itoa(port), "proxy").String() + path
}

// Transport returns the transport for URL. Pods share connections to the API server, with concurrent requests.
func (p *Pods) Transport(pod Pod) http.RoundTripper {
	if p.query.Forward {
		return &forwarded{p, pod}
	}
	return kept{p.transport}
}

// forwarded is a transport with a port-forward for each request, open until the answer's body is closed.
type forwarded struct {
	*Pods
	pod Pod
}

func (f *forwarded) RoundTrip(r *http.Request) (*http.Response, error) {
	port, err := strconv.ParseInt(r.URL.Port(), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("port: %w", err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	var tasks sync.WaitGroup
	stop := func() { cancel(); tasks.Wait() }
	address, err := f.api.Forward(ctx, &tasks, f.pod.namespace, f.pod.name, int32(port))
	if err != nil {
		stop()
		return nil, err
	}
	r = r.Clone(ctx)
	r.URL.Host, r.Host, r.Close = address, net.JoinHostPort("localhost", r.URL.Port()), true
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		stop()
		return nil, err
	}
	resp.Body = &forwardedBody{resp.Body, stop}
	return resp, nil
}

type forwardedBody struct {
	io.ReadCloser
	stop func()
}

func (b *forwardedBody) Close() error {
	err := b.ReadCloser.Close()
	b.stop()
	return err
}

// kept is a transport whose connections its users do not close.
type kept struct{ http.RoundTripper }

func (k kept) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Close = false // it is the API server's connection, not the subject's
	resp, err := k.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode >= 400 {
		err = refused(resp)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// refused returns the API server's error for a request that did not reach the pod; nil for a response of the pod,
// which it does not change.
func refused(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if err != nil {
		return err
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Message != "" {
		resp.Body.Close()
		return fmt.Errorf("the API server: %s", status.Message)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	return nil
}
