//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// observeComponents tests every cluster with observable components: each component answers with its goroutines, with
// its build information and, if the engine permits, with its process. A restarted component is reported as another
// one.
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
					t.Errorf("build information: %+v", info)
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
		if _, err := c.engine.Run(ctx, "exec", c.name+"-control-plane", "systemctl", "restart", "kubelet"); err != nil {
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

// A node whose kubelet and runc are pinned boots, starts pods with them, and says so.
func TestKindPinnedCommands(t *testing.T) {
	ctx := context.Background()
	const runc, module, version = "1.3.6", "github.com/google/uuid", "v1.5.0"
	o := leak.BootOptions{
		Run: "pinned", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: testProgress{t},
		Node: []leak.NodePin{
			{Command: "kubelet", Version: DefaultVersion, Modules: map[string]string{module: version}},
			{Command: "runc", Version: "v" + runc},
		},
		Components: []leak.ComponentSpec{{Component: leak.Kubelet, Name: "kubelet"}},
	}
	booted, err := needsKind(t).Boot(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, booted)
	c := booted.(*kindCluster)
	program, err := c.RunPod(ctx, calibration(t, "-plant=nothing"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Stop(ctx)
	kubelet, err := c.Observe(ctx, o.Components[0], program)
	if err != nil {
		t.Fatal(err)
	}
	defer kubelet.Stop(ctx)
	modules := kubelet.Info().Modules
	i := slices.IndexFunc(modules, func(m leak.Module) bool { return m.Path == module })
	if i < 0 || modules[i].Replace != module+" "+version {
		t.Errorf("the kubelet says that it was built with %+v", modules)
	}
	out, err := c.engine.Run(ctx, "exec", c.name+"-control-plane", "sh", "-c", `runc --version; runc --root /run/containerd/runc/k8s.io list --format json | grep -c '"status":"running"'`)
	if err != nil || !strings.HasPrefix(out, "runc version "+runc) || strings.HasSuffix(out, "\n0") {
		t.Errorf("%v: %s", err, out)
	}
	want := map[string]string{"/usr/bin/kubelet": module, "/usr/local/sbin/runc": "github.com/opencontainers/runc"}
	for _, command := range c.Info().Pinned {
		has := slices.ContainsFunc(command.Modules, func(m leak.Module) bool { return m.Path == want[command.Path] })
		if !has || command.GoVersion == "" {
			t.Errorf("the node's %s says that it was built with %+v", command.Path, command)
		}
		delete(want, command.Path)
	}
	if len(want) > 0 {
		t.Errorf("the record has nothing of %v", want)
	}
	fmt.Println("MET kind")
}
