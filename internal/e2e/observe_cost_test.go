//go:build e2e && bench

package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/procs"
	"github.com/leakrig/leakrig/load"
)

// idleGoroutines is the number of goroutines of the observed server.
const idleGoroutines = 1000

// TestObserveCost measures the CPU time that one verdict of observe costs the observed server. It subtracts the CPU
// time of the same requests without leakrig.
//
//	make bench
func TestObserveCost(t *testing.T) {
	const repeats, limit = 5, time.Second
	url, pid := idleServer(t)
	request := []string{"curl", "-s", "-X", "POST", url + "/work"}
	var costs []cost
	for range repeats {
		runs := t.TempDir()
		start, before := time.Now(), cpuOf(t, pid)
		r := run(t, append([]string{"observe", url, "--runs-dir", runs, "--"}, request...)...)
		took, whole := time.Since(start), cpuOf(t, pid)-before
		if r.code != leak.ExitMet {
			t.Fatal(r)
		}
		operations := readRecord(t, runDir(t, runs)).Variants[0].Final().Operations
		before = cpuOf(t, pid)
		if out, err := exec.Command("sh", "-c", fmt.Sprintf("for i in $(seq %d); do %s || exit 1; done >/dev/null", operations, strings.Join(request, " "))).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		own := cpuOf(t, pid) - before
		t.Logf("%d operations in %s: %s of the server's CPU, %s of them without leakrig", operations, took.Round(time.Second), whole, own)
		costs = append(costs, cost{wall: took, cpu: whole - own})
	}
	if median := medianOf(costs, cpu); median > limit {
		t.Errorf("one verdict costs the server %s of CPU, at most %s are allowed", median, limit)
	} else {
		t.Logf("one verdict costs the server %s of CPU and takes %s (medians of %d)", median, medianOf(costs, wall).Round(time.Second), repeats)
	}
}

// TestFleetThroughput measures a loaded server with and without a fleet that reads it every second, in alternating
// pairs. It prints in how many pairs the observed server is slower, and the median ratio of requests per second.
//
//	make bench
func TestFleetThroughput(t *testing.T) {
	const pairs, requests, workers = 20, 20_000, 8
	url, _ := idleServer(t)
	post := action[*load.Post](t, "post")
	post.Path, post.Times, post.Concurrency = "/work", requests, workers
	target := leak.Target{URL: url, Transport: func() http.RoundTripper { return &http.Transport{MaxIdleConnsPerHost: workers} }}
	hosts := t.TempDir() + "/hosts"
	if err := os.WriteFile(hosts, []byte(url+"/debug/pprof\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	slower, ratios := 0, []float64{}
	for range pairs {
		alone := measureExec(t, "post", post, target)
		fleet := exec.Command(leakrig, "fleet", "--targets", hosts, "--every", "1s", "--for", "10m", "--runs-dir", t.TempDir())
		if err := fleet.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		observed := measureExec(t, "post", post, target)
		_ = fleet.Process.Signal(os.Interrupt)
		_ = fleet.Wait()
		ratios = append(ratios, alone.wall.Seconds()/observed.wall.Seconds())
		if observed.wall > alone.wall {
			slower++
		}
	}
	slices.Sort(ratios)
	t.Logf("observed over alone: median ratio of the throughput %.3f, from %.3f to %.3f; slower in %d of %d pairs", ratios[pairs/2], ratios[0], ratios[pairs-1], slower, pairs)
}

// idleServer starts a server with idle goroutines and returns its URL and process.
func idleServer(t *testing.T) (url string, pid int) {
	t.Helper()
	url = serving(t, built(t, "subjects/calibration", "."), "-plant=workers", "-limit="+strconv.Itoa(idleGoroutines))
	for range idleGoroutines {
		resp, err := http.Post(url+"/work", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	listeners, err := procs.Listeners(netip.MustParseAddrPort(strings.TrimPrefix(url, "http://")))
	if err != nil || len(listeners) == 0 {
		t.Fatalf("%v, %v", listeners, err)
	}
	return url, listeners[0].PID
}

// cpuOf returns the CPU time of a process, in steps of 10 ms (proc(5), utime and stime).
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
