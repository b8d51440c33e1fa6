//go:build e2e && bench

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/load"
)

// What an exec costs the rig, beside the loop of the incident on the same pod: at 100 execs at most 40 %
// of its wall time and 8 % of its CPU, that of all kubectls included. Then how it grows up to 1000 execs.
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
		e.Times, e.Concurrency, e.Timeout = n, min(n, 300), leak.Duration(3*time.Minute)
		return e
	}
	loop := func(n int) leak.Action {
		c := action[*load.Command](t, "command")
		c.Shell = fmt.Sprintf(`for i in $(seq %d); do kubectl exec -i "$POD" -- /subject ls / & done; wait`, n)
		c.Operations, c.Output = n, fmt.Sprintf(`(?s)^(.*?subject\n){%d}`, n)
		return c
	}
	measureExec(t, "warm up", execs("websocket", 10), target)

	const n, times = 100, 3
	var ours, theirs []execCost
	for range times { // by turns, so that whatever else the machine does meets both
		ours = append(ours, measureExec(t, "exec", execs("websocket", n), target))
		theirs = append(theirs, measureExec(t, "kubectl loop", loop(n), target))
	}
	a, b := medianExec(ours), medianExec(theirs)
	wall, cpu := a.wall.Seconds()/b.wall.Seconds(), a.cpu.Seconds()/b.cpu.Seconds()
	t.Logf("%d execs, median of %d: exec %s, kubectl loop %s: %.0f %% of the wall time, %.1f %% of the CPU", n, times, a, b, 100*wall, 100*cpu)
	if wall > 0.40 || cpu > 0.08 {
		t.Errorf("exec takes %.0f %% of the loop's wall time (at most 40), %.1f %% of its CPU (at most 8)", 100*wall, 100*cpu)
	}

	for _, protocol := range []string{"websocket", "spdy"} {
		var hundred, thousand execCost
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

// execCost is what one round of an action took.
type execCost struct{ wall, cpu time.Duration }

func (c execCost) String() string {
	return fmt.Sprintf("%.2fs wall, %.2fs CPU", c.wall.Seconds(), c.cpu.Seconds())
}

func medianExec(costs []execCost) execCost {
	wall, cpu := []time.Duration{}, []time.Duration{}
	for _, c := range costs {
		wall, cpu = append(wall, c.wall), append(cpu, c.cpu)
	}
	slices.Sort(wall)
	slices.Sort(cpu)
	return execCost{wall[len(wall)/2], cpu[len(cpu)/2]}
}

// measure runs one round, in which nothing may fail.
func measureExec(t *testing.T, name string, a leak.Action, target leak.Target) execCost {
	t.Helper()
	before, start := processorTime(t), time.Now()
	tally, err := a.Run(t.Context(), target, 1)
	c := execCost{time.Since(start), processorTime(t) - before}
	if err != nil || tally.Failed > 0 {
		t.Fatalf("%s: %+v, %v", name, tally, err)
	}
	return c
}

// processorTime is that of this process and of all that it has started and that has ended.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var sum int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			t.Fatal(err)
		}
		sum += r.Utime.Nano() + r.Stime.Nano()
	}
	return time.Duration(sum)
}

// action makes a kind of action with its defaults.
func action[T leak.Action](t *testing.T, name string) T {
	t.Helper()
	for _, k := range load.Kinds() {
		if k.Name == name {
			return k.New().(T)
		}
	}
	t.Fatalf("there is no action %s", name)
	panic("not reached")
}

func cache(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("LEAKRIG_CACHE"); dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(user, "leakrig")
}

// kubectlOnPath puts the kubectl of the node image on the PATH, else the user's own will do.
func kubectlOnPath(t *testing.T) {
	t.Helper()
	if path, ok := upstream.Find(cache(t), upstream.Kubernetes(cluster.DefaultVersion), "kubectl"); ok {
		t.Setenv("PATH", filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Fatal(err)
	}
}

// podOnKind boots a kind cluster and a pod that has ls in it.
func podOnKind(t *testing.T) leak.Target {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ls")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./testdata/ls")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var provider leak.Provider
	for _, k := range cluster.Kinds(cluster.Options{Cache: cache(t)}) {
		if k.Name == "kind" {
			provider = k.New()
		}
	}
	c, err := provider.Boot(t.Context(), leak.BootOptions{
		Run: "exec-cost", Pods: true, Scratch: t.TempDir(), Logs: t.TempDir(), Progress: logs{t},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
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

// logs passes progress on to the test's log.
type logs struct{ t *testing.T }

func (l logs) Log(format string, args ...any) { l.t.Logf(format, args...) }
func (logs) Status(string, ...any)            {}
