package runner

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// control measures rounds without load. Each is as long as a round of the warm-up, so it shows the growth that the load
// does not cause. The first snapshot is the start.
func (m *measurement) control(ctx context.Context, took time.Duration) error {
	rounds := m.Scenario.Spec.Control
	if rounds == 0 {
		return nil
	}
	for i := range rounds + 1 {
		m.watch("control %d/%d, without load", i, rounds)
		if i > 0 {
			if err := sleep(ctx, took); err != nil {
				return err
			}
		}
		err := m.together(func(_ int, one *measurement) error {
			snapshot, err := one.snapshot(ctx, i, path.Join(one.dir, fmt.Sprintf("control-%d", i)))
			if err == nil {
				one.record.Control = append(one.record.Control, snapshot)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	m.Progress.Log("%s: %d control rounds without load", m.variant.Name, rounds)
	return nil
}

// loadSized performs the actions of a round as often as the round is large.
func (m *measurement) loadSized(ctx context.Context, round int) ([]leak.Tally, error) {
	var all []leak.Tally
	if m.Scenario.Spec.For > 0 {
		return m.loadScaled(ctx, m.Scenario.Spec.Round, m.size)
	}
	for range m.Scenario.Spec.Size(round) {
		tallies, err := m.load(ctx, m.Scenario.Spec.Round)
		if err != nil {
			return nil, err
		}
		all = append(all, tallies...)
	}
	return all, nil
}
