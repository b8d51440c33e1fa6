package load

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// watched is a server that notes how its requests end.
type watched struct {
	*server
	mu    sync.Mutex
	heard []string
}

func watchServer(t *testing.T) *watched {
	t.Helper()
	w := &watched{}
	note := func(what string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.heard = append(w.heard, what)
	}
	w.server = serve(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/upload":
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil && n > 0 && n < r.ContentLength {
				note("body cut")
			} else {
				note("whole body")
			}
		case "/slow":
			<-r.Context().Done()
			note("nobody waits")
		case "/stream":
			rw.WriteHeader(http.StatusOK)
			for r.Context().Err() == nil {
				if _, err := rw.Write(make([]byte, 1<<10)); err != nil {
					break
				}
			}
			note("answer cut")
		default:
			note("answered")
		}
	})
	return w
}

func cancel(change func(*Cancel)) *Cancel {
	c := cancelKind.New().(*Cancel)
	c.Path, c.Times, c.Concurrency, c.After = "/upload", 4, 4, leak.Duration(20*time.Millisecond)
	change(c)
	return c
}

// TestCancel checks what the server sees of each way to abandon a request, and that no connection is left.
func TestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		action *Cancel
		heard  string // "" if the server never sees a request
		fails  string
	}{
		"amid the headers": {cancel(func(c *Cancel) { c.At = atHeaders }), "", ""},
		"amid the body":    {cancel(func(*Cancel) {}), "body cut", ""},
		"amid a given body": {cancel(func(c *Cancel) {
			c.Body = strings.Repeat("{{.Op}}", 100)
		}), "body cut", ""},
		"by a reset":                  {cancel(func(c *Cancel) { c.Reset = true }), "body cut", ""},
		"while waiting":               {cancel(func(c *Cancel) { c.At, c.Path = atWait, "/slow" }), "nobody waits", ""},
		"amid the answer":             {cancel(func(c *Cancel) { c.At, c.Path = atAnswer, "/stream" }), "answer cut", ""},
		"an answer that is too fast":  {cancel(func(c *Cancel) { c.At, c.Path = atWait, "/" }), "answered", "answered before"},
		"a whole answer":              {cancel(func(c *Cancel) { c.At, c.Path = atAnswer, "/" }), "answered", "complete before"},
		"another status":              {cancel(func(c *Cancel) { c.At, c.Path, c.Status = atAnswer, "/", 101 }), "answered", "status 200, want 101"},
		"an answer that never begins": {cancel(func(c *Cancel) { c.At, c.Path, c.Timeout = atAnswer, "/slow", leak.Duration(100*time.Millisecond) }), "nobody waits", "timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := watchServer(t)
			if err := c.action.Validate(); err != nil {
				t.Fatal(err)
			}
			tally, err := c.action.Run(t.Context(), s.Target, 1)
			if err != nil || tally.Attempted != 4 {
				t.Fatalf("%+v, %v", tally, err)
			}
			if c.fails == "" && tally.Succeeded != 4 || c.fails != "" && (tally.Failed != 4 || !strings.Contains(tally.Errors[0].Message, c.fails)) {
				t.Errorf("%+v", tally)
			}
			deadline := time.Now().Add(20 * time.Second)
			for s.open.Load() > 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if n := s.open.Load(); n != 0 {
				t.Errorf("%d connections are left", n)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			want := 4
			if c.heard == "" {
				want = 0
			}
			if len(s.heard) != want {
				t.Errorf("%d requests: %q", len(s.heard), s.heard)
			}
			for _, heard := range s.heard {
				if heard != c.heard {
					t.Errorf("the server saw %q, want %q", heard, c.heard)
				}
			}
		})
	}
}

func TestCancelTargets(t *testing.T) {
	a, b := watchServer(t), watchServer(t)
	both := a.Target
	both.Replicas = []leak.Target{a.Target, b.Target}
	tally, err := cancel(func(*Cancel) {}).Run(t.Context(), both, 1)
	if err != nil || tally.Succeeded != 4 || len(tally.Shares) != 2 || tally.Shares[1].Succeeded != 2 {
		t.Errorf("%+v, %v", tally, err)
	}
	for _, bad := range []leak.Target{{URL: "https://127.0.0.1:1"}, {URL: "http://unix"}, {URL: "http://pod:80", Selector: "app=s"}} {
		if _, err := cancel(func(*Cancel) {}).Run(t.Context(), bad, 1); err == nil || leak.Hint(err) == "" {
			t.Errorf("%s: %v", bad.URL, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	start := time.Now()
	if tally, err := cancel(func(c *Cancel) { c.At, c.Path, c.After = atWait, "/slow", leak.Duration(20*time.Second) }).Run(ctx, a.Target, 1); err != nil || time.Since(start) > 10*time.Second {
		t.Errorf("interrupted: %+v, %v", tally, err)
	}
	for field, change := range map[string]func(*Cancel){
		"at":     func(c *Cancel) { c.At = "end" },
		"after":  func(c *Cancel) { c.After = c.Timeout },
		"path":   func(c *Cancel) { c.Path = "x" },
		"status": func(c *Cancel) { c.Status = 1 },
		"times":  func(c *Cancel) { c.Times = 0 },
	} {
		var problem *leak.FieldError
		if err := cancel(change).Validate(); !errors.As(err, &problem) || problem.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
