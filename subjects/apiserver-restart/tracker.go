package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// The health check of Cluster API runs every 10 s and gives up after ten failures. Here it is faster.
const (
	checkEvery   = 100 * time.Millisecond
	checkTimeout = time.Second
	syncTimeout  = 30 * time.Second
)

// tracker keeps one cache of a remote cluster for as long as the cluster answers.
type tracker struct {
	remote     *rest.Config
	controller controller.Controller

	mu sync.Mutex
	// stop ends the cache of the cluster, nil while the cluster does not answer. connected counts the caches, and
	// changed is closed when it changes.
	stop      chan struct{}
	connected int
	changed   chan struct{}
}

// connect creates a cache of the cluster, and has the controller watch its objects.
func (t *tracker) connect() error {
	mapper, err := apiutil.NewDynamicRESTMapper(t.remote)
	if err != nil {
		return err
	}
	objects, err := cache.New(t.remote, cache.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		if err := objects.Start(stop); err != nil {
			log.Printf("the cache ended: %v", err)
		}
	}()
	if _, err := objects.GetInformer(context.Background(), &corev1.ConfigMap{}); err != nil {
		close(stop)
		return err
	}
	limit := make(chan struct{})
	timer := time.AfterFunc(syncTimeout, func() { close(limit) })
	defer timer.Stop()
	if !objects.WaitForCacheSync(limit) {
		close(stop)
		return errors.New("the cache has not synced")
	}
	if err := t.controller.Watch(source.NewKindWithCache(&corev1.ConfigMap{}, objects), &handler.EnqueueRequestForObject{}); err != nil {
		close(stop)
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop = stop
	t.connected++
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}

// check asks the cluster whether it answers, and connects or disconnects.
func (t *tracker) check(ctx context.Context) {
	config := rest.CopyConfig(t.remote)
	config.Timeout = checkTimeout
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		log.Fatalf("apiserver-restart: %v", err)
	}
	for {
		time.Sleep(checkEvery)
		healthy := client.Get().AbsPath("/readyz").Do(ctx).Error() == nil
		t.mu.Lock()
		stop := t.stop
		if !healthy {
			t.stop = nil
		}
		t.mu.Unlock()
		switch {
		case !healthy && stop != nil:
			close(stop)
		case healthy && stop == nil:
			if err := t.connect(); err != nil {
				log.Printf("connect: %v", err) // the next check tries again
			}
		}
	}
}

// outage waits until the cluster was lost and is reached again.
func (t *tracker) outage(ctx context.Context) error {
	t.mu.Lock()
	changed := t.changed
	t.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no outage: %w", ctx.Err())
	}
}
