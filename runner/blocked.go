package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// hungAfter is how long after a snapshot a goroutine must still be at the same place to count as blocked: an operation
// that missed its deadline may only be slow.
const hungAfter = 10 * time.Second

func timedOut(load []leak.Tally) bool {
	return slices.ContainsFunc(load, func(t leak.Tally) bool { return t.TimedOut > 0 })
}

// lookAgain reads the goroutines once more, some time after the snapshot, and notes in its samples what
// is blocked in both.
func (m *measurement) lookAgain(ctx context.Context, s *leak.Snapshot) error {
	m.Progress.Log("%s: operations did not return: looking again in %s", m.name, hungAfter)
	if err := sleep(ctx, hungAfter); err != nil {
		return err
	}
	for _, probe := range m.Scenario.Spec.AllProbes() {
		poller, ok := probe.Value.(leak.Poller)
		sample := s.Sample(probe.Name)
		if !ok || sample == nil {
			continue
		}
		again, err := poller.Poll(ctx, m.target(probe), leak.Poll{})
		if err != nil {
			return fmt.Errorf("%s: %w", probe.Name, err)
		}
		sample.Blocked, sample.BlockedRead = m.blocked(sample.Groups[again.Source], again), true
	}
	return nil
}

// blocked are the groups of the first reading that the second one has as well: the same goroutines, where
// their numbers are known.
func (m *measurement) blocked(first []leak.Group, again leak.Poll) []leak.Group {
	later := map[string]leak.Group{}
	for _, g := range again.Groups {
		later[g.Stack] = g
	}
	var both []leak.Group
	for _, g := range first {
		n := min(g.Count, later[g.Stack].Count)
		if len(g.IDs) > 0 && len(later[g.Stack].IDs) > 0 { // the very same goroutines
			n = min(n, int64(g.IDs.Len()-g.IDs.Without(later[g.Stack].IDs).Len()))
		}
		if n > 0 && waits(again.Stacks[g.Stack].State) {
			both = append(both, leak.Group{Stack: g.Stack, Count: n})
		}
	}
	return both
}

// waits reports whether goroutines in this state are blocked; true for an unknown state.
func waits(state string) bool {
	return !slices.Contains([]string{"running", "runnable", "syscall", "sleep", "GC worker (idle)"}, state)
}
