// Command helm-install-handle installs a chart and uninstalls it for every POST, as an operator does. In Helm v3.8.0, every
// installation leaves a goroutine that waits for its context, which is never done.
package main

import (
	"bytes"
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
		log.Fatalf("helm-install-handle: %v", err)
	}
	var last atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /install", func(w http.ResponseWriter, _ *http.Request) {
		if err := install(config, fmt.Sprintf("release-%d", last.Add(1))); err != nil {
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

// install installs a chart with one config map, and uninstalls it.
func install(config *action.Configuration, name string) error {
	settings := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n")
	c := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "settings", Version: "1.0.0"},
		Templates: []*chart.File{{Name: "templates/settings.yaml", Data: settings}},
	}
	i := action.NewInstall(config)
	i.ReleaseName, i.Namespace = name, "default"
	release, err := i.Run(c, nil)
	if err != nil {
		return err
	}
	if !bytes.Contains([]byte(release.Manifest), []byte(name)) {
		return fmt.Errorf("release %s: manifest %q", name, release.Manifest)
	}
	_, err = action.NewUninstall(config).Run(name)
	return err
}
