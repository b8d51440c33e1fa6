//go:build e2e

package cluster

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// observeComponents is what every cluster has to do whose components can be observed: each answers with
// its goroutines, with what its binary says of itself and, on a node that the engine lets us see, with
// its process. One that is restarted is not the same any more.
func observeComponents(t *testing.T, c leak.Observer, kinds []string, program leak.Subject) {
	ctx := context.Background()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			part, err := c.Observe(ctx, leak.ComponentSpec{Component: kind, Name: kind}, program)
			if err != nil {
				t.Fatal(err)
			}
			defer part.Stop(ctx)
			target := part.Target()
			if kind == leak.ContainerdShim {
				checkShim(t, target)
			} else if body := get(t, target, target.Pprof+"/goroutine?debug=2"); !strings.HasPrefix(body, "goroutine ") {
				t.Errorf("pprof says %.80q", body)
			}
			if target.Proc != nil {
				status, err := fs.ReadFile(target.Proc, "status")
				if err != nil || !strings.Contains(string(status), "VmRSS:") {
					t.Errorf("/proc: %v %.80q", err, status)
				}
				if info := part.Info(); info.GoVersion == "" || len(info.Modules) == 0 || info.Placement != leak.PlacementNode {
					t.Errorf("it says of itself: %+v", info)
				}
			}
			if part.Err() != nil {
				t.Error(part.Err())
			}
		})
	}
}

func checkShim(t *testing.T, target leak.Target) {
	t.Helper()
	for range 3 { // each is a dump of its own
		dump, err := target.Dump(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(dump), "containerd/runtime/v2") && !strings.Contains(string(dump), "containerd-shim-runc-v2") {
			t.Errorf("the shim's dump is %.200q", dump)
		}
	}
}

func observeKind(t *testing.T, c *kindCluster) {
	ctx := context.Background()
	program, err := c.RunPod(ctx, calibration(t, "-plant=nothing"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Stop(ctx)
	observeComponents(t, c, leak.ComponentKinds(), program)
	t.Run("a shim without a pod", func(t *testing.T) {
		if _, err := c.Observe(ctx, leak.ComponentSpec{Component: leak.ContainerdShim, Name: "shim"}, nil); err == nil || leak.Hint(err) == "" {
			t.Errorf("%v", err)
		}
	})
	t.Run("a component that is restarted", func(t *testing.T) {
		part, err := c.Observe(ctx, leak.ComponentSpec{Component: leak.Kubelet, Name: "kubelet"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer part.Stop(ctx)
		if _, err := c.engine.run(ctx, "exec", c.name+"-control-plane", "systemctl", "restart", "kubelet"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-part.Done():
			if err := part.Err(); err == nil || !strings.Contains(err.Error(), "kubelet died, or was restarted") {
				t.Errorf("%v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("nobody noticed")
		}
	})
}
