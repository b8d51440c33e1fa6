package load

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/httpclient"
)

// api is an action's own way to the API server, for one round. client-go would share its connections
// with every other client of the process, and keep them.
type api struct {
	// config has everything but the TLS settings, which are parsed once, into tls.
	config    *rest.Config
	tls       *tls.Config
	http      *http.Client
	client    kubernetes.Interface
	namespace string

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

// reach returns the way to the target's cluster; close it.
func reach(t leak.Target) (*api, error) {
	if t.Kubeconfig == "" {
		return nil, leak.WithHint(errors.New("no cluster"), "the scenario says with spec.cluster which one it needs")
	}
	loaded, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: t.Kubeconfig}).Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	client := clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{})
	a := &api{}
	if a.config, err = client.ClientConfig(); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if a.namespace, _, err = client.Namespace(); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	a.namespace = cmp.Or(t.Namespace, a.namespace)
	if a.tls, err = rest.TLSConfigFor(a.config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if a.tls == nil {
		a.tls = &tls.Config{}
	}
	// A handshake that resumes a session is a fraction of the work, on both sides.
	a.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	a.config.TLSClientConfig = rest.TLSClientConfig{}
	a.config.QPS = -1 // the pace is the action's
	if a.config.Proxy == nil {
		a.config.Proxy = http.ProxyFromEnvironment
	}
	transport := &http.Transport{
		Proxy: a.config.Proxy, DialContext: a.dial, TLSClientConfig: a.tls.Clone(), ForceAttemptHTTP2: true, MaxIdleConnsPerHost: maxConcurrency,
	}
	wrapped, err := rest.HTTPWrappersForConfig(a.config, transport)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	a.http = &http.Client{Transport: wrapped, CheckRedirect: httpclient.RefuseRedirect}
	if a.client, err = kubernetes.NewForConfigAndClient(a.config, a.http); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return a, nil
}

func (a *api) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed { // the request that this was dialled for is gone
		_ = conn.Close()
	}
	a.conns = append(a.conns, conn)
	return conn, nil
}

// close cuts the connections. To the API server, its client has vanished.
func (a *api) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.closed = true
}
