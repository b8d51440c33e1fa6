// Command watch-then-delete is a small build service, as in the incident of the scenario: for every POST it creates a
// pod, watches it until it has succeeded, deletes it and returns. The deletion causes another watch event. In
// client-go before v0.21.0-beta.1, the goroutine that decoded it, watch.(*StreamWatcher).receive, blocks forever on
// the result channel, which has no reader any more, since Stop closes only the source.
//
// The leak is upstream's: nothing here starts a goroutine that outlives its request. The modfile selects the version
// of client-go. Pods are never scheduled; a second clientset acts as the kubelet and sets their status, so that the
// program behaves the same on clusters with and without nodes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// Fixes from the incident's write-up, in addition to the upgrade.
const (
	deleteFirst = "delete-first" // the incident: delete, return, stop on the way out
	stopFirst   = "stop-first"   // stop the watch, then delete
	drain       = "drain"        // delete, stop, read the channel until it is closed
)

func main() {
	order := flag.String("order", deleteFirst, "delete-first, stop-first or drain")
	// The event of the delete needs a moment to arrive and be decoded before Stop closes the source.
	// How often it does without a pause hangs on the machine.
	pause := flag.Duration("pause", 20*time.Millisecond, "time between the delete and the stop")
	flag.Parse()
	if *order != deleteFirst && *order != stopFirst && *order != drain {
		log.Fatalf("watch-then-delete: unknown -order %q", *order)
	}
	b, err := connect()
	if err != nil {
		log.Fatalf("watch-then-delete: %v", err)
	}
	b.order, b.pause = *order, *pause

	mux := http.NewServeMux()
	mux.HandleFunc("POST /watch-then-delete", func(w http.ResponseWriter, r *http.Request) {
		if err := b.build(r.Context(), r.FormValue("name")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

type builder struct {
	service, kubelet kubernetes.Interface
	namespace        string
	// suffix keeps names apart from those of other processes in the same namespace. Variants run at the same time, and
	// each is process 1 of its pod.
	suffix string
	order  string
	pause  time.Duration
}

func connect() (*builder, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	// The default of 5 requests a second would measure the client's own throttle.
	config.QPS, config.Burst = 1000, 2000
	service, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kubelet, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &builder{
		service: service, kubelet: kubelet, namespace: namespace,
		suffix: fmt.Sprintf("%08x", rand.Uint32()),
	}, nil
}

// build creates a pod, watches it until it has succeeded, deletes it and returns.
func (b *builder) build(ctx context.Context, name string) error {
	if name == "" {
		return errors.New("the query parameter name is missing")
	}
	name += "-" + b.suffix
	pods := b.service.CoreV1().Pods(b.namespace)
	created, err := pods.Create(ctx, job(name), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	life := make(chan error, 1)
	go func() { life <- b.live(ctx, name) }()
	w, err := succeeded(ctx, pods, created)
	if err != nil {
		return err
	}
	stop := func() {
		w.Stop()
		if b.order == drain {
			for range w.ResultChan() {
			}
		}
	}
	if b.order == stopFirst {
		stop()
	} else {
		defer func() {
			time.Sleep(b.pause)
			stop()
		}()
	}
	// The kubelet is done before the pod is deleted, so that it has no open request when this operation ends.
	if err := <-life; err != nil {
		return fmt.Errorf("set status: %w", err)
	}
	return pods.Delete(ctx, name, metav1.DeleteOptions{})
}

// succeeded returns a watch that has seen the pod succeed. The API server closes the watch of a client that reads too
// slowly, as on a busy machine, and succeeded then watches again.
func succeeded(ctx context.Context, pods corev1client.PodInterface, created *corev1.Pod) (watch.Interface, error) {
	for {
		w, err := pods.Watch(ctx, metav1.ListOptions{
			LabelSelector:   "job=" + created.Name,
			ResourceVersion: created.ResourceVersion,
		})
		if err != nil {
			return nil, err
		}
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				w.Stop()
				return nil, fmt.Errorf("watch: got a %T", event.Object)
			}
			if pod.Status.Phase == corev1.PodSucceeded {
				return w, nil
			}
		}
		w.Stop()
	}
}

// live plays the kubelet: the pod runs, then succeeds.
func (b *builder) live(ctx context.Context, name string) error {
	pods := b.kubelet.CoreV1().Pods(b.namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
		pod.Status.Phase = phase
		if pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func job(name string) *corev1.Pod {
	noToken := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"job": name}},
		Spec: corev1.PodSpec{
			// No scheduler of this name exists: the pod stays where it is, on every provider.
			SchedulerName:                "leakrig-none",
			AutomountServiceAccountToken: &noToken,
			RestartPolicy:                corev1.RestartPolicyNever,
			Containers:                   []corev1.Container{{Name: "build", Image: "build"}},
		},
	}
}
