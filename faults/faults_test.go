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
func subject(t *testing.T) leak.Target {
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
	p := &Pause{timing{Actions: []string{"post"}, For: leak.Duration(10 * time.Millisecond), Every: leak.Duration(20 * time.Millisecond)}}
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
		"no action":          {&Pause{timing{For: 1}}, "during"},
		"no duration":        {&Pause{timing{Actions: []string{"a"}}}, "for"},
		"too often":          {&Pause{timing{Actions: []string{"a"}, For: 2, Every: 2}}, "every"},
		"before the load":    {&Pause{timing{Actions: []string{"a"}, For: 2, After: -1}}, "after"},
		"no fault":           {&Network{timing: good}, "fault"},
		"a delay of nothing": {&Network{Fault: faultDelay, timing: good}, "delay"},
		"too much jitter":    {&Network{Fault: faultDelay, Delay: 1, Jitter: 2, timing: good}, "jitter"},
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
