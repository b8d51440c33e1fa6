package apiserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestInClusterOnlyThere checks that flags override the pod's cluster, and that the error names what the pod lacks.
func TestInClusterOnlyThere(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: mine, contexts: [{name: mine, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, host, env string
		access          Access
		want            string // the current context, or the text of an error
	}{
		{"outside of a pod", "", "", Access{}, `no context ""`},
		{"a pod without a service account", "10.0.0.1", "", Access{}, "in a pod without a service account"},
		{"a kubeconfig is named", "10.0.0.1", "", Access{KubeconfigFile: kubeconfig}, "mine"},
		{"a kubeconfig is in the environment", "10.0.0.1", kubeconfig, Access{}, "mine"},
		{"a context is named that is not there", "10.0.0.1", "", Access{Context: "other"}, `no context "other"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", c.host)
			t.Setenv("KUBERNETES_SERVICE_PORT", "443")
			if c.env != "" {
				t.Setenv("KUBECONFIG", c.env)
			}
			c.access.Account = t.TempDir()
			config, err := c.access.Load()
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || leak.Hint(err) == "" {
					t.Errorf("%v (hint %q), want %q", err, leak.Hint(err), c.want)
				}
			} else if config.CurrentContext != c.want {
				t.Errorf("context %s, want %s", config.CurrentContext, c.want)
			}
		})
	}
}
