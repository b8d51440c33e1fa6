package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/leakrig/leakrig/leak"
)

// seeded returns random numbers whose seed a failing test prints.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("random seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestSplit checks that the parts add up exactly: no number twice, none missing, no worker idle.
func TestSplit(t *testing.T) {
	rand := seeded(t)
	for range 5000 {
		p := pace{Times: 1 + rand.IntN(5000), Concurrency: 1 + rand.IntN(200)}
		if rand.IntN(2) == 0 {
			p.Rate = 0.001 + 1000*rand.Float64()
		}
		n, first := 1+rand.IntN(p.MostWorkers()), 1+rand.IntN(1000)
		next, concurrency, rate := first, 0, 0.0
		for i, mine := range p.split(first, n) {
			if mine.First != next || mine.Times < 1 || mine.Concurrency < 1 {
				t.Fatalf("%+v by %d: part %d is %+v, the next operation was %d", p, n, i, mine, next)
			}
			// The number of operations is proportional to the worker's concurrency, or even if each operation is
			// independent.
			share := float64(p.Times) / float64(n)
			if p.Times > p.Concurrency {
				share = float64(p.Times) * float64(mine.Concurrency) / float64(p.Concurrency)
			}
			if math.Abs(float64(mine.Times)-share) >= 1 {
				t.Fatalf("%+v by %d: part %d has %d operations", p, n, i, mine.Times)
			}
			next, concurrency, rate = next+mine.Times, concurrency+mine.Concurrency, rate+mine.Rate
			if (mine.Rate > 0) != (p.Rate > 0) || p.Rate > 0 && math.Abs(mine.Lag.D().Seconds()-float64(i)/p.Rate) > 1e-6 {
				t.Fatalf("%+v by %d: part %d is %+v", p, n, i, mine)
			}
		}
		if next != first+p.Times || concurrency != p.Concurrency || math.Abs(rate-p.Rate) > 1e-6*p.Rate {
			t.Fatalf("%+v by %d: operations up to %d, concurrency %d, rate %g", p, n, next, concurrency, rate)
		}
	}
}

// TestHistogramsMergeExactly checks that histograms that were counted in parts, sent and merged equal a single
// histogram: every count, and so every quantile.
func TestHistogramsMergeExactly(t *testing.T) {
	rand := seeded(t)
	for range 50 {
		one, merged := newHistogram(), newHistogram()
		for range 1 + rand.IntN(8) {
			part := newHistogram()
			for range rand.IntN(2000) {
				took := time.Duration(math.Exp(rand.Float64() * math.Log(float64(30*time.Hour))))
				one.add(took)
				part.add(took)
			}
			sent, err := part.send()
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(sent)
			if err != nil {
				t.Fatal(err)
			}
			var arrived sentHistogram
			if err := json.Unmarshal(text, &arrived); err != nil {
				t.Fatal(err)
			}
			received, err := arrived.receive()
			if err == nil {
				err = merged.merge(received)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !one.counts.Equals(merged.counts) || one.max != merged.max || one.latency() != merged.latency() {
			t.Fatalf("%+v, merged %+v", one.latency(), merged.latency())
		}
	}
	other, err := hdrhistogram.New(1, 1000, 2).Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "nonsense", string(other)} {
		if _, err := (sentHistogram{Counts: bad}).receive(); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// inProcess is a crew whose workers are goroutines. The test decides what happens to a worker's end.
type inProcess struct {
	mu    sync.Mutex
	works []leak.Work
	// stop ends the work of a worker when it has begun, after changes how it ended.
	stop  func(worker int, stop func())
	after func(worker int, end *leak.WorkerEnd)
}

func (c *inProcess) RunWorkers(ctx context.Context, w leak.Work) ([]leak.WorkerEnd, error) {
	c.mu.Lock()
	c.works = append(c.works, w)
	c.mu.Unlock()
	ends := make([]leak.WorkerEnd, w.Workers)
	errs := make([]error, w.Workers)
	var ready, all sync.WaitGroup
	ready.Add(w.Workers)
	for i := range ends {
		all.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			begin := func(context.Context) error {
				ready.Done()
				ready.Wait()
				if c.stop != nil {
					c.stop(i, cancel)
				}
				return nil
			}
			ends[i].Result, errs[i] = Work(ctx, w.Order, i, "", begin)
			if c.after != nil {
				c.after(i, &ends[i])
			}
		})
	}
	all.Wait()
	return ends, errors.Join(errs...)
}

// TestSpreadProgram checks that invocations of a program are numbered and counted over workers as in leakrig, each
// with its number of operations. Those of a lost worker count as failed.
func TestSpreadProgram(t *testing.T) {
	c := commandKind.New().(*Command)
	seen := filepath.Join(t.TempDir(), "seen")
	c.Shell, c.Times, c.Concurrency, c.Operations = "echo $URL $OP >>"+seen+"; [ $OP -ne 47 ]", 10, 6, 3
	c.Rules = []leak.PolicyRule{{Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	target := leak.Target{InCluster: func(context.Context) (string, error) { return "http://subject", nil }}
	crew := &inProcess{}
	tally, err := c.Spread(t.Context(), target, 41, 3, crew)
	if err != nil {
		t.Fatal(err)
	}
	if tally.Attempted != 30 || tally.Succeeded != 27 || tally.Failed != 3 || tally.Errors[0].Count != 3 {
		t.Errorf("%+v", tally)
	}
	next := 41
	for _, w := range tally.Workers {
		if w.First != next || w.Attempted != w.Operations {
			t.Errorf("%+v", tally.Workers)
		}
		next += w.Operations
	}
	var want []string
	for op := 41; op < 71; op += 3 {
		want = append(want, fmt.Sprintf("http://subject %d", op))
	}
	text, err := os.ReadFile(seen)
	if got := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("%q, %v", got, err)
	}
	if rules := crew.works[0].Rules; len(rules) != 1 || rules[0].Resources[0] != "secrets" {
		t.Errorf("%+v", rules)
	}

	tally, err = c.Spread(t.Context(), target, 41, 3, &inProcess{after: func(i int, end *leak.WorkerEnd) {
		if i == 0 {
			end.Result, end.Lost = nil, "killed"
		}
	}})
	if first := tally.Workers[0]; err != nil || tally.Attempted != 30 || tally.Failed != first.Operations || first.Operations == 0 || first.Operations%3 != 0 {
		t.Errorf("%+v, %v", tally, err)
	}
}

// From any number of workers the subject sees the very operations that it sees from leakrig, and the tally
// counts each of them once.
func TestSpreadIsTheWhole(t *testing.T) {
	for _, workers := range []int{1, 2, 4, 7} {
		var mu sync.Mutex
		var seen []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r.URL.RawQuery+" "+r.Header.Get("X-Op"))
			if len(seen)%10 == 0 {
				http.Error(w, "no", http.StatusTeapot)
			}
		}))
		defer server.Close()
		p := postKind.New().(*Post)
		p.Path, p.Headers, p.Body, p.Times, p.Concurrency, p.Rate = "/w?{{.Op}}", map[string]string{"X-Op": "n{{.Op}}"}, "body", 100, 8, 1000
		target := leak.Target{URL: "http://127.0.0.1:1", InCluster: func(context.Context) (string, error) { return server.URL, nil }}
		tally, err := p.Spread(t.Context(), target, 41, workers, &inProcess{})
		if err != nil {
			t.Fatal(err)
		}
		if tally.Attempted != 100 || tally.Succeeded != 90 || tally.Failed != 10 || len(tally.Errors) != 1 || tally.Errors[0].Count != 10 || !strings.Contains(tally.Errors[0].Message, "418") {
			t.Errorf("%d workers: %+v", workers, tally)
		}
		var want []string
		for op := 41; op <= 140; op++ {
			want = append(want, fmt.Sprintf("%d n%d", op, op))
		}
		slices.Sort(want)
		slices.Sort(seen)
		if !slices.Equal(seen, want) {
			t.Errorf("%d workers: the subject saw %d: %v", workers, len(seen), seen)
		}
		sum, next := 0, 41
		for _, w := range tally.Workers {
			if w.First != next || w.Attempted != w.Operations || w.Lost != "" || w.Latency.Max <= 0 || w.Latency.Max > tally.Latency.Max {
				t.Errorf("%d workers: %+v", workers, w)
			}
			sum, next = sum+w.Succeeded, next+w.Operations
		}
		if sum != 90 || len(tally.Workers) != workers {
			t.Errorf("%d workers: %+v", workers, tally.Workers)
		}
	}
}

// With workers, too, every replica gets its turns and has its own tally, in the order of the target's list.
func TestSpreadReplicas(t *testing.T) {
	target, counts := replicas(t, 3)
	for i := range target.Replicas {
		url := target.Replicas[i].URL
		target.Replicas[i].InCluster = func(context.Context) (string, error) { return url, nil }
	}
	p := postKind.New().(*Post)
	p.Path, p.Times, p.Concurrency = "/", 11, 4
	lost := &inProcess{after: func(worker int, end *leak.WorkerEnd) {
		if worker == 1 { // with operations 4 to 6: one for each replica
			end.Result, end.Lost = nil, "gone"
		}
	}}
	tally, err := p.Spread(t.Context(), target, 1, 4, lost)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{4, 4, 3} {
		share := tally.Shares[i]
		if got := int(counts[i].Load()); got != want || share.Attempted != want || share.Succeeded+share.Failed != want {
			t.Errorf("replica %d got %d operations, its tally is %+v", i, got, share)
		}
		if share.Errors[0].Message != "worker 2 of 4 lost: gone" || share.Errors[0].Count != 1 {
			t.Errorf("replica %d: %+v", i, share.Errors)
		}
	}
	if tally.Attempted != 11 || tally.Failed != 1+1+1+2 {
		t.Errorf("%+v", tally)
	}
}

// TestSpreadLosesWorkers checks that a lost worker never reduces the load silently: operations that it did not report
// count as failed under its name, and reported ones count.
func TestSpreadLosesWorkers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	target := leak.Target{InCluster: func(context.Context) (string, error) { return server.URL, nil }}
	p := postKind.New().(*Post)
	p.Path, p.Times, p.Concurrency = "/", 10, 4
	for _, c := range []struct {
		comment           string
		crew              *inProcess
		succeeded, failed int
		worker            leak.WorkerTally
		message           string
	}{
		{
			"killed",
			&inProcess{after: func(i int, end *leak.WorkerEnd) {
				if i == 1 {
					end.Result, end.Lost = nil, "OOMKilled, exit code 137"
				}
			}},
			7, 3,
			leak.WorkerTally{First: 3, Operations: 3, Lost: "OOMKilled, exit code 137"},
			"worker 2 of 4 lost: OOMKilled, exit code 137",
		},
		{
			"stopped before it could begin with anything",
			&inProcess{stop: func(i int, stop func()) {
				if i == 3 {
					stop()
				}
			}, after: func(i int, end *leak.WorkerEnd) {
				if i == 3 {
					end.Lost = "EvictionByEvictionAPI: evicting"
				}
			}},
			7, 3,
			leak.WorkerTally{First: 8, Operations: 3, Lost: "EvictionByEvictionAPI: evicting"},
			"worker 4 of 4 lost: EvictionByEvictionAPI: evicting",
		},
	} {
		tally, err := p.Spread(t.Context(), target, 1, 4, c.crew)
		if err != nil {
			t.Fatalf("%s: %v", c.comment, err)
		}
		if tally.Attempted != 10 || tally.Succeeded != c.succeeded || tally.Failed != c.failed || len(tally.Errors) != 1 || tally.Errors[0] != (leak.ErrorCount{Message: c.message, Count: c.failed, Lost: true}) {
			t.Errorf("%s: %+v", c.comment, tally)
		}
		i := slices.IndexFunc(tally.Workers, func(w leak.WorkerTally) bool { return w.Lost != "" })
		if i < 0 {
			t.Fatalf("%s: no worker is lost: %+v", c.comment, tally.Workers)
		}
		got := tally.Workers[i]
		got.Seconds = 0
		if got != c.worker {
			t.Errorf("%s: %+v", c.comment, got)
		}
	}
}

// TestSpreadStoppedWorker checks that a worker that is stopped during its work reports its progress.
func TestSpreadStoppedWorker(t *testing.T) {
	var stop func()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "9" { // the second of the last worker's three
			stop()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	p := postKind.New().(*Post)
	p.Path, p.Times, p.Concurrency = "/?{{.Op}}", 10, 4
	tally, err := p.Spread(t.Context(), leak.Target{InCluster: func(context.Context) (string, error) { return server.URL, nil }}, 1, 4, &inProcess{
		stop: func(i int, cancel func()) {
			if i == 3 {
				stop = cancel
			}
		},
		after: func(i int, end *leak.WorkerEnd) {
			if i == 3 {
				end.Lost = "evicted"
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []leak.ErrorCount{{Message: "worker 4 of 4 lost: evicted", Count: 1, Lost: true}, {Message: "context canceled", Count: 1}}
	if tally.Attempted != 10 || tally.Succeeded != 8 || tally.Failed != 2 || !slices.Equal(tally.Errors, want) {
		t.Errorf("%+v", tally)
	}
	if w := tally.Workers[3]; w.Operations != 3 || w.Attempted != 2 || w.Succeeded != 1 || w.Lost != "evicted" {
		t.Errorf("%+v", w)
	}
}

// TestSpreadRefuses checks that an implausible report is an error, and so is a worker that could not run its load.
func TestSpreadRefuses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := postKind.New().(*Post)
	p.Path, p.Times, p.Concurrency = "/", 10, 4
	there := leak.Target{InCluster: func(context.Context) (string, error) { return server.URL, nil }}
	change := func(f func(*result)) *inProcess {
		return &inProcess{after: func(i int, end *leak.WorkerEnd) {
			var r result
			if i != 2 || json.Unmarshal(end.Result, &r) != nil {
				return
			}
			f(&r)
			end.Result, _ = json.Marshal(r)
		}}
	}
	for _, c := range []struct {
		comment, want string
		target        leak.Target
		crew          *inProcess
	}{
		{"no way to the subject", "no address in the cluster", leak.Target{URL: server.URL}, &inProcess{}},
		{"less than its part, and not lost", "worker 3 of 4: it performed 0 operations", there, change(func(r *result) {
			none, _ := newTallying().send()
			r.All = &none
		})},
		{"another format", "format 7", there, change(func(r *result) { r.Format = 7 })},
		{"sums that do not add up", "worker 3 of 4: result: ", there, change(func(r *result) { r.All.Succeeded-- })},
		{"an error", "worker 3 of 4: list pods: no", there, change(func(r *result) { *r = result{Format: orderFormat, Error: "list pods: no", Hint: "ask"} })},
		{"replicas from nowhere", "reports 1 replicas instead of 0", there, change(func(r *result) { r.Shares = []sentTallying{*r.All} })},
	} {
		if tally, err := p.Spread(t.Context(), c.target, 1, 4, c.crew); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v %v", c.comment, tally, err)
		}
	}
	p.Body = strings.Repeat("x", leak.MaxOrder)
	if _, err := p.Spread(t.Context(), there, 1, 4, &inProcess{}); err == nil || leak.Hint(err) == "" {
		t.Errorf("a body that no object holds: %v", err)
	}
}

// TestOrders checks that an order contains the decoded action of any kind, with the part in its place.
func TestOrders(t *testing.T) {
	timeout := leak.Duration(7 * time.Second)
	for kind, a := range map[string]spreadable{
		"post": &Post{Method: "PUT", Path: "/p", Headers: map[string]string{"A": "b"}, Body: "x{{.Op}}", pace: pace{Times: 9, Concurrency: 3, Timeout: timeout}, Status: 201, Answer: "y"},
		"exec": &Exec{
			Command: []string{"ls", "{{.Op}}"}, podsOf: podsOf{"n", "a=b"}, Container: "c", Stdin: "i", TTY: true, Protocol: "spdy",
			pace: pace{Times: 9, Concurrency: 3, Timeout: timeout}, expected: expected{3, "out"},
		},
		"command": &Command{
			Argv: []string{"k6", "{{.Op}}"}, Operations: 2, podsOf: podsOf{"n", "a=b"}, Rules: []leak.PolicyRule{{Resources: []string{"pods"}, Verbs: []string{"get"}}},
			pace: pace{Times: 9, Concurrency: 3, Timeout: timeout}, expected: expected{3, "out"},
		},
		"watch": &Watch{Template: "t", End: "abandon", pace: pace{Times: 9, Concurrency: 3, Timeout: timeout}},
		"churn": &Churn{Template: "t", Lifetime: leak.Duration(time.Second), pace: pace{Times: 9, Concurrency: 3, Timeout: timeout}},
	} {
		target := leak.Target{Namespace: "run", Selector: "app=s", InCluster: func(context.Context) (string, error) { return "http://10.0.0.1:80", nil }}
		text, err := newOrder(t.Context(), kind, a, target, []part{{First: 5, Times: 9, Concurrency: 3}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"timeout":"7s"`) || strings.Contains(string(text), "Timeout") {
			t.Errorf("%s: not as in a scenario: %s", kind, text)
		}
		got, o, err := readOrder(text, 0)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if !reflect.DeepEqual(got, a) {
			t.Errorf("%s: %+v became %+v", kind, a, got)
		}
		to := o.target(o.Parts[0], "/kubeconfig")
		if url := map[bool]string{true: "http://10.0.0.1:80"}[kind == "post" || kind == "command"]; to.URL != url || to.Namespace != "run" || to.Selector != "app=s" || to.Kubeconfig != "/kubeconfig" || to.Replicas != nil {
			t.Errorf("%s: %+v", kind, to)
		}
		for _, bad := range []string{"", "{}", `{"format":7}`, strings.Replace(string(text), `"kind":"`+kind, `"kind":"nosuch`, 1), strings.Replace(string(text), `"format"`, `"more":1,"format"`, 1), strings.Replace(string(text), `"timeout"`, `"tiemout"`, 1)} {
			if _, _, err := readOrder([]byte(bad), 0); err == nil {
				t.Errorf("%s: %q was taken", kind, bad)
			}
		}
		if _, _, err := readOrder(text, 1); err == nil {
			t.Errorf("%s: no second worker", kind)
		}
	}
}

// A worker may do what its action needs, and nothing else.
func TestWorkerRules(t *testing.T) {
	names := func(rules []leak.WorkerRule, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, r := range rules {
			all = append(all, fmt.Sprint(r.Namespace, r.APIGroups, r.Resources, r.Verbs))
		}
		return strings.Join(all, " ")
	}
	target := leak.Target{Namespace: "run"}
	for _, c := range []struct{ got, want string }{
		{names((&Post{}).rules(t.Context(), target)), ""},
		{names((&Command{Rules: []leak.PolicyRule{{Resources: []string{"secrets"}, Verbs: []string{"get"}}}}).rules(t.Context(), target)), "[] [secrets] [get]"},
		{names((&Command{podsOf: podsOf{"web", "a=b"}, Rules: []leak.PolicyRule{{Resources: []string{"secrets"}, Verbs: []string{"get"}}}}).rules(t.Context(), target)), "web[] [secrets] [get] web[] [pods] [list]"},
		{names((&Exec{Protocol: protocolWebSocket}).rules(t.Context(), target)), "run[] [pods] [list] run[] [pods/exec] [create get]"},
		{names((&Exec{Protocol: protocolSPDY, podsOf: podsOf{"web", "a=b"}}).rules(t.Context(), target)), "web[] [pods] [list] web[] [pods/exec] [create]"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func TestLimit(t *testing.T) {
	p := pace{Times: 10, Concurrency: 4, Timeout: leak.Duration(time.Minute)}
	if got := p.limit(p.split(1, 2)); got < 3*time.Minute || got > 5*time.Minute {
		t.Errorf("three minutes of load may take %s", got)
	}
	// One of these has an operation at a time, the others two.
	uneven := pace{Times: 100, Concurrency: 7, Timeout: leak.Duration(time.Minute)}
	for _, mine := range uneven.split(1, 4) {
		if got, all := uneven.limit(uneven.split(1, 4)), time.Duration(mine.Times/mine.Concurrency)*time.Minute; got < all || got > all+4*time.Minute {
			t.Errorf("%+v takes %s, may take %s", mine, all, got)
		}
	}
	p = pace{Times: maxTimes, Concurrency: 1, Timeout: leak.Duration(1000 * time.Hour)}
	if got := p.limit(p.split(1, 1)); got != 30*24*time.Hour {
		t.Errorf("no end: %s", got)
	}
}

// TestResultWithoutCount checks that causes reported by a worker have a count each.
func TestResultWithoutCount(t *testing.T) {
	done := &outcome{all: newTallying(), took: time.Second}
	done.all.errs = map[string]*leak.ErrorCount{"x": nil}
	sent, err := json.Marshal(newResult(done, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readResult(leak.WorkerEnd{Result: sent}); err == nil || !strings.Contains(err.Error(), "without a count: x") {
		t.Errorf("%v", err)
	}
}
