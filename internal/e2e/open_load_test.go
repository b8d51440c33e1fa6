//go:build e2e && bench

package e2e

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/load"
)

// TestOpenLoadCost compares the latency of an open load with vegeta's, which also starts requests when they are due, on a
// server that stalls for 100 ms once a second. It prints by which factor a closed load is off.
//
//	make bench
func TestOpenLoadCost(t *testing.T) {
	const rate, seconds, stall = 200, 20, 100 * time.Millisecond
	vegeta := filepath.Join(t.TempDir(), "vegeta")
	build := exec.Command("go", "build", "-trimpath", "-o", vegeta, "github.com/tsenart/vegeta/v12")
	build.Dir = filepath.Join(root, "internal/tools/vegeta")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var stalled sync.RWMutex
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		stalled.RLock()
		defer stalled.RUnlock()
	}))
	defer server.Close()
	ticker, done := time.NewTicker(time.Second), make(chan struct{})
	defer ticker.Stop()
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				stalled.Lock()
				time.Sleep(stall)
				stalled.Unlock()
			}
		}
	}()
	target := leak.Target{URL: server.URL, Transport: func() http.RoundTripper { return &http.Transport{MaxIdleConnsPerHost: 1000} }}
	measure := func(change func(*load.Post)) leak.Tally {
		post := action[*load.Post](t, "post")
		post.Method, post.Path, post.Times = http.MethodGet, "/", rate*seconds
		change(post)
		tally, err := post.Run(t.Context(), target, 1)
		if err != nil || tally.Failed > 0 {
			t.Fatalf("%+v, %v", tally, err)
		}
		return tally
	}
	open := measure(func(p *load.Post) { p.Arrival.Rate = rate })
	closed := measure(func(p *load.Post) { p.Rate = rate })

	cmd := exec.Command("sh", "-c", `"$0" attack -rate 200 -duration 20s | "$0" report -type json`, vegeta)
	cmd.Stdin = strings.NewReader("GET " + server.URL + "/\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs struct {
		Latencies struct {
			P50 float64 `json:"50th"`
			P99 float64 `json:"99th"`
			Max float64 `json:"max"`
		}
	}
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ms := func(seconds float64) float64 { return 1e3 * seconds }
	t.Logf("open load  p50 %6.2f ms  p90 %6.2f ms  p99 %6.2f ms  max %6.2f ms  %+v", ms(open.Latency.P50), ms(open.Latency.P90), ms(open.Latency.P99), ms(open.Latency.Max), *open.Open)
	t.Logf("vegeta     p50 %6.2f ms                 p99 %6.2f ms  max %6.2f ms", theirs.Latencies.P50/1e6, theirs.Latencies.P99/1e6, theirs.Latencies.Max/1e6)
	t.Logf("closed     p50 %6.2f ms  p90 %6.2f ms  p99 %6.2f ms  max %6.2f ms", ms(closed.Latency.P50), ms(closed.Latency.P90), ms(closed.Latency.P99), ms(closed.Latency.Max))
	t.Logf("the closed load is off by a factor of %.0f at the 99th percentile", open.Latency.P99/closed.Latency.P99)
	if off := math.Abs(open.Latency.P99/(theirs.Latencies.P99/1e9) - 1); off > 0.05 {
		t.Errorf("the 99th percentiles differ by %.1f %%", 100*off)
	}
}
