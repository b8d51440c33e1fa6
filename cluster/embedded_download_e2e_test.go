//go:build e2e

package cluster

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/cluster/binaries"
	"github.com/leakrig/leakrig/internal/mirror"
	"github.com/leakrig/leakrig/leak"
)

// TestEmbeddedDownload boots a control plane from an archive of the built binaries, which a local mirror serves. The
// record says where they come from, and a second boot needs no mirror.
func TestEmbeddedDownload(t *testing.T) {
	built, err := (&Embedded{Cache: cacheDir(t)}).binaries(context.Background(), leak.BootOptions{Progress: testProgress{t}})
	if err != nil {
		t.Fatal(err)
	}
	archive, err := mirror.Pack(built.APIServer, built.Etcd)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mirror.Mirror{Version: DefaultVersion, Archive: archive})
	e := &Embedded{Cache: t.TempDir(), Mode: binaries.Auto, Index: server.URL + mirror.IndexPath}
	for range 2 {
		c, err := e.Boot(context.Background(), leak.BootOptions{Run: "download", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: testProgress{t}})
		if err != nil {
			t.Fatal(err)
		}
		if info := c.Info(); info.Kubernetes != DefaultVersion || !strings.HasPrefix(info.Binaries, "downloaded, as listed at "+server.URL) {
			t.Errorf("%+v", info)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		server.Close()
	}
}
