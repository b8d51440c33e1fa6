package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// server is a subject on loopback that counts its open connections.
type server struct {
	leak.Target
	open atomic.Int64
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	hs := httptest.NewUnstartedServer(h)
	hs.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.open.Add(-1)
		}
	}
	hs.Start()
	t.Cleanup(hs.Close)
	s.Target = leak.Target{URL: hs.URL, Transport: func() http.RoundTripper { return &http.Transport{} }}
	return s
}

// post is a Post with its defaults, as a scenario would change it.
func post(change func(*Post)) *Post {
	p := postKind.New().(*Post)
	p.Path = "/work/{{.Op}}"
	change(p)
	return p
}

// run runs p, which must leave no connection on the server and add up.
func run(t *testing.T, p *Post, s *server, first int) leak.Tally {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	tally, err := p.Run(t.Context(), s.Target, first)
	if err != nil {
		t.Fatal(err)
	}
	if tally.Attempted != tally.Succeeded+tally.Failed {
		t.Errorf("%d attempted, %d succeeded, %d failed", tally.Attempted, tally.Succeeded, tally.Failed)
	}
	eventually(t, func() string {
		if n := s.open.Load(); n != 0 {
			return fmt.Sprintf("%d connections were left behind", n)
		}
		return ""
	})
	return tally
}

// eventually polls until ok returns "", and fails with what it returned last.
func eventually(t *testing.T, ok func() string) {
	t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for {
		why := ok()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(why)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// seen collects the requests of a server.
type seen struct {
	mu       sync.Mutex
	ops      []int
	now, top int
}

// begin returns how many requests there were.
func (s *seen) begin(op int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, op)
	s.now++
	s.top = max(s.top, s.now)
	return len(s.ops)
}

func (s *seen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
}

// numbers checks that the operations are first, first+1, ... without a gap or a repetition.
func (s *seen) numbers(t *testing.T, first, n int) {
	t.Helper()
	slices.Sort(s.ops)
	for i, op := range s.ops {
		if op != first+i {
			t.Fatalf("operation %d where %d was due", op, first+i)
		}
	}
	if len(s.ops) != n {
		t.Errorf("%d operations, want %d", len(s.ops), n)
	}
}

func opOf(r *http.Request) int {
	op, _ := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	return op
}

// TestPostOperations checks that each operation is sent once, with the given concurrency: the server blocks requests
// until that many have arrived.
func TestPostOperations(t *testing.T) {
	for _, c := range []struct{ times, concurrency, first int }{
		{1, 1, 1},     // the defaults
		{20, 1, 1},    // one after the other
		{60, 10, 101}, // a later round
		{5, 50, 7},    // fewer operations than could be under way at once
	} {
		var got seen
		together := min(c.times, c.concurrency)
		arrived := make(chan struct{}, c.times)
		full := sync.OnceFunc(func() {
			for range together {
				<-arrived
			}
		})
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			got.begin(opOf(r))
			arrived <- struct{}{}
			full()
			got.end()
		})
		tally := run(t, post(func(p *Post) { p.Times, p.Concurrency = c.times, c.concurrency }), s, c.first)
		got.numbers(t, c.first, c.times)
		if tally.Attempted != c.times || tally.Succeeded != c.times || len(tally.Errors) != 0 {
			t.Errorf("%+v: %+v", c, tally)
		}
		if got.top != together {
			t.Errorf("%+v: %d at once, want %d", c, got.top, together)
		}
	}
}

// Connections are used again within a round: a new one for each operation would be another load.
func TestPostReusesConnections(t *testing.T) {
	var mu sync.Mutex
	clients := map[string]bool{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		clients[r.RemoteAddr] = true
		mu.Unlock()
		fmt.Fprint(w, strings.Repeat("x", 100<<10))
	})
	run(t, post(func(p *Post) { p.Times = 30 }), s, 1)
	if len(clients) != 1 {
		t.Errorf("%d connections for 30 operations one after the other", len(clients))
	}
}

// Through a port-forward the subject must close the connections, since it sees late that this side did.
func TestPostHasConnectionsClosed(t *testing.T) {
	var opened atomic.Int64
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "7") {
			time.Sleep(time.Millisecond) // the lanes are not in step
		}
	})
	s.Transport = func() http.RoundTripper {
		return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			opened.Add(1)
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return deafConn{conn}, err
		}}
	}
	run(t, post(func(p *Post) { p.Times, p.Concurrency = 200, 4 }), s, 1)
	if n := opened.Load(); n != 4 {
		t.Errorf("%d connections for 200 operations, four at a time", n)
	}
}

// deafConn does not pass on that this side closes it.
type deafConn struct{ net.Conn }

func (deafConn) Close() error { return nil }

func TestPostRequest(t *testing.T) {
	type request struct{ method, path, query, host, header, agent, body string }
	requests := make(chan request, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Method, r.URL.Path, r.URL.RawQuery, r.Host, r.Header.Get("X-Op"), r.Header.Get("Content-Type"), string(body)}
		w.WriteHeader(http.StatusCreated)
	})
	p := post(func(p *Post) {
		p.Method, p.Path, p.Status = http.MethodPut, "/a b/{{.Op}}?name=op-{{.Op}}", http.StatusCreated
		p.Headers = map[string]string{"x-op": "nr {{.Op}}", "Content-Type": "application/json", "host": "op-{{.Op}}.test"}
		p.Body = `{"op": {{.Op}}, "next": {{len (print .Op)}}}`
	})
	tally := run(t, p, s, 41)
	want := request{"PUT", "/a b/41", "name=op-41", "op-41.test", "nr 41", "application/json", `{"op": 41, "next": 2}`}
	if got := <-requests; got != want || tally.Succeeded != 1 {
		t.Errorf("got  %+v\nwant %+v (%+v)", got, want, tally.Errors)
	}
}

// TestPostAnswer checks that an expected response of any length is a success.
func TestPostAnswer(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"unscheduled":null}`, strings.Repeat(" ", maxBody))
	})
	tally := run(t, post(func(p *Post) { p.Answer = `"unscheduled": *null` }), s, 1)
	if tally.Succeeded != 1 {
		t.Errorf("%+v", tally)
	}
}

// TestPostFailures checks that every kind of failure is a failed operation, counted under one message for all
// operations.
func TestPostFailures(t *testing.T) {
	const times = 12
	for _, c := range []struct {
		name   string
		serve  http.HandlerFunc
		change func(*Post)
		want   string
	}{
		{"another status, with a different body each", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no room for op "+r.URL.Path, http.StatusInsufficientStorage)
		}, nil, "status 507, want 200: no room for op /work/"},
		{"another status, without a body", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
		}, nil, "status 204, want 200"},
		{"another status, with an endless body", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("x", 1000))
			}
		}, nil, "status 500, want 200: xxx"},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/work/") {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}
		}, nil, "status 302, want 200"},
		{
			"no answer in time", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(p *Post) { p.Timeout = leak.Duration(30 * time.Millisecond) }, "timed out",
		},
		{"no end of the answer in time", func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, func(p *Post) { p.Timeout = leak.Duration(30 * time.Millisecond) }, "timed out"},
		{"a hang-up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, "EOF"},
		{"a reset", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
		}, nil, "connection reset by peer"},
		{"an answer cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "short")
		}, nil, "unexpected EOF"},
		{
			"an answer that says otherwise", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"unscheduled":["web-1"]}`) },
			func(p *Post) { p.Answer = `"unscheduled":null` }, `the answer does not match "unscheduled":null: {"unscheduled":["web-1"]}`,
		},
		{"an answer cut short before it matches", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "short")
		}, func(p *Post) { p.Answer = "short" }, "unexpected EOF"},
		{
			"a path that is none", func(http.ResponseWriter, *http.Request) {},
			func(p *Post) { p.Path = "/work/%zz{{.Op}}" }, `invalid URL escape "%zz"`,
		},
		{
			"a header that is none", func(http.ResponseWriter, *http.Request) {},
			func(p *Post) { p.Headers = map[string]string{"a b": ""} }, "net/http: invalid header field name",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.serve)
			tally := run(t, post(func(p *Post) {
				p.Times, p.Concurrency = times, 4
				if c.change != nil {
					c.change(p)
				}
			}), s, 1)
			if tally.Attempted != times || tally.Failed != times {
				t.Errorf("%+v", tally)
			}
			if e := tally.Errors; len(e) != 1 || e[0].Count != times || !strings.HasPrefix(e[0].Message, c.want) {
				t.Errorf("errors %+v, want one like %q", e, c.want)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		s := &server{Target: leak.Target{URL: "http://" + l.Addr().String(), Transport: func() http.RoundTripper { return &http.Transport{} }}}
		tally := run(t, post(func(p *Post) { p.Times = times }), s, 1)
		if want := []leak.ErrorCount{{Message: "connection refused", Count: times}}; !slices.Equal(tally.Errors, want) || tally.Failed != times {
			t.Errorf("%+v", tally)
		}
	})
}

// TestPostErrorsMixed checks that different failures are sorted by frequency, and that only the first few are listed.
func TestPostErrorsMixed(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		// 500 for the tens, 501 to 508 for the rest: seven messages, 500 is seen most.
		switch op := opOf(r); {
		case op%2 == 0:
			w.WriteHeader(500)
		case op <= 15:
			w.WriteHeader(500 + op%8)
		}
	})
	tally := run(t, post(func(p *Post) { p.Times, p.Concurrency = 20, 3 }), s, 1)
	if tally.Failed != 18 || tally.Succeeded != 2 || len(tally.Errors) != 5 {
		t.Fatalf("%+v", tally)
	}
	want := []leak.ErrorCount{{Message: "status 500, want 200", Count: 10}, {Message: "status 501, want 200", Count: 2}, {Message: "status 503, want 200", Count: 2}}
	if !slices.Equal(tally.Errors[:3], want) {
		t.Errorf("%+v", tally.Errors)
	}
}

// TestPostRate checks that the average rate does not depend on the duration of single operations: the schedule does
// not drift.
func TestPostRate(t *testing.T) {
	const times, rate = 40, 200.0
	var got seen
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got.begin(opOf(r))
		time.Sleep(8 * time.Millisecond) // longer than the 5 ms between two operations
		got.end()
	})
	tally := run(t, post(func(p *Post) { p.Times, p.Concurrency, p.Rate = times, 8, rate }), s, 1)
	got.numbers(t, 1, times)
	// The last one starts after 195 ms. Were each late by as little as 8 ms, it would take 500.
	least := (times - 1) / rate
	if tally.Seconds < least || tally.Seconds > least+2 {
		t.Errorf("%d operations at %v/s took %.3fs, want %.3fs", times, rate, tally.Seconds, least)
	}
}

// The schedule alone, without a clock to be late by.
func TestPaceIsOnSchedule(t *testing.T) {
	p := pace{Rate: 1000}
	start := time.Now()
	for i := range 100 {
		if !p.waitFor(t.Context(), start, i) {
			t.Fatal("the context has not ended")
		}
		if due := start.Add(time.Duration(i) * time.Millisecond); time.Now().Before(due) {
			t.Fatalf("operation %d started before it was due", i)
		}
	}
	// One that is late does not wait, and does not move the next one.
	late := time.Now()
	p.waitFor(t.Context(), start.Add(-time.Hour), 5)
	if d := time.Since(late); d > 5*time.Second {
		t.Errorf("an operation that is late waited %s", d)
	}
}

// An interrupt ends the round: operations under way fail, those not yet started are not attempted.
func TestPostCancelled(t *testing.T) {
	for _, c := range []struct {
		name string
		rate float64
	}{{"all workers busy", 0}, {"waiting for the next one to be due", 0.5}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var got seen
			release := make(chan struct{})
			defer close(release)
			concurrency := 3
			if c.rate > 0 {
				concurrency = 1
			}
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				if got.begin(opOf(r)) == concurrency {
					cancel(errors.New("the subject died"))
				}
				<-release
			})
			p := post(func(p *Post) { p.Times, p.Concurrency, p.Rate = 1000, 3, c.rate })
			tally, err := p.Run(ctx, s.Target, 1)
			if err != nil {
				t.Fatal(err)
			}
			if tally.Attempted != concurrency || tally.Failed != concurrency {
				t.Errorf("%d reached the server; %+v", concurrency, tally)
			}
			got.numbers(t, 1, concurrency)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request after the end") })
	tally, err := post(func(p *Post) { p.Times = 10 }).Run(ctx, s.Target, 1)
	if err != nil || tally.Attempted != 0 || tally.Latency != (leak.Latency{}) {
		t.Errorf("cancelled before the start: %+v, %v", tally, err)
	}
}

func TestPostValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Post)
		want   string // the fields, in order
	}{
		{"the defaults, and a path", func(*Post) {}, ""},
		{"everything at once", func(p *Post) {
			*p = Post{Path: "work", pace: pace{Rate: -1}, Body: "{{", BodyFile: "b", Headers: map[string]string{"A": "{{.Opp}}"}}
		}, "path method times concurrency rate timeout status bodyFile body headers"},
		{"another address is not a path", func(p *Post) { p.Path = "http://elsewhere/work" }, "path"},
		{"a misspelt field", func(p *Post) { p.Path = "/{{.op}}" }, "path"},
		{"a function that does not exist", func(p *Post) { p.Body = "{{env}}" }, "body"},
		{"a method in lower case", func(p *Post) { p.Method = "post" }, "method"},
		{"a method with a line end", func(p *Post) { p.Method = "GET\r\n" }, "method"},
		{"too many", func(p *Post) { p.Times, p.Concurrency = maxTimes+1, maxConcurrency+1 }, "times concurrency"},
		{"the maximum", func(p *Post) { p.Times, p.Concurrency, p.Rate = maxTimes, maxConcurrency, maxTimes }, ""},
		{"a rate that is none", func(p *Post) { p.Rate = math.NaN() }, "rate"},
		{"an endless rate", func(p *Post) { p.Rate = math.Inf(1) }, "rate"},
		// So late that the time of the second operation could not be reckoned.
		{"a rate of one in 300 years", func(p *Post) { p.Rate = 1e-10 }, "rate"},
		{"the slowest rate", func(p *Post) { p.Rate = minRate }, ""},
		{"a negative timeout", func(p *Post) { p.Timeout = -1 }, "timeout"},
		{"no such status", func(p *Post) { p.Status = 99 }, "status"},
		{"an answer that is not an expression", func(p *Post) { p.Answer = "(" }, "answer"},
	} {
		problemFields(t, c.name, post(c.change).Validate(), c.want)
	}
}

// problemFields checks which fields err finds fault with, in order.
func problemFields(t *testing.T, name string, err error, want string) {
	t.Helper()
	var fields []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			var f *leak.FieldError
			if !errors.As(e, &f) || f.Problem == "" {
				t.Errorf("%s: %v is not a problem of a field", name, e)
				continue
			}
			fields = append(fields, f.Field)
		}
	}
	if got := strings.Join(fields, " "); got != want || (err == nil) != (want == "") {
		t.Errorf("%s: problems of %q, want %q (%v)", name, got, want, err)
	}
}

func TestPostPrepare(t *testing.T) {
	outside := t.TempDir()
	if err := errors.Join(os.Mkdir(outside+"/scenario", 0o700), os.WriteFile(outside+"/secret", []byte("s"), 0o600)); err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{
		"body.json":    {Data: []byte(`{"op": {{.Op}}}`)},
		"sub/body":     {Data: []byte("below")},
		"large":        {Data: make([]byte, maxBody+1)},
		"bad.template": {Data: []byte("{{.Opp}}")},
	}
	for _, c := range []struct{ name, file, body, want string }{
		{"none", "", "unchanged", ""},
		{"next to the scenario", "body.json", `{"op": {{.Op}}}`, ""},
		{"below it", "sub/body", "below", ""},
		{"missing", "body.yaml", "", "not exist"},
		{"a folder", "sub", "", "sub"},
		{"above it", "../secret", "", "not exist"},
		{"somewhere else", "/etc/passwd", "", "not exist"},
		{"too large", "large", "", "larger than 16 MiB"},
		{"a misspelt field", "bad.template", "", "bad.template"},
	} {
		p := post(func(p *Post) { p.BodyFile = c.file })
		if c.file == "" {
			p.Body = "unchanged"
		}
		err := p.Prepare(files)
		if c.want == "" {
			if err != nil || p.Body != c.body {
				t.Errorf("%s: %q, %v", c.name, p.Body, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), "bodyFile: ") || !strings.Contains(err.Error(), c.want) || p.Body != "" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// The folder of a scenario file on disk, as package scenarios opens it.
	p := post(func(p *Post) { p.BodyFile = "../secret" })
	if err := p.Prepare(os.DirFS(outside + "/scenario")); err == nil || leak.Hint(err) == "" {
		t.Errorf("out of a real folder: %q, %v", p.Body, err)
	}
}

// Latencies are by nearest rank, to three figures, and their maximum is exact.
func TestLatency(t *testing.T) {
	if got := newHistogram().latency(); got != (leak.Latency{}) {
		t.Errorf("of nothing: %+v", got)
	}
	for _, n := range []int{1, 2, 3, 9, 10, 11, 99, 100, 101, 999, 1000, 12345} {
		took := newHistogram()
		for i := range n {
			took.add(time.Duration(n-i) * time.Second) // 1s to n seconds, the slowest first
		}
		got := took.latency()
		// Nearest rank: the ⌈n·q⌉-th, reckoned in whole numbers.
		want := leak.Latency{P50: float64((n + 1) / 2), P90: float64((9*n + 9) / 10), P99: float64((99*n + 99) / 100), Max: float64(n)}
		near := func(got, want float64) bool { return got >= want && got <= want*1.001 && got <= float64(n) }
		if !near(got.P50, want.P50) || !near(got.P90, want.P90) || !near(got.P99, want.P99) || got.Max != want.Max {
			t.Errorf("of %d: %+v, want %+v", n, got, want)
		}
	}
}
