//go:build e2e && bench

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/load"
)

// TestKindExecCost measures the cost of an exec compared with the loop of the incident on the same pod: at 100 execs
// at most 40 % of its wall time and 8 % of its CPU, including all kubectl processes. Then it measures the cost for up
// to 1000 execs.
//
//	make bench
func TestKindExecCost(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	kubectlOnPath(t)
	target := podOnKind(t)
	execs := func(protocol string, n int) leak.Action {
		e := action[*load.Exec](t, "exec")
		e.Command, e.Output, e.Protocol = []string{"/subject", "ls", "/"}, `(?m)^subject$`, protocol
		// Run 100 at a time, as the loop does. After 300 at a time, a shim of containerd 1.7.35 kept spinning in two
		// of three runs, and took the machine with it.
		e.Times, e.Concurrency, e.Timeout = n, min(n, 100), leak.Duration(time.Minute)
		return e
	}
	loop := func(n int) leak.Action {
		c := action[*load.Command](t, "command")
		c.Shell = fmt.Sprintf(`for i in $(seq %d); do kubectl exec -i "$POD" -- /subject ls / & done; wait`, n)
		c.Operations, c.Output = n, fmt.Sprintf(`(?s)^(.*?subject\n){%d}`, n-n/maxSilentShare)
		return c
	}
	measureExec(t, "warm up", execs("websocket", 10), target)

	const n, times = 100, 3
	var ours, theirs []cost
	for range times { // alternate, so that other work on the machine affects both alike
		ours = append(ours, measureExec(t, "exec", execs("websocket", n), target))
		theirs = append(theirs, measureExec(t, "kubectl loop", loop(n), target))
	}
	a := cost{wall: medianOf(ours, wall), cpu: medianOf(ours, cpu)}
	b := cost{wall: medianOf(theirs, wall), cpu: medianOf(theirs, cpu)}
	ofWall, ofCPU := a.wall.Seconds()/b.wall.Seconds(), a.cpu.Seconds()/b.cpu.Seconds()
	t.Logf("%d execs, median of %d: exec %s, kubectl loop %s: %.0f %% of the wall time, %.1f %% of the CPU", n, times, a, b, 100*ofWall, 100*ofCPU)
	if ofWall > 0.40 || ofCPU > 0.08 {
		t.Errorf("exec takes %.0f %% of the loop's wall time (at most 40), %.1f %% of its CPU (at most 8)", 100*ofWall, 100*ofCPU)
	}

	for _, protocol := range []string{"websocket", "spdy"} {
		var hundred, thousand cost
		for _, n := range []int{10, 30, 100, 300, 1000} {
			c := measureExec(t, protocol, execs(protocol, n), target)
			t.Logf("%s, %4d execs: %s, %s of CPU each", protocol, n, c, (c.cpu / time.Duration(n)).Round(10*time.Microsecond))
			switch n {
			case 100:
				hundred = c
			case 1000:
				thousand = c
			}
		}
		if thousand.cpu > 20*hundred.cpu {
			t.Errorf("%s: 1000 execs take %s of CPU, 100 take %s: the cost of one grows", protocol, thousand.cpu, hundred.cpu)
		}
	}
	met("kind")
}

// maxSilentShare allows one in this many execs to return without its output. On a busy node this also happens to
// kubectl's own execs.
const maxSilentShare = 20

// measureExec measures one round. It accepts only silent execs as failures, up to maxSilentShare.
func measureExec(t *testing.T, name string, a leak.Action, target leak.Target) cost {
	t.Helper()
	before, start := processorTime(t), time.Now()
	tally, err := a.Run(t.Context(), target, 1)
	c := cost{wall: time.Since(start), cpu: processorTime(t) - before}
	if err != nil || tally.Failed > tally.Silent || tally.Silent > tally.Attempted/maxSilentShare {
		t.Fatalf("%s: %+v, %v", name, tally, err)
	}
	return c
}

// action returns an action of this kind with its defaults.
func action[T leak.Action](t *testing.T, name string) T {
	t.Helper()
	for _, k := range load.Kinds() {
		if k.Name == name {
			return k.New().(T)
		}
	}
	t.Fatalf("no action %s", name)
	panic("not reached")
}

// kubectlOnPath puts the kubectl of the node image on the PATH. If it is missing from the cache, the user's own must
// be on the PATH.
func kubectlOnPath(t *testing.T) {
	t.Helper()
	if path, ok := upstream.Find(cache(t), upstream.Kubernetes(cluster.DefaultVersion), "kubectl"); ok {
		t.Setenv("PATH", filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Fatal(err)
	}
}

// podOnKind boots a kind cluster, and a pod that contains ls.
func podOnKind(t *testing.T) leak.Target {
	t.Helper()
	program := built(t, "internal/e2e", "./testdata/ls")
	c := boot(t, "kind", "exec-cost")
	pod, err := c.(leak.PodRunner).RunPod(t.Context(), leak.Launch{
		Variant: "ls", Program: program, Ready: "/healthz", ReadyTimeout: time.Minute, Log: filepath.Join(t.TempDir(), "subject.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pod.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return pod.Target()
}
