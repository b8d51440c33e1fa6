package checks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Checks of the load itself: how long its operations take, and how many fail.

// perThousand is the number of operations that Latency.Growth counts for.
const perThousand = 1000

// Latency bounds how long operations take, and by how much that grows.
type Latency struct {
	Action string        `yaml:"action,omitempty" doc:"action of the round (default: the one whose operations count)"`
	P50    leak.Duration `yaml:"p50,omitempty" doc:"maximum median latency of a typical round: the median over the rounds, weighted by their operations"`
	P99    leak.Duration `yaml:"p99,omitempty" doc:"maximum 99th percentile of a round, in the same way"`
	Max    leak.Duration `yaml:"max,omitempty" doc:"maximum latency of any operation"`
	Growth leak.Duration `yaml:"growth,omitempty" doc:"maximum growth of the median latency per 1,000 operations, judged as a trend"`
}

// ReadsLoad returns the judged action.
func (c *Latency) ReadsLoad() string { return c.Action }

// TestsTrend reports whether the check uses the false-alarm budget.
func (c *Latency) TestsTrend() bool { return c.Growth != 0 }

// Validate returns all problems of the configuration.
func (c *Latency) Validate() error {
	var errs []error
	set := false
	for _, b := range []struct {
		field string
		bound leak.Duration
	}{{"p50", c.P50}, {"p99", c.P99}, {"max", c.Max}, {"growth", c.Growth}} {
		set = set || b.bound != 0
		if b.bound < 0 {
			errs = append(errs, &leak.FieldError{Field: b.field, Problem: "must not be negative", Hint: "as in 200ms"})
		}
	}
	if !set {
		errs = append(errs, &leak.FieldError{Field: "p99", Problem: "the check has no bound", Hint: "give p50, p99, max or growth, as in {p99: 200ms}"})
	}
	return errors.Join(errs...)
}

// Check judges the tallies of the rounds.
func (c *Latency) Check(of leak.Evidence) leak.Finding {
	e := evidence{of}
	f := e.finding("latency")
	f.Unit, f.Load = "seconds", true
	if err := c.Validate(); err != nil {
		return undecided(f, err)
	}
	rounds, err := e.loads(c.Action)
	if err != nil {
		return undecided(f, err)
	}
	f.Series = rounds[0].tallies[0].Action + ".latency"
	f.Points = latencies(rounds)
	if c.Growth > 0 {
		growth := f
		growth.BoundPerOperation, growth.Bound = true, c.Growth.D().Seconds()/perThousand
		f = e.judge(growth, series{name: f.Series, unit: f.Unit, points: f.Points, seconds: make([]float64, len(f.Points))}, nil)
	}
	var parts []string
	outcome := f.Outcome
	if c.Growth > 0 {
		parts = append(parts, f.Summary)
	} else {
		outcome = leak.Clean
	}
	for _, b := range []struct {
		name  string
		bound leak.Duration
		value float64
		doc   string
	}{
		{"p50", c.P50, typical(rounds, func(l leak.Latency) float64 { return l.P50 }), "median latency of a typical round, the median over the rounds weighted by operations, against the bound"},
		{"p99", c.P99, typical(rounds, func(l leak.Latency) float64 { return l.P99 }), "99th percentile of a typical round, the median over the rounds weighted by operations, against the bound"},
		{"max", c.Max, largest(rounds), "largest latency of an operation, against the bound"},
	} {
		if b.bound == 0 {
			continue
		}
		gate := compare(b.name, b.value, "≤", b.bound.D().Seconds(), f.Unit, b.doc)
		f.Gates = append(f.Gates, bounded(gate))
		how := "within"
		if !gate.Holds {
			how, outcome = "over", leak.Leaking
		}
		parts = append(parts, fmt.Sprintf("%s %s, %s %s", b.name, display.Value(b.value, f.Unit), how, b.bound))
		if !f.BoundPerOperation && (f.Bound == 0 || !gate.Holds) {
			f.Bound = gate.Bound
		}
	}
	f.Summary = strings.Join(parts, "; ")
	if f.Outcome = outcome; len(rounds) < e.Rounds || e.Rounds < 1 {
		f.Outcome = leak.Inconclusive
		if c.Growth == 0 {
			f.Summary += fmt.Sprintf(" (only %d of %d planned rounds were measured)", len(rounds), e.Rounds)
		}
	}
	return f
}

// Errors bounds the share of operations that fail.
type Errors struct {
	Action string  `yaml:"action,omitempty" doc:"action of the round (default: all actions together)"`
	Max    float64 `yaml:"max" doc:"maximum share of failed operations, as in 0.05; failures within it count as part of the load"`
}

// ReadsLoad returns the judged action.
func (c *Errors) ReadsLoad() string { return cmp.Or(c.Action, leak.AllActions) }

// Validate returns all problems of the configuration.
func (c *Errors) Validate() error {
	if !(c.Max >= 0 && c.Max <= 1) {
		return &leak.FieldError{Field: "max", Problem: "is not between 0 and 1", Hint: "0.05 is one operation in twenty"}
	}
	return nil
}

// Check counts the failed operations of all rounds.
func (c *Errors) Check(of leak.Evidence) leak.Finding {
	e := evidence{of}
	f := e.finding("errors")
	f.Unit, f.Load, f.Bound = "", true, c.Max
	if err := c.Validate(); err != nil {
		return undecided(f, err)
	}
	rounds, err := e.loads(cmp.Or(c.Action, leak.AllActions))
	if err != nil {
		return undecided(f, err)
	}
	attempted, failed, messages := 0, 0, map[string]int{}
	for _, r := range rounds {
		for _, t := range r.tallies {
			attempted += t.Attempted
			failed += max(t.Failed, t.Attempted-t.Succeeded, 0)
			for _, m := range t.Errors {
				messages[m.Message] += m.Count
			}
		}
		f.Points = append(f.Points, leak.Point{Round: r.round, Operations: r.operations, Value: float64(failed)})
	}
	share := float64(failed) / float64(attempted)
	gate := compare("failed operations", share, "≤", c.Max, "", "share of all operations of the rounds that failed, against the bound")
	f.Gates = append(f.Gates, bounded(gate))
	how := "within"
	if f.Outcome = leak.Clean; !gate.Holds {
		how, f.Outcome = "over", leak.Leaking
	}
	f.Summary = fmt.Sprintf("%d of %d operations failed (%.2g %%), %s %.3g %%%s", failed, attempted, 100*share, how, 100*c.Max, mostFrequent(messages))
	if len(rounds) < e.Rounds || e.Rounds < 1 {
		f.Outcome = leak.Inconclusive
		f.Summary += fmt.Sprintf(" (only %d of %d planned rounds were measured)", len(rounds), e.Rounds)
	}
	return f
}

// excuses returns the share of failed operations that the check judges.
func (c *Errors) excuses(leak.Finding) excused {
	return excused{failed: map[string]float64{c.Action: c.Max}}
}

// loads is the load of an action in one round.
type loads struct {
	round, operations int
	tallies           []leak.Tally
}

// attempted is the number of operations.
func (l loads) attempted() (n int) {
	for _, t := range l.tallies {
		n += t.Attempted
	}
	return n
}

// loads returns the load of an action in every round. The action "" is the one whose operations count, which must be
// unique. Rounds without an operation are an error.
func (e evidence) loads(action string) ([]loads, error) {
	shots := wholeRounds(&e.Variant, e.Rounds)
	if len(shots) < 2 {
		return nil, errors.New("no round was measured")
	}
	var all []loads
	for i := range shots[1:] {
		shot, counted := &shots[i+1], shots[i+1].Operations-shots[i].Operations
		l := loads{round: shot.Round, operations: shot.Operations}
		sums := map[string]int{}
		for _, t := range shot.Load {
			sums[t.Action] += t.Attempted
		}
		for _, t := range shot.Load {
			if t.Attempted < 0 || t.Fault != "" {
				continue
			}
			if action == leak.AllActions || t.Action == action || action == "" && sums[t.Action] == counted {
				l.tallies = append(l.tallies, t)
			}
		}
		if l.attempted() <= 0 {
			return nil, fmt.Errorf("%s: no operations were attempted", roundName(shot.Round))
		}
		all = append(all, l)
	}
	return all, nil
}

// latencies are the points of a series: the median latency of each round.
func latencies(rounds []loads) []leak.Point {
	var points []leak.Point
	for _, r := range rounds {
		points = append(points, leak.Point{
			Round: r.round, Operations: r.operations, Value: typical([]loads{r}, func(l leak.Latency) float64 { return l.P50 }),
		})
	}
	return points
}

// typical returns the median of a percentile over the rounds, weighted by operations.
func typical(rounds []loads, of func(leak.Latency) float64) float64 {
	var all []leak.Tally
	total := 0
	for _, r := range rounds {
		all, total = append(all, r.tallies...), total+r.attempted()
	}
	slices.SortStableFunc(all, func(a, b leak.Tally) int { return cmp.Compare(of(a.Latency), of(b.Latency)) })
	seen := 0
	for _, t := range all {
		if seen += t.Attempted; 2*seen >= total {
			return of(t.Latency)
		}
	}
	return 0
}

// largest is the largest latency of any operation.
func largest(rounds []loads) (most float64) {
	for _, r := range rounds {
		for _, t := range r.tallies {
			most = max(most, t.Latency.Max)
		}
	}
	return most
}

// summarizeLoad returns the load of the rounds, by action, in the order of the first round.
func summarizeLoad(shots []leak.Snapshot) []leak.LoadSummary {
	var names []string
	byName := map[string][]leak.Tally{}
	for i := 1; i < len(shots); i++ {
		for _, t := range shots[i].Load {
			if _, ok := byName[t.Action]; !ok {
				names = append(names, t.Action)
			}
			byName[t.Action] = append(byName[t.Action], t)
		}
	}
	var all []leak.LoadSummary
	for _, name := range names {
		l := []loads{{tallies: byName[name]}}
		sum := leak.LoadSummary{Action: name, Max: largest(l)}
		sum.P50 = typical(l, func(l leak.Latency) float64 { return l.P50 })
		sum.P99 = typical(l, func(l leak.Latency) float64 { return l.P99 })
		for _, t := range byName[name] {
			sum.Fault = t.Fault
			sum.Attempted += t.Attempted
			sum.Failed += max(t.Failed, t.Attempted-t.Succeeded, 0)
			sum.Open = sum.Open.Then(t.Open)
		}
		all = append(all, sum)
	}
	return all
}
