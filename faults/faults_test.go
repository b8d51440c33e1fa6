package faults

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// subject is a server on loopback that writes a large answer.
func subject(t testing.TB) leak.Target {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 64<<10))
	}))
	t.Cleanup(s.Close)
	return leak.Target{URL: s.URL}
}

// get sends one request on a new connection.
func get(url string, timeout time.Duration) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: timeout}
	start := time.Now()
	resp, err := client.Get(url)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	return time.Since(start), err
}

// TestNetwork checks the effect of each fault on real connections, and that nothing of it is left: after an injection,
// and after one that an interrupt cut short.
func TestNetwork(t *testing.T) {
	for fault, felt := range map[string]func(took time.Duration, err error) bool{
		faultCut:       func(_ time.Duration, err error) bool { return err != nil && strings.Contains(err.Error(), "refused") },
		faultReset:     func(_ time.Duration, err error) bool { return err != nil },
		faultHalfOpen:  func(_ time.Duration, err error) bool { var n net.Error; return errors.As(err, &n) && n.Timeout() },
		faultDelay:     func(took time.Duration, err error) bool { return err == nil && took >= 200*time.Millisecond },
		faultBandwidth: func(took time.Duration, err error) bool { return err == nil && took >= 300*time.Millisecond },
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			direct := subject(t)
			n := &Network{Fault: fault, timing: timing{Actions: []string{"post"}, For: leak.Duration(time.Hour)}}
			switch fault {
			case faultDelay:
				n.Delay = leak.Duration(200 * time.Millisecond)
			case faultBandwidth:
				n.Rate = 128 << 10
			}
			if err := n.Validate(); err != nil {
				t.Fatal(err)
			}
			injection, err := n.Begin(t.Context(), direct)
			if err != nil {
				t.Fatal(err)
			}
			through := injection.Target().URL
			if through == direct.URL {
				t.Fatal("the load does not go through the proxy")
			}
			if _, err := get(through, 20*time.Second); err != nil {
				t.Fatalf("before the injection: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var tally leak.Tally
			done := make(chan error, 1)
			go func() {
				var err error
				tally, err = injection.Inject(ctx)
				done <- err
			}()
			deadline := time.Now().Add(20 * time.Second)
			for {
				took, err := get(through, 2*time.Second)
				if felt(took, err) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("never felt: the last request took %s, %v", took, err)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if tally.Attempted != 1 || tally.Succeeded != 1 || !strings.Contains(tally.Fault, fault) {
				t.Errorf("%+v", tally)
			}
			if took, err := get(through, 20*time.Second); err != nil || felt(took, err) && took > 15*time.Second {
				t.Errorf("after the undo: %s, %v", took, err)
			}
			if err := injection.End(); err != nil {
				t.Fatal(err)
			}
			if _, err := get(through, 5*time.Second); err == nil {
				t.Error("the proxy is left")
			}
			if _, err := get(direct.URL, 20*time.Second); err != nil {
				t.Errorf("the subject: %v", err)
			}
		})
	}
}

// TestNetworkReplicas checks that each replica has its own proxy.
func TestNetworkReplicas(t *testing.T) {
	a, b := subject(t), subject(t)
	whole := a
	whole.Replicas = []leak.Target{a, b}
	injection, err := (&Network{Fault: faultCut}).Begin(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	got := injection.Target().Replicas
	if len(got) != 2 || got[0].URL == got[1].URL || got[0].URL == a.URL || whole.Replicas[0].URL != a.URL {
		t.Errorf("%+v", got)
	}
	if err := injection.End(); err != nil {
		t.Error(err)
	}
	for _, bad := range []leak.Target{{URL: "https://127.0.0.1:1"}, {URL: "http://unix"}, {URL: "http://pod:80", Selector: "app=s"}} {
		if _, err := (&Network{Fault: faultCut}).Begin(t.Context(), bad); err == nil || leak.Hint(err) == "" {
			t.Errorf("%s: %v", bad.URL, err)
		}
	}
}

// TestPause checks that every freeze is followed by a continuation, also if the action ends in between.
func TestPause(t *testing.T) {
	var frozen atomic.Bool
	var times atomic.Int32
	target := leak.Target{Freeze: func(stop bool) error {
		if stop {
			times.Add(1)
		}
		frozen.Store(stop)
		return nil
	}}
	p := &Pause{timing: timing{Actions: []string{"post"}, For: leak.Duration(10 * time.Millisecond), Every: leak.Duration(20 * time.Millisecond)}}
	injection, err := p.Begin(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	tally, err := injection.Inject(ctx)
	if err != nil || frozen.Load() || tally.Attempted != int(times.Load()) || tally.Attempted < 2 {
		t.Errorf("%+v, %d times, frozen %v, %v", tally, times.Load(), frozen.Load(), err)
	}
	broken := errors.New("no such process")
	target.Freeze = func(stop bool) error {
		frozen.Store(stop)
		if stop {
			return broken
		}
		return nil
	}
	injection, _ = p.Begin(t.Context(), target)
	if tally, err := injection.Inject(t.Context()); !errors.Is(err, broken) || frozen.Load() || tally.Failed != 1 {
		t.Errorf("an injection that fails: %+v, %v, frozen %v", tally, err, frozen.Load())
	}
	if _, err := p.Begin(t.Context(), leak.Target{}); err == nil || leak.Hint(err) == "" {
		t.Errorf("a subject that leakrig did not start: %v", err)
	}
}

func TestValidate(t *testing.T) {
	good := timing{Actions: []string{"post"}, For: 1}
	for name, c := range map[string]struct {
		kind  leak.Validator
		field string
	}{
		"no action":          {&Pause{timing: timing{For: 1}}, "during"},
		"no duration":        {&Pause{timing: timing{Actions: []string{"a"}}}, "for"},
		"too often":          {&Pause{timing: timing{Actions: []string{"a"}, For: 2, Every: 2}}, "every"},
		"before the load":    {&Pause{timing: timing{Actions: []string{"a"}, For: 2, After: -1}}, "after"},
		"no fault":           {&Network{timing: good}, "fault"},
		"a delay of nothing": {&Network{Fault: faultDelay, timing: good}, "delay"},
		"too much jitter":    {&Network{Fault: faultDelay, Delay: 1, Jitter: 2, timing: good}, "jitter"},
		"no part":            {&Restart{timing: good}, "of"},
		"two parts":          {&Restart{Name: "a", Selector: "b", timing: good}, "of"},
		"a namespace alone":  {&Restart{Name: "a", Namespace: "b", timing: good}, "namespace"},
		"no node":            {&Drain{timing: good}, "node"},
		"no bandwidth":       {&Network{Fault: faultBandwidth, timing: good}, "rate"},
	} {
		var field *leak.FieldError
		if err := c.kind.Validate(); !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, k := range Kinds() {
		if _, err := k.New().Run(t.Context(), leak.Target{}, 1); err == nil {
			t.Errorf("%s ran as load", k.Name)
		}
	}
}

// TestLink disturbs connections to a server that are not the load's: each client gets a new connection afterwards, on the
// same port.
func TestLink(t *testing.T) {
	direct := subject(t)
	l, err := Open(strings.TrimPrefix(direct.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	through := "http://" + l.Address()
	n := &Network{Fault: faultCut, Behind: "backend", timing: timing{For: leak.Duration(50 * time.Millisecond), Every: leak.Duration(100 * time.Millisecond)}}
	target := leak.Target{URL: "http://subject", Links: map[string]leak.Link{"backend": l}}
	injection, err := n.Begin(t.Context(), target)
	if err != nil || injection.Target().URL != target.URL {
		t.Fatal(injection, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var tally leak.Tally
	go func() {
		var err error
		tally, err = injection.Inject(ctx)
		done <- err
	}()
	refused, answered := 0, 0
	for deadline := time.Now().Add(20 * time.Second); (refused == 0 || answered == 0) && time.Now().Before(deadline); {
		if _, err := get(through, time.Second); err != nil {
			refused++
		} else {
			answered++
		}
	}
	cancel()
	if err := <-done; err != nil || refused == 0 || answered == 0 || !strings.Contains(tally.Fault, "cut of backend") {
		t.Errorf("%d refused, %d answered, %+v, %v", refused, answered, tally, err)
	}
	if err := injection.End(); err != nil {
		t.Error(err)
	}
	if _, err := get(through, 20*time.Second); err != nil {
		t.Errorf("after the fault the link is gone: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := get(through, time.Second); err == nil {
		t.Error("the link is left")
	}
	if _, err := n.Begin(t.Context(), leak.Target{}); err == nil || leak.Hint(err) == "" {
		t.Errorf("without a link: %v", err)
	}
}

// TestDown checks restarts and drains: a part that went down comes up again, also if the action ends or the stop fails
// half-way, and a part that does not come up is an error with its name.
func TestDown(t *testing.T) {
	timed := timing{Actions: []string{"post"}, For: leak.Duration(10 * time.Millisecond), Every: leak.Duration(20 * time.Millisecond)}
	for name, fault := range map[string]leak.Fault{
		"kube-apiserver": &Restart{Name: "kube-apiserver", timing: timed},
		"pods app=web":   &Restart{Selector: "app=web", timing: timed},
		"node worker":    &Drain{Node: "worker", timing: timed},
	} {
		t.Run(name, func(t *testing.T) {
			if err := fault.(leak.Validator).Validate(); err != nil {
				t.Fatal(err)
			}
			var isDown atomic.Bool
			var downs, ups atomic.Int32
			broken := errors.New("broken")
			var failDown, failUp error
			target := leak.Target{Down: func(_ context.Context, p leak.Part) (func(context.Context) error, error) {
				if p == (leak.Part{}) {
					t.Error("no part")
				}
				downs.Add(1)
				isDown.Store(true)
				return func(ctx context.Context) error {
					if ctx.Err() != nil {
						t.Errorf("the undo ends with the action: %v", ctx.Err())
					}
					ups.Add(1)
					isDown.Store(false)
					return failUp
				}, failDown
			}}
			begin := func() leak.Injection {
				injection, err := fault.Begin(t.Context(), target)
				if err != nil {
					t.Fatal(err)
				}
				return injection
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			tally, err := begin().Inject(ctx)
			if err != nil || isDown.Load() || downs.Load() < 2 || downs.Load() != ups.Load() || tally.Succeeded != int(downs.Load()) || !strings.Contains(tally.Fault, name) {
				t.Errorf("%+v, %d down, %d up, %v", tally, downs.Load(), ups.Load(), err)
			}
			failDown = broken
			if tally, err := begin().Inject(t.Context()); !errors.Is(err, broken) || isDown.Load() || tally.Failed != 1 {
				t.Errorf("a stop that fails: %+v, %v", tally, err)
			}
			failDown, failUp = nil, broken
			if tally, err := begin().Inject(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), name) || tally.Failed != 1 {
				t.Errorf("a start that fails: %+v, %v", tally, err)
			}
			if _, err := fault.Begin(t.Context(), leak.Target{}); err == nil || leak.Hint(err) == "" {
				t.Errorf("where nothing can be stopped: %v", err)
			}
		})
	}
}
