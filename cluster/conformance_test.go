//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/leak"
)

func TestEmbedded(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	conform(t, &Embedded{Cache: filepath.Join(cache, "leakrig")})
}

// conform is what every provider has to do.
func conform(t *testing.T, p leak.Provider) {
	ctx := context.Background()
	boot := func(t *testing.T, ctx context.Context) (leak.Cluster, leak.BootOptions, error) {
		o := leak.BootOptions{
			Spec: leak.ClusterSpec{Kubernetes: DefaultVersion},
			Run:  "conformance", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: testProgress{t},
		}
		c, err := p.Boot(ctx, o)
		return c, o, err
	}
	t.Run("boot, reach, check, close", func(t *testing.T) {
		c, o, err := boot(t, ctx)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("MET kube-apiserver")
		closed := false
		defer func() {
			if !closed {
				c.Close(ctx)
			}
		}()
		if got := c.Info().Kubernetes; got != DefaultVersion {
			t.Errorf("the API server says it is %s", got)
		}
		info, err := os.Stat(c.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("others can read the kubeconfig: %s", info.Mode())
		}
		createPod(t, c.Kubeconfig())
		if err := c.Check(ctx); err != nil {
			t.Error(err)
		}
		closed = true
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := c.Check(ctx); err == nil || leak.Hint(err) == "" {
			t.Errorf("a closed cluster is said to answer: %v", err)
		}
		if left := processesWith(o.Scratch); len(left) > 0 {
			t.Errorf("still running: %q", left)
		}
	})
	t.Run("cancelled while it boots", func(t *testing.T) {
		cancelled, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		c, o, err := boot(t, cancelled)
		if err == nil {
			c.Close(ctx)
			t.Fatal("booted although the context had ended")
		}
		if left := processesWith(o.Scratch); len(left) > 0 {
			t.Errorf("still running: %q", left)
		}
	})
	t.Run("no place for its files", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := p.Boot(ctx, leak.BootOptions{
			Spec: leak.ClusterSpec{Kubernetes: DefaultVersion}, Scratch: file, Logs: t.TempDir(), Progress: testProgress{t},
		})
		if err == nil {
			c.Close(ctx)
			t.Fatal("booted into a file")
		}
	})
}

func createPod(t *testing.T, kubeconfig string) {
	t.Helper()
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil || namespace == "default" {
		t.Errorf("namespace %q, %v: the run needs one of its own", namespace, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
	if _, err := client.CoreV1().Pods(namespace).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// processesWith lists the command lines that name a folder.
func processesWith(dir string) []string {
	var found []string
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// Ready-made binaries are used where their version is the right one, and only there.
func TestKubebuilderAssets(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	e := &Embedded{Cache: filepath.Join(cache, "leakrig")}
	o := leak.BootOptions{Spec: leak.ClusterSpec{Kubernetes: DefaultVersion}, Progress: testProgress{t}}
	built, err := e.binaries(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	assetsDir := t.TempDir()
	for name, path := range map[string]string{"kube-apiserver": built.apiserver, "etcd": built.etcd} {
		if err := os.Symlink(path, filepath.Join(assetsDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(assetsVariable, assetsDir)
	got, err := e.binaries(context.Background(), o)
	if want := filepath.Join(assetsDir, "kube-apiserver"); err != nil || got.apiserver != want {
		t.Errorf("%v %v, want %s", got, err, want)
	}
	t.Setenv(assetsVariable, t.TempDir()) // nothing there: built ones are used
	if got, err := e.binaries(context.Background(), o); err != nil || got != built {
		t.Errorf("%v %v, want %v", got, err, built)
	}
}

type testProgress struct{ t *testing.T }

func (p testProgress) Log(format string, args ...any) { p.t.Logf(format, args...) }
func (p testProgress) Status(string, ...any)          {}
