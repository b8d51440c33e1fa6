package apiserver

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// An API server that takes connections and answers nothing, as one whose node is paused, does not hold up the end of a
// port-forward.
func TestForwardWithoutAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, nobody reads them
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := &rest.Config{Host: "http://" + l.Addr().String()}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var tasks sync.WaitGroup
	if address, err := (&Connection{Config: config, Client: client}).Forward(ctx, &tasks, "ns", "pod", 80); err == nil {
		t.Fatalf("it leads to %s", address)
	}
	ended := make(chan struct{})
	go func() { tasks.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it still waits")
	}
}
