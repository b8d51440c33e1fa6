package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// stretches is in how many the idling is divided, and how often the counters are then read with nothing in between:
// what reading them costs the process, and by how much that varies, is not the load's.
const stretches = 5

// warnUnknown is the warning of a record if processes cannot be distinguished.
const warnUnknown = "restarts cannot be detected: it does not serve /debug/pprof/heap, and the platform does not report them"

func isRestart(err error) bool {
	var restarted *leak.RestartedError
	return errors.As(err, &restarted)
}

// begin reads the counters of every process for the first time.
func (m *measurement) begin(ctx context.Context) error {
	if m.Vitals == nil {
		return nil
	}
	return m.together(func(_ int, one *measurement) error {
		one.record.Quiet, one.record.Reading, one.record.Traced = nil, nil, true
		if _, err := one.look(ctx); err != nil {
			return fmt.Errorf("read its counters: %w", err)
		}
		for name, v := range one.vitals {
			warning := warnUnknown
			if name != "" {
				warning = name + ": " + warning
			}
			if !v.Identified() && !slices.Contains(one.record.Warnings, warning) {
				one.record.Warnings = append(one.record.Warnings, warning)
			}
		}
		return nil
	})
}

// observed are the processes that the measurement reads: the program, components of the cluster, or both.
func (m *measurement) observed() map[string]leak.Target {
	targets := map[string]leak.Target{}
	if t := m.subject.Target(); t.Pprof != "" || t.Proc != nil || t.Process != nil {
		targets[""] = t
	}
	if c, ok := m.subject.(leak.Composed); ok {
		for _, info := range c.Components() {
			targets[info.Name] = c.Component(info.Name)
		}
	}
	return targets
}

// look reads the counters of every process and returns what each did since they were last read. One that is not the
// process that it was is an error.
func (m *measurement) look(ctx context.Context) ([]leak.Activity, error) {
	if m.Vitals == nil {
		return nil, nil
	}
	if m.vitals == nil {
		m.vitals = map[string]leak.Vitals{}
	}
	var did []leak.Activity
	for name, target := range m.observed() {
		now, err := m.Vitals(ctx, target)
		if err != nil {
			if name != "" {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return nil, err
		}
		before, known := m.vitals[name]
		if known {
			if why := now.Restarted(before); why != "" {
				if name != "" {
					why = name + ": " + why
				}
				return nil, leak.WithHint(&leak.RestartedError{Reason: why},
					"what grows in one process says nothing of another: find out why it ends (its log, a supervisor or a loop around it), and let one process serve that address")
			}
			a := now.Since(before)
			a.Component = name
			did = append(did, a)
		}
		m.vitals[name] = now
	}
	slices.SortFunc(did, func(a, b leak.Activity) int {
		if a.Component < b.Component {
			return -1
		}
		return 1
	})
	return did, nil
}

// restarted returns the restart that caused err, a failed reading or load, or err itself. leakrig knows how its own
// subjects end; of a running program it sees only that a connection broke.
func (m *measurement) restarted(ctx context.Context, err error) error {
	var known *leak.RestartedError
	if err == nil || m.Vitals == nil || m.Scenario.Spec.Subject.URL == "" || ctx.Err() != nil || errors.As(err, &known) {
		return err
	}
	again := m.together(func(_ int, one *measurement) error {
		_, err := one.look(ctx)
		return err
	})
	if errors.As(again, &known) {
		return again
	}
	return err
}

// loadWatched runs the load of a round on all replicas and records their activity. Activity may follow the load after
// a moment.
func (m *measurement) loadWatched(ctx context.Context, round int) ([]leak.Tally, error) {
	if m.Vitals == nil {
		return m.loadSized(ctx, round)
	}
	err := m.together(func(_ int, one *measurement) error {
		_, err := one.look(ctx)
		if err == nil {
			one.reading, err = one.look(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	tallies, err := m.loadSized(ctx, round)
	if err != nil {
		return tallies, err
	}
	if err := sleep(ctx, m.Scenario.Spec.Settle.Quiet.D()/pollsPerWindow); err != nil {
		return tallies, err
	}
	return tallies, m.together(func(_ int, one *measurement) (err error) {
		one.activity, err = one.look(ctx)
		return err
	})
}

// rest waits without load, and notes what the processes do by themselves.
func (m *measurement) rest(ctx context.Context, wait time.Duration) error {
	if m.Vitals == nil {
		return sleep(ctx, wait)
	}
	return m.together(func(_ int, one *measurement) error {
		one.record.Quiet, one.record.Reading = nil, nil // of a soak that idled before
		if _, err := one.look(ctx); err != nil {
			return err
		}
		for range stretches {
			if err := sleep(ctx, wait/stretches); err != nil {
				return err
			}
			did, err := one.look(ctx)
			if err != nil {
				return err
			}
			one.record.Quiet = append(one.record.Quiet, did)
		}
		for range stretches {
			did, err := one.look(ctx)
			if err != nil {
				return err
			}
			one.record.Reading = append(one.record.Reading, did)
		}
		return nil
	})
}
