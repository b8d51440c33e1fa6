package checks

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// Hung bounds the operations that never return. An operation that missed its deadline may only be slow. It hangs if
// goroutines of the subject are still blocked at the same place ten seconds later.
type Hung struct {
	Probe string        `yaml:"probe" doc:"goroutine probe of the subject that serves the operations"`
	Match string        `yaml:"match,omitempty" doc:"Go regular expression for a frame of these goroutines, as for stack (default: all goroutines)"`
	Max   leak.Quantity `yaml:"max" doc:"maximum number of hung operations over all rounds"`
	// MaxSilent is a share, because execs lose their output on a busy node, and their load has arrived.
	MaxSilent float64 `yaml:"maxSilent,omitempty" doc:"maximum share of operations that return without their output, as in 0.1 (default 0)"`
}

// JudgesHung reports whether a check of the scenario judges hung operations.
func JudgesHung(s *leak.Scenario) bool {
	return slices.ContainsFunc(s.Spec.Checks, func(b leak.Block[leak.Check]) bool { _, ok := b.Value.(*Hung); return ok })
}

// Reads returns the probe of the goroutines.
func (c *Hung) Reads() (probe, metric string) { return c.Probe, "" }

// Validate returns all problems of the configuration.
func (c *Hung) Validate() error {
	errs := []error{needProbe(c.Probe), needBound("max", c.Max)}
	if leak.ProbeKind(c.Probe) != "goroutine" && c.Probe != "" {
		errs = append(errs, &leak.FieldError{Field: "probe", Problem: "reads no goroutines", Hint: "name a goroutine probe"})
	}
	if !(c.MaxSilent >= 0 && c.MaxSilent <= 1) {
		errs = append(errs, &leak.FieldError{Field: "maxSilent", Problem: "is not between 0 and 1", Hint: "0.1 is one operation in ten"})
	}
	if _, err := regexp.Compile(c.Match); err != nil {
		errs = append(errs, &leak.FieldError{Field: "match", Problem: err.Error()})
	}
	return errors.Join(errs...)
}

// excuses returns the failed operations that the check judges.
func (c *Hung) excuses(f leak.Finding) excused {
	e := excused{silent: c.MaxSilent}
	if n := len(f.Points); n > 0 {
		e.hung = f.Points[n-1].Value
	}
	return e
}

// Check counts them.
func (c *Hung) Check(of leak.Evidence) leak.Finding {
	e := evidence{of}
	f := e.finding("hung")
	if err := c.Validate(); err != nil {
		return undecided(f, err)
	}
	f.Bound, f.Unit = float64(c.Max), "operations"
	shots := wholeRounds(&e.Variant, e.Rounds)
	if len(shots) < 2 {
		return undecided(f, errors.New("no round was measured"))
	}
	timedOut, blocked := 0, 0.0
	f.Points = append(f.Points, leak.Point{Operations: shots[0].Operations})
	before := map[string]int64{}
	for _, g := range groups(&shots[0], c.Probe, "dump") {
		before[g.Stack] = g.Count
	}
	matches := (&Stack{Match: c.Match}).matchOne()
	stuck := func(groups []leak.Group) (sum float64) {
		for _, g := range groups {
			if matches(e.Variant.Stacks[g.Stack]) {
				sum += float64(max(g.Count-before[g.Stack], 0))
			}
		}
		return sum
	}
	for _, shot := range shots[1:] {
		inRound := 0
		for _, t := range shot.Load {
			inRound += t.TimedOut
		}
		timedOut += inRound
		sample := shot.Sample(c.Probe)
		if inRound > 0 {
			if sample == nil || !sample.BlockedRead {
				return undecided(f, fmt.Errorf("%s: operations did not return, and no second dump of %s was taken", roundName(shot.Round), c.Probe))
			}
			blocked = stuck(sample.Blocked)
		}
		hung := min(float64(timedOut), blocked)
		f.Points = append(f.Points, leak.Point{Round: shot.Round, Operations: shot.Operations, Value: hung})
	}
	hung := f.Points[len(f.Points)-1].Value
	if n := shots[len(shots)-1].Operations; n > 0 {
		f.PerOperation = hung / float64(n)
		f.Low, f.High = f.PerOperation, f.PerOperation
	}
	gate := compare("hung operations", hung, "≤", f.Bound, "operations",
		"operations that missed their deadline, at most the number of goroutines that were blocked both then and ten seconds later, less those of the baseline")
	f.Gates = append(f.Gates, bounded(gate),
		compare("missed their deadline", float64(timedOut), "≤", f.Bound, "operations", "hung or slow"))
	switch {
	case !gate.Holds:
		f.Outcome = leak.Leaking
		f.Summary = fmt.Sprintf("%.0f operations hung (%d of %d missed their deadline, %.0f goroutines of %s stood where they had stood ten seconds earlier)",
			hung, timedOut, shots[len(shots)-1].Operations, blocked, c.Probe)
	case timedOut > 0:
		f.Outcome = leak.Clean
		f.Summary = fmt.Sprintf("%.0f operations hung, within %.0f; %d missed their deadline", hung, f.Bound, timedOut)
	default:
		f.Outcome = leak.Clean
		f.Summary = fmt.Sprintf("all %d operations returned in time", shots[len(shots)-1].Operations)
	}
	return f
}
