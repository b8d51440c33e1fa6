package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// undoTimeout bounds an undo that waits for no program.
const undoTimeout = 10 * time.Second

// timing is when a fault begins and ends. It is part of every fault's configuration.
type timing struct {
	Actions []string      `yaml:"during" doc:"actions of the round during which the fault is injected"`
	After   leak.Duration `yaml:"after,omitempty" doc:"time from the start of the action to the first injection"`
	For     leak.Duration `yaml:"for" doc:"duration of an injection"`
	Every   leak.Duration `yaml:"every,omitempty" doc:"time from one injection to the next (default: a single injection per action)"`
}

// During returns the actions during which the fault is injected.
func (t timing) During() []string { return t.Actions }

func (t timing) validate() []error {
	var errs []error
	add := func(field, problem, hint string) {
		errs = append(errs, &leak.FieldError{Field: field, Problem: problem, Hint: hint})
	}
	if len(t.Actions) == 0 {
		add("during", "names no action", "as in [post]")
	}
	if t.After < 0 {
		add("after", "must not be negative", "as in 1s")
	}
	if t.For <= 0 {
		add("for", "must be more than zero", "as in 500ms")
	}
	if t.Every != 0 && t.Every <= t.For {
		add("every", "must be longer than for", "the fault is undone between two injections")
	}
	return errs
}

// repeat injects and undoes the fault until ctx ends. An injection that ctx cuts short counts. Every injection is undone
// before repeat returns. An undo has the time limit, and runs even if the run was interrupted.
func (t timing) repeat(ctx context.Context, fault string, limit time.Duration, inject, undo func(context.Context) error) (tally leak.Tally, err error) {
	tally.Fault = fault
	start := time.Now()
	defer func() { tally.Seconds = time.Since(start).Seconds() }()
	wait := t.After.D()
	for sleep(ctx, wait) {
		tally.Attempted++
		err = inject(ctx)
		if err == nil {
			sleep(ctx, t.For.D())
		}
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		err = errors.Join(err, undo(undoing))
		cancel()
		if err != nil {
			tally.Failed++
			return tally, fmt.Errorf("%s: %w", fault, err)
		}
		tally.Succeeded++
		if t.Every == 0 {
			break
		}
		wait = t.Every.D() - t.For.D()
	}
	return tally, nil
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// errAlone is the error of a fault that the runner performs like load.
var errAlone = errors.New("a fault is injected during another action")
