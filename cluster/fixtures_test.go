package cluster

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func TestParallel(t *testing.T) {
	var sum atomic.Int64
	if err := parallel(t.Context(), 1000, func(i int) error { sum.Add(int64(i)); return nil }); err != nil || sum.Load() != 999*1000/2 {
		t.Errorf("%v, sum %d", err, sum.Load())
	}
	if err := parallel(t.Context(), 0, func(int) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}

	// The first error is returned and ends it, like an interrupt.
	bad := errors.New("bad")
	var calls atomic.Int64
	err := parallel(t.Context(), 100_000, func(i int) error {
		calls.Add(1)
		if i == 5 {
			return bad
		}
		return nil
	})
	if err != bad || calls.Load() > 90_000 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	reason := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if err := parallel(ctx, 100_000, func(int) error { return errors.New("called") }); err != reason {
		t.Error(err)
	}
}

// Where no pod ever runs, load on pods is refused before anything is booted.
func TestEmbeddedRunsNoPods(t *testing.T) {
	for _, o := range []leak.BootOptions{{Pods: true}, {LoadsPods: true}, {Spec: leak.ClusterSpec{Nodes: 3}}} {
		err := (&Embedded{}).Preflight(t.Context(), o)
		var usage *leak.UsageError
		if !errors.As(err, &usage) || !strings.Contains(leak.Hint(err), "--cluster kind") {
			t.Errorf("%+v: %v (hint %q)", o, err, leak.Hint(err))
		}
	}
}

// Where there are nodes and a scheduler, fixtures are refused before anything is booted.
func TestFixturesAreForEmbedded(t *testing.T) {
	o := leak.BootOptions{Fixtures: leak.Fixtures{Nodes: 1}}
	for name, p := range map[string]leak.Preflighter{"kind": &Kind{}, "existing": &Existing{}} {
		err := p.Preflight(t.Context(), o)
		var usage *leak.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), name) || leak.Hint(err) != "use --cluster embedded" {
			t.Errorf("%s: %v (hint %q)", name, err, leak.Hint(err))
		}
	}
	if err := (&Embedded{}).Preflight(t.Context(), o); err != nil {
		t.Error(err)
	}
}
