package cluster

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

// In a pod without a kubeconfig leakrig finds the cluster that it is in, shows the token that stands in the
// service account's folder at the time, and hands subjects a kubeconfig that does the same.
func TestInCluster(t *testing.T) {
	var said []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said = append(said, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.34.4"}`))
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		default:
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"leakrig-r"}}`))
		}
	}))
	defer server.Close()
	account := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := errors.Join(os.WriteFile(filepath.Join(account, "ca.crt"), ca, 0o600), os.WriteFile(filepath.Join(account, "token"), []byte("first"), 0o600)); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", at.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", at.Port())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())

	x := &Existing{Options{Access: apiserver.Access{Account: account}}}
	ctx := context.Background()
	if err := x.Preflight(ctx, leak.BootOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := x.Boot(ctx, leak.BootOptions{Run: "r", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: noProgress{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Info(); got.Provider != "existing" || got.Kubernetes != "v1.34.4" {
		t.Errorf("%+v", got)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if chosen := config.Contexts[config.CurrentContext]; chosen.Namespace != "leakrig-r" || config.AuthInfos[chosen.AuthInfo].TokenFile != filepath.Join(account, "token") || config.AuthInfos[chosen.AuthInfo].Token != "" {
		t.Errorf("the kubeconfig for subjects: %+v", chosen)
	}
	if info, err := os.Stat(c.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"POST /api/v1/namespaces Bearer first", "DELETE /api/v1/namespaces/leakrig-r Bearer first"} {
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%q was not asked, but %q", want, said)
		}
	}
}

// noProgress ignores progress.
type noProgress struct{}

func (noProgress) Log(string, ...any)    {}
func (noProgress) Status(string, ...any) {}
