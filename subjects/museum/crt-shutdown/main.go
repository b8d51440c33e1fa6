// Command crt-shutdown runs a controller manager for every POST and stops it. Three runnables return their error after the
// graceful shutdown timeout. In controller-runtime before v0.22.0, they block on a channel that nobody reads any more.
package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/leakrig/leakrig/subjects/serve"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /manage", func(w http.ResponseWriter, r *http.Request) {
		if err := manage(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// manage starts a manager with three runnables that stop too late, and returns when the manager has stopped.
func manage(ctx context.Context) error {
	timeout := 200 * time.Millisecond
	m, err := manager.New(&rest.Config{}, manager.Options{
		GracefulShutdownTimeout: &timeout,
		Logger:                  logr.Discard(),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	started := make(chan struct{}, 3)
	for range 3 {
		err := m.Add(manager.RunnableFunc(func(context.Context) error {
			started <- struct{}{}
			<-ended
			return errors.New("the connection is closed")
		}))
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for range 3 {
			<-started
		}
		<-m.Elected() // the manager has started
		cancel()
	}()
	err = m.Start(ctx)
	close(ended)
	if !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(errors.New("the manager has stopped in time"), err)
	}
	return nil
}
