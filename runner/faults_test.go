package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// trip is a fault that counts what is undone.
type trip struct {
	fail, failEnd  error
	injected, ends atomic.Int32
	active         atomic.Bool
}

func (*trip) Run(context.Context, leak.Target, int) (leak.Tally, error) {
	return leak.Tally{}, errors.New("performed as load")
}
func (*trip) During() []string   { return []string{"post"} }
func (*trip) Of() (string, bool) { return "", false }
func (f *trip) Begin(_ context.Context, t leak.Target) (leak.Injection, error) {
	t.URL += "/through"
	return &tripped{f, t}, nil
}

type tripped struct {
	*trip
	t leak.Target
}

func (f *tripped) Target() leak.Target { return f.t }
func (f *tripped) Inject(ctx context.Context) (leak.Tally, error) {
	f.active.Store(true)
	defer f.active.Store(false)
	f.injected.Add(1)
	if f.fail != nil {
		return leak.Tally{Attempted: 1, Failed: 1}, f.fail
	}
	<-ctx.Done()
	return leak.Tally{Attempted: 1, Succeeded: 1, Fault: "tripped", Seconds: 1}, nil
}

func (f *tripped) End() error {
	if f.active.Load() {
		return errors.New("ended while it was injected")
	}
	f.ends.Add(1)
	return f.failEnd
}

// during is an action whose end the test decides.
type during struct {
	seen []string
	end  func(ctx context.Context) error
}

func (d *during) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	d.seen = append(d.seen, t.URL)
	return leak.Tally{Attempted: 5, Succeeded: 5, Seconds: 2}, d.end(ctx)
}

type still struct{ leak.Subject }

func (still) Target() leak.Target { return leak.Target{URL: "http://subject"} }

// TestFaults checks that a fault acts during its actions only, that its tally is separate, and that it is undone
// however the action ends.
func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	until := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	short := func(context.Context) error { time.Sleep(20 * time.Millisecond); return nil }
	for _, c := range []struct {
		name      string
		fault     *trip
		end       func(context.Context) error
		interrupt bool
		want      string
	}{
		{"the action ends", &trip{}, short, false, ""},
		{"the action fails", &trip{}, func(context.Context) error { time.Sleep(10 * time.Millisecond); return broken }, false, "broken"},
		{"the run is interrupted", &trip{}, until, true, "interrupted"},
		{"the fault fails", &trip{fail: broken}, until, false, "trip: broken"},
		{"it cannot be undone", &trip{failEnd: broken}, short, false, "broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.interrupt {
				time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("interrupted")) })
			}
			act, other := &during{end: c.end}, &during{end: func(context.Context) error { return nil }}
			blocks := []leak.Block[leak.Action]{{Name: "trip", Value: c.fault}, {Name: "post", Value: act}, {Name: "other", Value: other}}
			s := &leak.Scenario{Spec: leak.Spec{Round: blocks}}
			m := &measurement{run: &run{Config: Config{Scenario: s}}, subject: still{}, next: 1}
			s.Spec.Operation = "post"
			tallies, err := m.load(ctx, blocks)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("%v", err)
			}
			if c.fault.active.Load() || c.fault.ends.Load() != 1 || c.fault.injected.Load() != 1 {
				t.Errorf("%d injected, %d ended, active %v", c.fault.injected.Load(), c.fault.ends.Load(), c.fault.active.Load())
			}
			if !slices.Equal(act.seen, []string{"http://subject/through"}) {
				t.Errorf("%q", act.seen)
			}
			if c.want != "" {
				return
			}
			if !slices.Equal(other.seen, []string{"http://subject"}) {
				t.Errorf("another action: %q", other.seen)
			}
			if len(tallies) != 3 || tallies[0].Action != "post" || tallies[1].Action != "trip" || tallies[1].Fault == "" || m.next != 11 || m.counted != 5 {
				t.Errorf("next %d, counted %d, %+v", m.next, m.counted, tallies)
			}
			if d := loadTime(tallies); d != 4*time.Second {
				t.Errorf("the load took %s", d)
			}
		})
	}
}
