package apiserver

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
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
