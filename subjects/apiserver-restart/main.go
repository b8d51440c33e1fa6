// Command apiserver-restart is an operator that works on a remote cluster, whose API server restarts.
//
// # Real and re-enacted parts
//
// The manager, the controller, its caches, informers and watches are those of controller-runtime. Only the tracker in
// tracker.go is new code. It does what the ClusterCacheTracker of Cluster API v0.3.9 did (cluster-api#3609): when a
// cluster fails its health check, the tracker stops the cache of the cluster and forgets it. When the cluster answers
// again, it gets a new cache, and the running controller a new watch.
//
// controller-runtime v0.6.2 keeps every source that a controller was ever given, with its cache and its REST mapper.
// v0.6.3 does not (controller-runtime#1163).
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/leakrig/leakrig/subjects/serve"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func main() {
	api, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		log.Fatalf("apiserver-restart: %v", err)
	}
	t, err := start(api)
	if err != nil {
		log.Fatalf("apiserver-restart: %v", err)
	}
	mux := http.NewServeMux()
	// One operation is one outage: it ends when the tracker has lost the cluster and has reached it again.
	mux.HandleFunc("POST /outage", func(w http.ResponseWriter, r *http.Request) {
		if err := t.outage(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
		}
	})
	serve.Main(mux)
}

// start starts an operator with one controller, for the objects of its own cluster and of the remote one.
func start(api *rest.Config) (*tracker, error) {
	m, err := manager.New(api, manager.Options{Scheme: scheme.Scheme, MetricsBindAddress: "0"})
	if err != nil {
		return nil, err
	}
	c, err := controller.New("configmaps", m, controller.Options{
		Reconciler: reconcile.Func(func(reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }),
	})
	if err != nil {
		return nil, err
	}
	if err := c.Watch(&source.Kind{Type: &corev1.ConfigMap{}}, &handler.EnqueueRequestForObject{}); err != nil {
		return nil, err
	}
	stop := make(chan struct{}) // as long as the operator
	go func() {
		if err := m.Start(stop); err != nil {
			log.Fatalf("apiserver-restart: the manager: %v", err)
		}
	}()
	if !m.GetCache().WaitForCacheSync(stop) {
		log.Fatal("apiserver-restart: the manager's cache has not synced")
	}
	t := &tracker{remote: rest.CopyConfig(api), controller: c, changed: make(chan struct{})}
	if err := t.connect(); err != nil {
		return nil, err
	}
	go t.check(context.Background())
	return t, nil
}
