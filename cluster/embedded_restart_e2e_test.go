//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/leak"
)

// TestEmbeddedRestart stops and starts the API server several times. Objects, credentials and the port stay the same, and
// nothing of an interrupted restart is left.
func TestEmbeddedRestart(t *testing.T) {
	scratch := t.TempDir()
	booted, err := (&Embedded{Cache: cacheDir(t)}).Boot(t.Context(), leak.BootOptions{Run: "restart", Scratch: scratch, Logs: t.TempDir(), Progress: testProgress{t}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("MET kube-apiserver")
	closed := false
	defer func() {
		if !closed {
			_ = booted.Close(context.Background())
		}
	}()
	breakable := booted.(leak.Breakable)
	config, err := clientcmd.BuildConfigFromFlags("", booted.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stays"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func() error {
		_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "stays", metav1.GetOptions{})
		return err
	}
	for i := range 3 {
		// With an open watch, an API server needs a minute to end.
		watch, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		start := time.Now()
		up, err := breakable.Down(t.Context(), leak.Part{Name: leak.KubeAPIServer})
		if err != nil {
			t.Fatal(err)
		}
		down := time.Since(start)
		if down > planeStop {
			t.Errorf("stopped in %s", down)
		}
		if err := get(); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("while it is down: %v", err)
		}
		if err := booted.Check(t.Context()); err != nil {
			t.Errorf("a fault counts as the death of the cluster: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if i == 2 {
			cancel() // an undo does not depend on the run, but if it is cut short, Close still stops everything
		}
		start = time.Now()
		err = up(ctx)
		cancel()
		t.Logf("stopped in %s, started in %s, %v", down.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), err)
		if i < 2 && err != nil {
			t.Fatal(err)
		}
		if i < 2 && get() != nil {
			t.Errorf("after it: %v", get())
		}
	}
	if err := booted.Close(context.Background()); err != nil {
		t.Error(err)
	}
	closed = true
	if left := processesWith(scratch); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := breakable.Down(t.Context(), leak.Part{Selector: "app=x"}); err == nil || leak.Hint(err) == "" {
		t.Errorf("pods of a control plane without nodes: %v", err)
	}
	path, err := breakable.Through("127.0.0.1:4711")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "https://127.0.0.1:4711") || strings.Contains(string(text), breakable.Server()) {
		t.Errorf("%s, %v", text, err)
	}
}
