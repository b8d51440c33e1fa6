// Command helm-install-ctx installs a chart for every POST, cancels the installation while it runs, and uninstalls it, as
// an operator does whose object is deleted. In Helm before v3.13.0, the goroutine that installs the chart cannot report
// its result, because nobody waits for it any more.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync/atomic"

	"github.com/leakrig/leakrig/subjects/serve"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

func main() {
	config := new(action.Configuration)
	err := config.Init(genericclioptions.NewConfigFlags(true).WithWrapConfigFn(unlimited), "default", "secret", func(string, ...interface{}) {})
	if err != nil {
		log.Fatalf("helm-install-ctx: %v", err)
	}
	var last atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /install", func(w http.ResponseWriter, r *http.Request) {
		if err := install(r.Context(), config, fmt.Sprintf("release-%d", last.Add(1))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// unlimited removes the limit of five requests a second.
func unlimited(c *rest.Config) *rest.Config {
	c.QPS = -1
	return c
}

// install starts to install a chart with one config map under a context that has ended, and uninstalls it.
func install(ctx context.Context, config *action.Configuration, name string) error {
	settings := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n")
	c := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "settings", Version: "1.0.0"},
		Templates: []*chart.File{{Name: "templates/settings.yaml", Data: settings}},
	}
	i := action.NewInstall(config)
	i.ReleaseName, i.Namespace = name, "default"
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := i.RunWithContext(ctx, c, nil); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("install %s: %w", name, err)
	}
	_, err := action.NewUninstall(config).Run(name)
	return err
}
