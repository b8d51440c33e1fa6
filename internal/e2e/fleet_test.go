//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leakrig/leakrig/fleet"
	"github.com/leakrig/leakrig/leak"
)

// Limits for observing a thousand processes.
const (
	fleetMemory  = 300 << 20 // bytes
	fleetCPU     = 1.        // cores
	fleetSlowest = 15.       // seconds per sweep
)

// envInt returns the integer in an environment variable, or otherwise if it is not set. It fails the test if the
// value is too small.
func envInt(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < min(otherwise, 50) {
		t.Fatalf("%s: %q is not %d or more", name, text, min(otherwise, 50))
	}
	return n
}

// fleetTime returns the time scale for a number of processes. By default, leaks and sweeps are seconds apart, so that the
// test takes one or two minutes. Two cores read a thousand processes in about ten seconds. LEAKRIG_FLEET=long uses
// production times, which take a quarter of an hour.
func fleetTime(size int) (leaks, every, during, tick time.Duration) {
	switch {
	case os.Getenv("LEAKRIG_FLEET") == "long":
		return time.Minute, time.Minute, 15 * time.Minute, 5 * time.Second
	case size > 200:
		return 20 * time.Second, 20 * time.Second, 5 * time.Minute, 2 * time.Second
	}
	return 4 * time.Second, 4 * time.Second, time.Minute, 500 * time.Millisecond
}

// TestFleet observes many processes that serve pprof. Most of them start and end goroutines. Three leak one goroutine
// per interval of fleetTime, and two leak 2 MiB. leakrig must find exactly these five. The nightly tier has a thousand
// processes; a benchmark also limits CPU and time.
func TestFleet(t *testing.T) {
	size := envInt(t, "LEAKRIG_FLEET_SIZE", 100)
	leaks, every, during, tick := fleetTime(size)
	leaky := map[int]string{17: "goroutines", size / 2: "goroutines", size - 1: "goroutines", 18: "bytes", size/2 + 1: "bytes"}
	flags := map[string]string{"goroutines": "-leak", "bytes": "-heap"}
	at := map[string]string{"goroutines": "main.forgotten", "bytes": "main.remember"}
	planted := map[string]float64{"goroutines": time.Hour.Seconds() / leaks.Seconds(), "bytes": 2 << 20 * time.Hour.Seconds() / leaks.Seconds()}
	within := map[string]float64{"goroutines": 0.1, "bytes": 0.25} // the heap is sampled
	noises := []string{"none", "bursts", "wander", "pool"}
	var urls []string
	expected := map[string]string{}
	for i, p := range startFleet(t, size, func(i int) []string {
		args := []string{"-noise", noises[i%len(noises)], "-tick", tick.String()}
		if unit := leaky[i]; unit != "" {
			args = append(args, flags[unit], leaks.String())
		}
		return args
	}) {
		urls = append(urls, p)
		if leaky[i] != "" {
			expected[p] = leaky[i]
		}
	}
	time.Sleep(10 * tick) // pools fill when a process starts, as in production
	runs := t.TempDir()
	began := time.Now()
	r := start(t, "fleet", "--targets", hosts(t, urls), "--every", every.String(), "--for", during.String(), "--runs-dir", runs, "--format", "json")
	got := r.wait(t)
	took := time.Since(began)
	if got.code != leak.ExitNotMet {
		t.Fatal(got)
	}
	var v fleet.Verdict
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
		t.Fatal(err)
	}
	if v.Targets.Seen != size || v.Targets.Leaking != len(expected) || v.Targets.Clean < size-len(expected)-5 {
		t.Errorf("%+v: %s", v.Targets, v.Sentence)
	}
	for _, s := range v.Stacks {
		for _, g := range s.Targets {
			if g.Outcome != leak.Leaking {
				t.Logf("undecided: %s, %s: %d → %d, %s", g.Target, s.Stack, g.From, g.To, g.Reason)
				continue
			}
			off := math.Abs(g.PerHour/planted[s.Unit] - 1)
			if expected[g.Target] != s.Unit || s.Stack == nil || s.Stack.Origin().Func != at[s.Unit] || off > within[s.Unit] {
				t.Errorf("%s: %+.1f %s per hour, planted %.1f, %v", g.Target, g.PerHour, s.Unit, planted[s.Unit], s.Stack)
			}
			delete(expected, g.Target)
		}
	}
	if len(expected) > 0 {
		t.Errorf("not found: %v", expected)
	}
	record, err := fleet.Read(runDir(t, runs))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range record.Targets {
		if s.Heap == nil || len(s.Heap.Groups) == 0 {
			t.Errorf("%s: the heap was not read: %s", s.Name, s.NoHeap)
		}
	}
	usage := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	memory, cpu := usage.Maxrss<<10, (r.cmd.ProcessState.UserTime()+r.cmd.ProcessState.SystemTime()).Seconds()/took.Seconds()
	t.Logf("%d processes, %d sweeps every %s: slowest sweep %.1f s, peak memory %d MiB, %.2f of one core; %d leaking, %d clean, %d undecided",
		size, v.Sweeps, every, v.SlowestSweep, memory>>20, cpu, v.Targets.Leaking, v.Targets.Clean, v.Targets.Undecided)
	if memory > fleetMemory || timed && (cpu > fleetCPU || v.SlowestSweep > fleetSlowest) {
		t.Errorf("more than %d MiB, %g cores or %g s", int(fleetMemory)>>20, fleetCPU, fleetSlowest)
	}
	met("pprof")
}

// TestFleetPods finds and reads many pods through the proxy of a real kube-apiserver. It has no nodes: processes of
// this machine answer at the pods' addresses on the loopback interface. Three leak, one restarts, one disappears
// before the end.
func TestFleetPods(t *testing.T) {
	const restarted, gone = 5, 6
	size := envInt(t, "LEAKRIG_FLEET_SIZE", 100)
	leaks, every, during, tick := fleetTime(size)
	if during == time.Minute { // the API server needs part of the CPU
		leaks, every, during = 2*leaks, 2*every, 2*during
	}
	leaky := map[int]bool{17: true, size / 2: true, size - 1: true}
	address := loopbackAddresses(t)
	startFleet(t, size, func(i int) []string {
		args := []string{"-noise", "bursts", "-tick", tick.String(), "-listen", address(i) + ":7070"}
		if leaky[i] {
			args = append(args, "-leak", leaks.String())
		}
		return args
	})
	kubeconfig := boot(t, "embedded", "fleet").Kubeconfig()
	api := kubernetesAt(t, kubeconfig)
	const namespace = "shop"
	if _, err := api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := api.CoreV1().Pods(namespace)
	// status sets what a kubelet would report about the pod.
	status := func(pod *corev1.Pod, address string, restarts int32) {
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true, RestartCount: restarts}}
		if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
	var making sync.WaitGroup
	for part := range 16 {
		making.Go(func() {
			for i := part; i < size; i += 16 {
				pod, err := pods.Create(t.Context(), &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("orders-%d", i), Labels: map[string]string{"app": "orders"}},
					Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "app", Image: "none"}}},
				}, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				status(pod, address(i), 0)
			}
		})
	}
	making.Wait()
	if t.Failed() {
		t.FailNow()
	}
	began := time.Now()
	r := start(t, "fleet", "--selector", "app=orders", "-A", "--port", "7070", "--kubeconfig", kubeconfig, "--counter", "http_requests_total",
		"--every", every.String(), "--for", during.String(), "--runs-dir", t.TempDir(), "--format", "json")
	r.until(t, `sweep 4 of \d+: `)
	pod, err := pods.Get(t.Context(), fmt.Sprintf("orders-%d", restarted), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status(pod, address(restarted), 1)
	at := int64(0)
	if err := pods.Delete(t.Context(), fmt.Sprintf("orders-%d", gone), metav1.DeleteOptions{GracePeriodSeconds: &at}); err != nil {
		t.Fatal(err)
	}
	got := r.wait(t)
	took := time.Since(began)
	var v fleet.Verdict
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || got.code != leak.ExitNotMet {
		t.Fatal(err, got)
	}
	met("kube-apiserver")
	// The restarted pod counts as two targets, and the first of them ended. The deleted pod ended, too.
	if v.Targets.Seen != size+1 || v.Targets.Gone != 2 || v.Targets.Leaking != len(leaky) || v.Targets.Clean < size-len(leaky)-7 {
		t.Errorf("%+v: %s", v.Targets, v.Sentence)
	}
	found := 0
	for _, s := range v.Stacks {
		for _, g := range s.Targets {
			if g.Outcome != leak.Leaking {
				continue
			}
			var i int
			if _, err := fmt.Sscanf(g.Target, namespace+"/orders-%d", &i); err != nil || !leaky[i] || s.Stack == nil || s.Stack.String() != "chan send at main.forgotten" {
				t.Errorf("%s is leaking: %v", g.Target, s.Stack)
			}
			found++
		}
	}
	if found != len(leaky) || !strings.Contains(v.Sentence, "per operation") {
		t.Errorf("%d of %d found: %s", found, len(leaky), v.Sentence)
	}
	usage := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	memory, cpu := usage.Maxrss<<10, (r.cmd.ProcessState.UserTime()+r.cmd.ProcessState.SystemTime()).Seconds()/took.Seconds()
	t.Logf("%d pods, %d sweeps every %s through kube-apiserver: slowest sweep %.1f s, peak memory %d MiB, %.2f of one core; %d leaking, %d clean, %d undecided, %d not judged",
		size, v.Sweeps, every, v.SlowestSweep, memory>>20, cpu, v.Targets.Leaking, v.Targets.Clean, v.Targets.Undecided, v.Targets.NotJudged)
	if memory > fleetMemory || timed && (cpu > fleetCPU || v.SlowestSweep > fleetSlowest) {
		t.Errorf("more than %d MiB, %g cores or %g s", int(fleetMemory)>>20, fleetCPU, fleetSlowest)
	}
}

// loopbackAddresses adds a network to the loopback interface until the end of the test. It uses the range for
// benchmarks, because the API server's proxy refuses addresses in 127.0.0.0/8.
func loopbackAddresses(t *testing.T) func(i int) string {
	t.Helper()
	const network = "198.18.0.1/16"
	if out, err := exec.Command("ip", "address", "replace", network, "dev", "lo").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: %s", err, out)
		}
		t.Skipf("SKIPPED: no addresses for pods, which needs root and ip: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "address", "del", network, "dev", "lo").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return func(i int) string { return fmt.Sprintf("198.18.%d.%d", 1+i/250, 1+i%250) }
}

// TestFleetInterrupted checks that Ctrl-C ends a survey, and that the sweeps so far are judged and stored.
func TestFleetInterrupted(t *testing.T) {
	t.Parallel()
	urls := startFleet(t, 2, func(i int) []string { return []string{"-leak", []string{"0s", "300ms"}[i]} })
	runs := t.TempDir()
	r := start(t, "fleet", "--targets", hosts(t, urls), "--every", "300ms", "--for", "10m", "--runs-dir", runs, "--counter", "http_requests_total")
	r.until(t, `sweep 20 of 2001: 2 of 2 targets read`)
	if err := syscall.Kill(r.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	got := r.wait(t)
	if got.code != leak.ExitInterrupted || !strings.Contains(got.stdout, "1 of 2 targets leak goroutines") || !strings.Contains(got.stdout, "per operation, in "+urls[1]) || !strings.Contains(got.stdout, "interrupted after") {
		t.Fatal(got)
	}
	record, err := fleet.Read(runDir(t, runs))
	if err != nil || !record.Interrupted || len(record.Sweeps) < 20 || len(record.Targets) != 2 {
		t.Errorf("%+v %v", record, err)
	}
}

func hosts(t *testing.T, urls []string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(strings.Join(urls, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// startFleet starts n processes and returns their URLs. It ends each of them with the test.
func startFleet(t *testing.T, n int, args func(i int) []string) []string {
	t.Helper()
	program := built(t, "internal/e2e", "./testdata/fleet")
	var lines []*bufio.Reader
	var processes []*exec.Cmd
	t.Cleanup(func() {
		for _, p := range processes {
			_ = p.Process.Kill()
		}
		for _, p := range processes {
			var exit *exec.ExitError
			if err := p.Wait(); err != nil && !errors.As(err, &exit) {
				t.Error(err)
			}
		}
	})
	for i := range n {
		p := exec.Command(program, args(i)...)
		p.Env = append(os.Environ(), "GOMAXPROCS=1")
		out, err := p.StdoutPipe()
		if err == nil {
			_, err = p.StdinPipe() // the processes end when it is closed
		}
		if err == nil {
			err = p.Start()
		}
		if err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		processes, lines = append(processes, p), append(lines, bufio.NewReader(out))
	}
	var urls []string
	for i, l := range lines {
		address, err := l.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) || address == "" {
			t.Fatal(fmt.Errorf("process %d: %w", i, err))
		}
		urls = append(urls, strings.TrimSpace(address))
	}
	return urls
}
