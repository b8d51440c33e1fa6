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

// How many requests a second of CPU makes, of leakrig's and of hey's and wrk's, against the same server on
// loopback in one run: at least hey's. wrk is in C, and knows of no request what became of it; it is there as
// the other end of the scale.
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
	for range times { // by turns, so that whatever else the machine does meets all
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

// requestsOfWrk is how many wrk, which runs for a time, says it made; 0 for any other tool.
func requestsOfWrk(c cost) int {
	m := wrkRequests.FindStringSubmatch(c.output)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
