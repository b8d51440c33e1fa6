//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/fleet"
	"github.com/leakrig/leakrig/leak"
)

// What the rig may take to observe a thousand processes.
const (
	fleetMemory  = 300 << 20 // bytes
	fleetCPU     = 1.        // cores
	fleetSlowest = 60.       // seconds a sweep
)

// envInt is the number in a variable, or otherwise where it is not set; one too small for the test is refused.
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

// fleetTime is how fast time goes: ordinarily leaks and sweeps come by the second, so that the test is over in
// a minute or two. LEAKRIG_FLEET=long takes the times of production, a quarter of an hour.
func fleetTime() (leaks, every, during, tick time.Duration) {
	if os.Getenv("LEAKRIG_FLEET") == "long" {
		return time.Minute, time.Minute, 15 * time.Minute, 5 * time.Second
	}
	return 4 * time.Second, 4 * time.Second, time.Minute, 500 * time.Millisecond
}

// A thousand processes serve pprof, most with goroutines that come and go, and three of them leak one goroutine
// a minute: all three are found, and no other, within the memory, the CPU and the time that the rig may take.
func TestFleet(t *testing.T) {
	size := envInt(t, "LEAKRIG_FLEET_SIZE", 1000)
	leaks, every, during, tick := fleetTime()
	leaky := map[int]bool{17: true, size / 2: true, size - 1: true}
	noises := []string{"none", "bursts", "wander", "pool"}
	var urls []string
	expected := map[string]bool{}
	for i, p := range startFleet(t, size, func(i int) []string {
		args := []string{"-noise", noises[i%len(noises)], "-tick", tick.String()}
		if leaky[i] {
			args = append(args, "-leak", leaks.String())
		}
		return args
	}) {
		urls = append(urls, p)
		if leaky[i] {
			expected[p] = true
		}
	}
	time.Sleep(10 * tick) // pools fill when a process starts, as in production
	began := time.Now()
	r := start(t, "observe", "--targets", hosts(t, urls), "--every", every.String(), "--for", during.String(), "--runs-dir", t.TempDir(), "--format", "json")
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
			planted := time.Hour.Seconds() / leaks.Seconds()
			if !expected[g.Target] || s.Stack == nil || s.Stack.String() != "chan send at main.forgotten" || g.PerHour < 0.9*planted || g.PerHour > 1.1*planted {
				t.Errorf("%s: %+.1f per hour, planted %.1f, %v", g.Target, g.PerHour, planted, s.Stack)
			}
			delete(expected, g.Target)
		}
	}
	if len(expected) > 0 {
		t.Errorf("not found: %v", expected)
	}
	usage := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	memory, cpu := usage.Maxrss<<10, (r.cmd.ProcessState.UserTime()+r.cmd.ProcessState.SystemTime()).Seconds()/took.Seconds()
	t.Logf("%d processes, %d sweeps every %s: slowest sweep %.1f s, peak memory %d MiB, %.2f of one core; %d leaking, %d clean, %d undecided",
		size, v.Sweeps, every, v.SlowestSweep, memory>>20, cpu, v.Targets.Leaking, v.Targets.Clean, v.Targets.Undecided)
	if memory > fleetMemory || cpu > fleetCPU || v.SlowestSweep > fleetSlowest {
		t.Errorf("more than %d MiB, %g cores or %g s", int(fleetMemory)>>20, fleetCPU, fleetSlowest)
	}
	met("pprof")
}

// Pods are found and read through an API server, which here answers as kube-apiserver does and leads to real
// processes: one leaks, one restarts on the way, one is gone before the end.
func TestFleetPods(t *testing.T) {
	urls := startFleet(t, 12, func(i int) []string {
		args := []string{"-noise", "bursts", "-tick", "200ms"}
		if i == 3 {
			args = append(args, "-leak", "200ms")
		}
		return args
	})
	var sweeps atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		if r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("labelSelector") == "app=orders" {
			n := sweeps.Add(1)
			var items []string
			for i := range urls {
				restarts := 0
				if i == 5 && n > 4 {
					restarts = 1
				}
				if i == 6 && n > 4 {
					continue
				}
				items = append(items, fmt.Sprintf(`{"metadata":{"name":"orders-%d","namespace":"shop","uid":"u%d"},"status":{"phase":"Running","containerStatuses":[{"name":"app","restartCount":%d}]}}`, i, i, restarts))
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%s]}`, strings.Join(items, ","))
			return
		}
		var i int
		var rest string
		if n, _ := fmt.Sscanf(r.URL.Path, "/api/v1/namespaces/shop/pods/orders-%d:7070/proxy%s", &i, &rest); n != 2 {
			http.NotFound(w, r)
			return
		}
		to, err := url.Parse(urls[i])
		if err != nil {
			t.Error(err)
			return
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.URL.Path = rest }}).ServeHTTP(w, r)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: prod, contexts: [{name: prod, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "observe", "--selector", "app=orders", "-A", "--port", "7070", "--kubeconfig", kubeconfig, "--counter", "http_requests_total",
		"--every", "400ms", "--for", "8s", "--runs-dir", t.TempDir(), "--min-judged", "0.8")
	for _, part := range []string{
		"1 of 13 targets leak goroutines", "in shop/orders-3, chan send at main.forgotten", "per operation",
		"13 targets: 1 leaking, 10 clean, 0 undecided, 2 not judged; 2 of them ended or restarted",
		"not judged: shop/orders-5: 4 points", "not judged: shop/orders-6: 4 points",
	} {
		if got.code != leak.ExitNotMet || !strings.Contains(got.stdout, part) {
			t.Fatalf("%q is not in %v", part, got)
		}
	}
}

// Ctrl-C ends a survey: what was read is judged and is in the run directory.
func TestFleetInterrupted(t *testing.T) {
	urls := startFleet(t, 2, func(i int) []string { return []string{"-leak", []string{"0s", "300ms"}[i]} })
	runs := t.TempDir()
	r := start(t, "observe", "--targets", hosts(t, urls), "--every", "300ms", "--for", "10m", "--runs-dir", runs, "--counter", "http_requests_total")
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

// startFleet starts so many processes and returns their URLs. They are ended with the test, one by one.
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
			_, err = p.StdinPipe() // they end when it is closed
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
