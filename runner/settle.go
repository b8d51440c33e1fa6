package runner

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// pollsPerWindow is how often a quiet window is sampled, at least. A dump of many goroutines costs the program more, so
// a program with more than many is polled less often.
const pollsPerWindow, pollsOfMany, many = 5, 4, 500

// pollsOf returns how often a quiet window of a program with so many goroutines is sampled, at least.
func pollsOf(goroutines int64) int {
	if goroutines > many {
		return pollsOfMany
	}
	return pollsPerWindow
}

// window holds the minima over one quiet window.
type window struct {
	source string
	total  int64
	// counts holds the groups that were there at every poll so far, with their minimum.
	counts map[string]int64
	polls  int
	// torn marks a truncated window: its source fluctuated until the timeout.
	torn bool
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

// shrinking returns the groups whose minimum is lower than in the previous window.
func (w *window) shrinking(before *window) []string {
	var ids []string
	for id, n := range before.counts {
		if w.counts[id] < n {
			ids = append(ids, id)
		}
	}
	return ids
}

// unsettledReason returns why two consecutive windows are not settled, "" if they are.
func (w *window) unsettledReason(before *window, stacks map[string]leak.Stack, quiet leak.Duration) string {
	if w.torn || before.torn || w.source != before.source {
		return "goroutines were still read now as a text dump and now as a profile, which cannot be compared"
	}
	ids := w.shrinking(before)
	if len(ids) == 0 {
		return ""
	}
	id := ids[0]
	return fmt.Sprintf("%d groups of goroutines were still shrinking, one from %d to %d in %s: %s",
		len(ids), before.counts[id], w.counts[id], quiet, stacks[id])
}

// settled is what the settle loop hands to the snapshot.
type settled struct {
	result leak.SettleResult
	// last is the last whole window, nil without a poller.
	last   *window
	stacks map[string]leak.Stack
	// before is the last poll.
	before leak.Poll
}

// polling polls a subject, given the poll before.
type polling = func(ctx context.Context, before leak.Poll) (leak.Poll, error)

// settle waits until the goroutines that the load started and that will end have ended: until no
// group's minimum over a window of spec.Quiet is lower than over the window before. Real programs have
// background goroutines that come and go, so single readings are never compared, only minima. Growth
// does not hold it up.
// before is the last poll of the settling before, which saves reading sources that the program does not need.
func settle(ctx context.Context, spec leak.SettleSpec, before leak.Poll, poll polling) (settled, error) {
	start := time.Now()
	deadline := start.Add(spec.Timeout.D())
	s := settled{stacks: map[string]leak.Stack{}, before: before}
	for {
		now, err := s.observe(ctx, spec.Quiet.D(), deadline, poll)
		if err != nil {
			return s, err
		}
		before := s.last
		s.last = now
		s.forget(before)
		s.result.Seconds = time.Since(start).Seconds()
		if before == nil {
			continue
		}
		unsettled := now.unsettledReason(before, s.stacks, spec.Quiet)
		if unsettled == "" {
			s.result.Settled = true
			s.result.Reason = fmt.Sprintf("no group of goroutines shrank between two windows of %s", spec.Quiet)
			return s, nil
		}
		if !time.Now().Before(deadline) {
			s.result.Reason = fmt.Sprintf("after %s %s", spec.Timeout, unsettled)
			return s, nil
		}
	}
}

// forget drops the stacks that neither window has: a subject may serve other stacks at every reading.
func (s *settled) forget(before *window) {
	maps.DeleteFunc(s.stacks, func(id string, _ leak.Stack) bool {
		_, now := s.last.counts[id]
		if before == nil || now {
			return !now
		}
		_, then := before.counts[id]
		return !then
	})
}

// observe polls over one quiet window.
func (s *settled) observe(ctx context.Context, quiet time.Duration, deadline time.Time, poll polling) (*window, error) {
	w, polls := &window{}, pollsOf(s.before.Total)
	end := time.Now().Add(quiet)
	for w.polls < polls || time.Now().Before(end) {
		p, err := poll(ctx, s.before)
		if err != nil {
			return nil, err
		}
		s.result.Polls++
		s.before = p
		if w.polls > 0 && p.Source != w.source {
			now := time.Now()
			w, end = &window{torn: !now.Before(deadline)}, now.Add(quiet) // groups of different sources are never compared
		}
		w.add(p)
		for id, stack := range p.Stacks {
			if _, counts := w.counts[id]; counts {
				s.stacks[id] = stack
			}
		}
		if w.torn {
			break
		}
		if err := sleep(ctx, quiet/time.Duration(polls)); err != nil {
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
