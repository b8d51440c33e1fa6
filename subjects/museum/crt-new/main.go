// Command crt-new creates a controller for every POST that its manager refuses, as a program does whose set-up fails. In
// controller-runtime before v0.4.0, the work queue of the controller runs already, and nobody can shut it down.
package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/leakrig/leakrig/subjects/serve"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	m, err := manager.New(&rest.Config{}, manager.Options{MetricsBindAddress: "0", MapperProvider: mapper})
	if err != nil {
		log.Fatalf("crt-new: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /create", func(w http.ResponseWriter, _ *http.Request) {
		if err := create(refusing{m}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// mapper needs no API server.
func mapper(*rest.Config) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil }

// refusing is a manager that takes no controller.
type refusing struct{ manager.Manager }

var errRefused = errors.New("the manager stops")

func (refusing) Add(manager.Runnable) error { return errRefused }

// create creates a controller and expects that the manager refuses it.
func create(m manager.Manager) error {
	reconciler := reconcile.Func(func(reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	if _, err := controller.New("controller", m, controller.Options{Reconciler: reconciler}); !errors.Is(err, errRefused) {
		return fmt.Errorf("create: %w, want %w", err, errRefused)
	}
	return nil
}
