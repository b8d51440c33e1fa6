//go:build e2e && bench

package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/load"
)

// TestPostCost measures requests per second of CPU for leakrig, hey and wrk against the same server on loopback.
// leakrig must reach at least hey's rate. wrk is the other end of the scale: it is written in C and does not track
// the result of each request.
//
//	make bench
func TestPostCost(t *testing.T) {
	const requests, workers, times = 30_000, 20, 5
	url := serving(t, built(t, "internal/e2e", "./testdata/ls"))
	hey := filepath.Join(t.TempDir(), "hey")
	build := exec.Command("go", "build", "-trimpath", "-modfile="+filepath.Join(root, "internal/tools/hey/go.mod"), "-o", hey, "github.com/rakyll/hey")
	build.Dir = filepath.Join(root, "internal/tools/hey")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	post := action[*load.Post](t, "post")
	post.Path, post.Times, post.Concurrency = "/healthz?id={{.Op}}", requests, workers
	target := leak.Target{URL: url, Transport: func() http.RoundTripper { return &http.Transport{MaxIdleConnsPerHost: workers} }}

	tools := map[string]func(t *testing.T) cost{
		"post": func(t *testing.T) cost { return measureExec(t, "post", post, target) },
		"hey": func(t *testing.T) cost {
			return measureCommand(t, hey, "-n", fmt.Sprint(requests), "-c", fmt.Sprint(workers), "-m", "POST", url+"/healthz?id=1")
		},
	}
	if wrk, err := exec.LookPath("wrk"); err == nil {
		tools["wrk"] = func(t *testing.T) cost {
			return measureCommand(t, wrk, "-t", "1", "-c", fmt.Sprint(workers), "-d", "2s", url+"/healthz?id=1")
		}
	} else {
		t.Log("wrk is not on the PATH: not compared")
	}
	costs := map[string][]cost{}
	for range times { // alternate, so that other work on the machine affects all alike
		for name, measure := range tools {
			costs[name] = append(costs[name], measure(t))
		}
	}
	perCPU := map[string]float64{}
	for name, all := range costs {
		per := func(seconds func(cost) time.Duration) float64 {
			return medianOf(all, func(c cost) float64 { return float64(cmp.Or(requestsOfWrk(c), requests)) / seconds(c).Seconds() })
		}
		perCPU[name] = per(cpu)
		t.Logf("%-4s %6.0f requests a second of CPU, %6.0f a second (medians of %d)", name, perCPU[name], per(wall), times)
	}
	if perCPU["post"] < perCPU["hey"] {
		t.Errorf("post makes %.0f requests a second of CPU, hey %.0f", perCPU["post"], perCPU["hey"])
	}
}

var wrkRequests = regexp.MustCompile(`(\d+) requests in `)

// requestsOfWrk returns the number of requests that wrk printed, because wrk runs for a fixed time. It returns 0 for
// other tools.
func requestsOfWrk(c cost) int {
	m := wrkRequests.FindStringSubmatch(c.output)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
