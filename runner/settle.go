package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// pollsPerWindow is how often a quiet window is sampled, at least.
const pollsPerWindow = 5

// window holds the minima over one quiet window.
type window struct {
	source string
	total  int64
	// counts holds the groups that were there at every poll so far, with their minimum.
	counts map[string]int64
	polls  int
}

func (w *window) add(p leak.Poll) {
	if w.polls == 0 {
		w.source, w.total, w.counts = p.Source, p.Total, map[string]int64{}
		for _, g := range p.Groups {
			w.counts[g.Stack] = g.Count
		}
		w.polls = 1
		return
	}
	w.polls++
	w.total = min(w.total, p.Total)
	now := make(map[string]int64, len(p.Groups))
	for _, g := range p.Groups {
		now[g.Stack] = g.Count
	}
	for id, n := range w.counts {
		if n = min(n, now[id]); n == 0 {
			delete(w.counts, id)
		} else {
			w.counts[id] = n
		}
	}
}

// shrinking returns the groups whose minimum is lower than in the window before.
func (w *window) shrinking(before *window) []string {
	var ids []string
	for id, n := range before.counts {
		if w.counts[id] < n {
			ids = append(ids, id)
		}
	}
	return ids
}

// settled is what the settle loop hands to the snapshot.
type settled struct {
	result leak.SettleResult
	// last is the last whole window, nil without a poller.
	last   *window
	stacks map[string]leak.Stack
}

// settle waits until the goroutines that the load started and that will end have ended: until no
// group's minimum over a window of spec.Quiet is lower than over the window before. Real programs have
// background goroutines that come and go, so single readings are never compared, only minima. Growth
// does not hold it up.
func settle(ctx context.Context, spec leak.SettleSpec, poll func(context.Context) (leak.Poll, error)) (settled, error) {
	start := time.Now()
	s := settled{stacks: map[string]leak.Stack{}}
	var before *window
	for {
		now, err := s.observe(ctx, spec, poll)
		if err != nil {
			return s, err
		}
		s.result.Polls += now.polls
		s.result.Seconds = time.Since(start).Seconds()
		if before != nil && now.source == before.source {
			shrinking := now.shrinking(before)
			if len(shrinking) == 0 {
				s.result.Settled = true
				s.result.Reason = fmt.Sprintf("no group of goroutines shrank between two windows of %s", spec.Quiet)
				s.last = now
				return s, nil
			}
			if time.Since(start) >= spec.Timeout.D() {
				id := shrinking[0]
				s.result.Reason = fmt.Sprintf("after %s %d groups of goroutines were still shrinking, one from %d to %d in %s",
					spec.Timeout, len(shrinking), before.counts[id], now.counts[id], s.stacks[id])
				s.last = now
				return s, nil
			}
		}
		before = now
	}
}

// observe polls over one quiet window.
func (s *settled) observe(ctx context.Context, spec leak.SettleSpec, poll func(context.Context) (leak.Poll, error)) (*window, error) {
	w := &window{}
	end := time.Now().Add(spec.Quiet.D())
	for w.polls < pollsPerWindow || time.Now().Before(end) {
		p, err := poll(ctx)
		if err != nil {
			return nil, err
		}
		if w.polls > 0 && p.Source != w.source {
			w = &window{} // groups of different sources are never compared
		}
		w.add(p)
		for id, stack := range p.Stacks {
			s.stacks[id] = stack
		}
		if err := sleep(ctx, spec.Quiet.D()/pollsPerWindow); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// sleep waits for d, or returns the reason why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
