package checks

import (
	"errors"
	"fmt"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Delta bounds what a metric gained from the baseline to the last round.
type Delta struct {
	Probe  string        `yaml:"probe" doc:"probe of the metric"`
	Metric string        `yaml:"metric,omitempty" doc:"metric of the probe (default: its first)"`
	Max    leak.Quantity `yaml:"max" doc:"maximum total growth, in the metric's unit"`
}

// Reads returns the judged series.
func (c *Delta) Reads() (probe, metric string) { return c.Probe, c.Metric }

// Validate returns all problems of the configuration.
func (c *Delta) Validate() error {
	return errors.Join(needProbe(c.Probe), needBound("max", c.Max))
}

// Check judges the series.
func (c *Delta) Check(of leak.Evidence) leak.Finding {
	e := evidence{of}
	f := e.finding("delta")
	if err := c.Validate(); err != nil {
		return undecided(f, err)
	}
	f.Bound = float64(c.Max)
	s, err := e.metricSeries(c.Probe, c.Metric)
	return e.judge(f, s, err)
}

func needProbe(probe string) error {
	if probe == "" {
		return &leak.FieldError{Field: "probe", Problem: "is missing", Hint: "name one of the scenario's probes"}
	}
	return nil
}

// optionalBound is needBound for an optional bound.
func optionalBound(field string, q *leak.Quantity) error {
	if q == nil {
		return nil
	}
	return needBound(field, *q)
}

func needBound(field string, q leak.Quantity) error {
	switch v := float64(q); {
	case !finite(v):
		return &leak.FieldError{Field: field, Problem: "is not a finite number"}
	case v < 0:
		return &leak.FieldError{Field: field, Problem: "must not be negative", Hint: "0 allows no growth at all"}
	}
	return nil
}

// judgeDelta judges a bound on total growth. A value within it is clean, even if the snapshot was still falling,
// since it is then an upper bound. Only the baseline must have settled, because a baseline that is too high hides
// growth. A value above the bound is leaking if it still is after idling. If it falls below the bound by then, it was
// a slow drain: clean.
func judgeDelta(f *leak.Finding, s series) {
	first, last := s.first(), s.last()
	baseline := settledGate("unsettled baseline", first)
	change := compare("change", last.Value-first.Value, "≤", f.Bound, f.Unit, "last round minus baseline, against the bound")
	final := settledGate("unsettled last round", last)
	f.Gates = append(f.Gates, required(baseline), bounded(change))
	drained := false
	if s.idle != nil {
		idle := compare("change after idling", s.idle.Value-first.Value, "≤", f.Bound, f.Unit,
			"the same after idling: growth that has drained by then does not count")
		f.Gates = append(f.Gates, bounded(idle))
		drained = idle.Holds
	}
	f.Gates = append(f.Gates, required(final))

	switch {
	case !baseline.Holds:
		f.Summary = deltaText(f, s) + ", but " + unsettledBaseline
	case change.Holds:
		f.Outcome = leak.Clean
		f.Summary = deltaText(f, s) + ", within " + display.Delta(f.Bound, f.Unit)
	case drained:
		f.Outcome = leak.Clean
		f.Summary = fmt.Sprintf("%s, but %s after idling, within %s: it drains slowly",
			deltaText(f, s), display.Value(s.idle.Value, f.Unit), display.Delta(f.Bound, f.Unit))
	case !final.Holds:
		f.Summary = fmt.Sprintf("%s, over %s, but %s", deltaText(f, s), display.Delta(f.Bound, f.Unit), unsettledFinal)
	default:
		f.Outcome = leak.Leaking
		f.Summary = fmt.Sprintf("%s, over %s%s", deltaText(f, s), display.Delta(f.Bound, f.Unit), afterIdling(f, s))
	}
}

const (
	unsettledBaseline = "the baseline was still falling when the settle timeout ended, so it is too high; raise settle.timeout or warmup.rounds"
	unsettledFinal    = "the last round was still falling when the settle timeout ended; raise settle.timeout"
)

// deltaText is "goroutine.count 12 → 13" or "3 → 140 goroutines, blocked in …".
func deltaText(f *leak.Finding, s series) string {
	text := display.Value(s.first().Value, f.Unit) + " → " + display.Value(s.last().Value, f.Unit)
	switch {
	case f.Series != "":
		text = f.Series + " " + text
	case f.Unit == "goroutines":
		text += " goroutines"
	}
	return text + blockedAt(f)
}

func afterIdling(f *leak.Finding, s series) string {
	if s.idle == nil {
		return " (not measured again after idling)"
	}
	return ", and still " + display.Value(s.idle.Value, f.Unit) + " after idling"
}
