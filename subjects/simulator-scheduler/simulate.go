package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

const (
	eventTimeout = 20 * time.Second
	endTimeout   = 5 * time.Second
	namespace    = "default"
)

// simulation is one copy of the cluster with a separate scheduler.
type simulation struct {
	client      *fake.Clientset
	broadcaster events.EventBroadcaster
	// cancel ends the scheduler, and ended is closed when its Run has returned.
	cancel context.CancelFunc
	ended  chan struct{}
	// stopInformers and stopRecording are closed to stop them.
	stopInformers, stopRecording chan struct{}
}

// simulate is one operation. It returns the names of the pods that no node was found for, nil where all
// were bound.
func (c cluster) simulate() (unscheduled []string, err error) {
	s, err := newSimulation()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(c)) }()
	if err := s.syncClusterResourceList(c); err != nil {
		return nil, err
	}
	return s.scheduleApp(c.replicas)
}

func newSimulation() (*simulation, error) {
	s := &simulation{
		client: fake.NewSimpleClientset(), ended: make(chan struct{}),
		stopInformers: make(chan struct{}), stopRecording: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	factory := informers.NewSharedInformerFactory(s.client, 0)
	s.broadcaster = events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client.EventsV1()})
	sched, err := scheduler.New(s.client, factory, nil, profile.NewRecorderFactory(s.broadcaster), ctx.Done())
	if err != nil {
		cancel()
		return nil, err
	}
	s.broadcaster.StartRecordingToSink(s.stopRecording)
	factory.Start(s.stopInformers)
	factory.WaitForCacheSync(s.stopInformers)
	go func() {
		defer close(s.ended)
		sched.Run(ctx)
	}()
	return s, nil
}

// syncClusterResourceList copies the cluster into the fake clientset, whose tracker deep-copies it for itself and for
// every watch.
func (s *simulation) syncClusterResourceList(c cluster) error {
	ctx := context.Background()
	capacity := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	for i := range c.nodes {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)},
			Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		}
		if _, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range c.pods {
		if err := s.createPod(ctx, fmt.Sprintf("running-%d", i), fmt.Sprintf("node-%d", i%c.nodes)); err != nil {
			return err
		}
	}
	return nil
}

// scheduleApp creates the pods of the app, waits until the scheduler is done with them, and returns those
// that are not bound to a node, nil where all are.
func (s *simulation) scheduleApp(replicas int) (unscheduled []string, err error) {
	ctx := context.Background()
	waiting := map[string]bool{}
	for i := range replicas {
		name := fmt.Sprintf("web-%d", i)
		waiting[name] = true
		if err := s.createPod(ctx, name, ""); err != nil {
			return nil, err
		}
	}
	if err := s.awaitEvents("Scheduled", waiting); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(waiting)), nil
}

// awaitEvents waits until an event with that reason, "" for any, is recorded of each pod, and removes the
// pod from waiting; it gives up after some time. The event is the last thing that the scheduler does for
// a pod, and one that comes after the broadcaster was shut down would panic.
func (s *simulation) awaitEvents(reason string, waiting map[string]bool) error {
	for deadline := time.Now().Add(eventTimeout); len(waiting) > 0 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		list, err := s.client.EventsV1().Events(namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if reason == "" || e.Reason == reason {
				delete(waiting, e.Regarding.Name)
			}
		}
	}
	return nil
}

// close ends the simulation, apart from what the cluster is to leave running.
func (s *simulation) close(c cluster) error {
	s.cancel()
	var err error
	if c.oneMorePod {
		err = s.wake()
	}
	if !c.leaves(theInformers) {
		close(s.stopInformers)
	}
	close(s.stopRecording)
	if !c.leaves(theBroadcaster) {
		s.broadcaster.Shutdown()
	}
	return err
}

// wake gives the scheduler the pod that it waits for, so that it sees that its context has ended.
func (s *simulation) wake() error {
	const name = "one-more"
	if err := s.createPod(context.Background(), name, ""); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(endTimeout):
		return errors.New("the scheduler has not ended, although it was given one more pod")
	}
	return s.awaitEvents("", map[string]bool{name: true})
}

func (s *simulation) createPod(ctx context.Context, name, node string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, NodeName: node,
			Containers: []corev1.Container{{
				Name: "app", Image: "app",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse("16Mi")}},
			}},
		},
	}
	_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}
