package checks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/stats"
)

// Growth bounds how much a metric grows per operation.
type Growth struct {
	Probe    string         `yaml:"probe" doc:"probe of the metric"`
	Metric   string         `yaml:"metric,omitempty" doc:"metric of the probe (default: its first)"`
	MaxPerOp *leak.Quantity `yaml:"maxPerOp,omitempty" doc:"maximum growth per operation, in the metric's unit (default: none, any sustained growth is a leak)"`
}

// Reads returns the judged series.
func (c *Growth) Reads() (probe, metric string) { return c.Probe, c.Metric }

// TestsTrend reports that the check uses the false-alarm budget.
func (c *Growth) TestsTrend() bool { return true }

// Validate returns all problems of the configuration.
func (c *Growth) Validate() error {
	return errors.Join(needProbe(c.Probe), optionalBound("maxPerOp", c.MaxPerOp))
}

// Check judges the series.
func (c *Growth) Check(of leak.Evidence) leak.Finding {
	e := evidence{of}
	f := e.finding("growth")
	if err := c.Validate(); err != nil {
		return undecided(f, err)
	}
	perOperation(&f, c.MaxPerOp)
	s, err := e.metricSeries(c.Probe, c.Metric)
	f = e.judge(f, s, err)
	if f.Outcome == leak.Leaking {
		e.Allow = nil
		if x := e.explainedOf(f.Series); x != nil && x.Unexplained != "" {
			f.Summary += "; " + x.Unexplained
			if f.Unbounded && x.Rate > finerRate {
				f.Summary += fmt.Sprintf(": start the program with GODEBUG=memprofilerate=%d, or put more operations on it, to see where", finerRate)
			}
		}
	}
	return f
}

// finerRate is the sampling rate of the heap in bytes that a hint recommends if the rate was too coarse.
const finerRate = 4096

const (
	minKept = 0.8 // after idling
	// An event that occurs once per interval on average does not occur for three intervals in 5 % of cases: J. A.
	// Hanley, A. Lippman-Hand, If nothing goes wrong, is everything all right?, JAMA 249 (1983) 1743–1745.
	ruleOfThree = 3
)

// judgeGrowth judges a bound per operation, three-way. The question is whether the series grows above the bound now
// and continues. So it considers all points and, separately, the tail: the last half of them, at least four.
//
// Clean, if growth above the bound is ruled out:
//
//   - the tail's slope is within the bound, and so is its net growth from end to end. A median of slopes alone would
//     miss one big step in the tail;
//   - the upper end of a 95 % interval is within the bound, of all points (it never grew) or of the tail (growth has
//     stopped: lazy initialisation, filled caches and pools). So noise that hides a leak gives inconclusive instead
//     of clean;
//   - if it grew in more than one step, it has been flat for three times the largest number of operations between two
//     steps. So a leak of one goroutine in 50 operations, or of 1 MiB, does not look like a filled cache because 60
//     operations passed without a step.
//
// Leaking, if it grows above the bound and continues:
//
//   - the slope of all points, the lower end of its 95 % interval, and the slope of the tail exceed the bound;
//   - the trend is sustained: Mann–Kendall p within this check's share of the false-alarm budget, and no fall larger
//     than a quarter of the net growth. The measurement after idling is one more point of the test: remaining growth
//     confirms the trend, drained growth breaks it;
//   - it does not saturate: the tail has at least half the slope of all points, the last quarter of the rounds (at
//     least two) two thirds. So a pool that reached its cap one round ago does not leak;
//   - four fifths of the growth remain after idling, if that was measured. Growth that drains is not clean either:
//     resident memory that the runtime returns while idling would hide a leak;
//   - numbered goroutines are the same ones: four fifths of the growth appeared in a round and still exist;
//   - the last round had settled.
//
// Everything else is inconclusive, and so are fewer than five rounds with operations and an unsettled baseline. The
// summary names the gate that prevented a decision and a remedy.
//
// All points decide; the reported size is the slope after the onset.
func judgeGrowth(f *leak.Finding, s series, alpha float64) {
	all, ok := s.fit()
	tail := s.lastHalf()
	end, okTail := tail.fit()
	if !ok || !okTail {
		f.Summary = "no operations were attempted"
		if ok {
			f.Summary += fmt.Sprintf(" in the last %d rounds", tail.rounds())
		}
		return
	}
	gates := growthGates(f, s, tail, all, end, alpha)
	for _, g := range gates {
		f.Gates = append(f.Gates, g.recorded())
	}
	outcome, stopped := decide(gates, gateTail)
	f.Outcome = outcome
	switch {
	case outcome == leak.Leaking:
		onset := s.onset()
		f.Onset = s.points[onset].Round
		late := s.tail(len(s.points) - onset)
		if line, ok := late.fit(); ok {
			f.PerOperation, f.Low, f.High = line.Slope, line.Low, line.High
		}
		f.Exactly = late.exactly()
		f.Rhythm = late.rhythm()
		f.Summary = leakingText(f, s)
	case outcome == leak.Clean && all.Slope > f.Bound:
		// The growth that goes on is what decided, so it is the number that is shown.
		f.PerOperation, f.Low, f.High = end.Slope, end.Low, end.High
		gain, _ := s.net()
		f.Summary = fmt.Sprintf("%s, within %s: the %s before have stopped%s", headline(f), boundText(f), display.Delta(gain, f.Unit), floorText(f))
	case outcome == leak.Clean && withinBudget(gates, s, all):
		f.Summary = fmt.Sprintf("%s grows %s per operation (p = %.2g), within the budget of %s; %s%s",
			cmp.Or(f.Series, f.Unit), strings.TrimPrefix(display.Rate(f.PerOperation, f.Unit), "+"), s.trend(), boundText(f), aDay(f.PerOperation, f.Unit), floorText(f))
	case outcome == leak.Clean:
		f.Summary = fmt.Sprintf("%s, within %s%s", headline(f), boundText(f), floorText(f))
	default:
		f.Summary = fmt.Sprintf("%s%s, bound %s, but %s", headline(f), blockedAt(f), boundText(f), stopped.stop)
	}
}

// withinBudget reports whether a series grows within the bound: it meets all conditions of a leak except its size.
func withinBudget(gates []gate, s series, all stats.Line) bool {
	size := []string{"growth", "lower limit", "beyond background"}
	for _, g := range gates {
		if g.leaking == holds && !g.Holds && !slices.Contains(size, g.Name) {
			return false
		}
	}
	b, _ := s.background()
	return all.Low > b.most && all.Low > 0
}

func growthGates(f *leak.Finding, s, tail series, all, end stats.Line, alpha float64) []gate {
	unit, bound := f.Unit, f.Bound
	more := fmt.Sprintf("--rounds %d", moreRounds(len(s.points)-1, alpha))
	if s.soak {
		more = "longer soaks"
	}
	gain, _ := s.net()
	trend, drawdown := s.trendGate(s.trend(), alpha), s.drawdownGate()
	upper := min(all.High, end.High)
	gates := []gate{
		{
			compare("rounds", float64(s.loaded()), "≥", minRounds, "", "rounds with operations after the baseline; fewer show no trend"),
			holds, holds, fmt.Sprintf("a trend needs %d rounds with operations; %s", minRounds, more),
		},
		{settledGate("unsettled baseline", s.first()), holds, holds, unsettledBaseline},
		{
			s.tailGate(end, bound),
			holds, fails, "",
		},
		{
			compare("tail net growth", tail.rate(), "≤", bound, unit, "the same from end to end, which one big step cannot hide from; clean needs it"),
			holds, either, "one step in the last rounds is over the bound; " + more + " would show whether it repeats",
		},
		{
			compare("upper limit", upper, "≤", bound, unit, "growth per operation that is still possible: upper end of the 95 % interval over all points or over the tail, the smaller one; clean needs it"),
			holds, either, fmt.Sprintf("the scatter of the rounds allows %s per operation; %s or more operations per round", display.Rate(upper, unit), more),
		},
		{
			s.growthGate(all, bound),
			either, holds, "it grows only in the last rounds; " + more + " show whether it goes on",
		},
		{
			s.lowerGate(all, bound),
			either, holds, fmt.Sprintf("only %s per operation is certain; %s", display.Rate(all.Low, unit), more),
		},
	}
	if s.idle != nil {
		kept := s.idle.Value - s.first().Value
		gates = append(gates, gate{
			compare("left after idling", kept, "≥", minKept*gain, unit, "growth that is still there after the load has stopped for a while, against four fifths of it; leaking needs it"),
			either, holds, fmt.Sprintf("only %s of %s were left after idling, so it drains; raise settle.quiet", display.Delta(kept, unit), display.Delta(gain, unit)),
		})
	}
	if b, ok := s.background(); ok {
		f.Floor = s.floor()
		why := fmt.Sprintf("it grows without load, too: %s a minute, which makes %s per operation of it", display.Rate(b.perMinute, unit), display.Rate(b.perOperation, unit))
		if all.Slope-b.perOperation > bound {
			why = fmt.Sprintf("the scatter of the control rounds allows %s per operation without load; a larger control decides", display.Rate(b.most, unit))
		}
		gates = append(gates, gate{
			compare("beyond background", all.Low-b.most, ">", bound, unit, "growth per operation that is certain, without the most that the control rounds, which had no load, may have grown by in the same time (upper end of the 95 % interval); leaking needs it"),
			either, holds, why,
		})
	}
	if s.survived != nil {
		gates = append(gates, gate{
			compare("survivors", *s.survived, "≥", minKept*gain, unit, "goroutines, by their numbers, that appeared in a round and were still there in the last measurement, against four fifths of the growth: a backlog that turns over has none; leaking needs it"),
			either, holds, fmt.Sprintf("only %.0f of the goroutines that appeared in the rounds still exist: the others are new, so goroutines are transient; raise settle.quiet", *s.survived),
		})
	}
	gates = append(gates, []gate{
		{
			trend,
			either, holds, fmt.Sprintf("the trend is not sustained enough (p = %.2g, needed %.2g); %s", trend.Value, alpha, more),
		},
		{
			drawdown,
			either, holds, fmt.Sprintf("it falls by %s in between; %s", display.Value(drawdown.Value, unit), more),
		},
		{
			s.saturationGate(all, end),
			either, holds, "it is slowing down; " + more + " show whether it stops",
		},
		{
			s.lastGate(all),
			either, holds, fmt.Sprintf("it slowed down in the last %d rounds; %s show whether it stops", s.lastQuarter().rounds(), more),
		},
	}...)
	if since, gap := lull(s.axis(), s.values()); s.rate() > bound && gap > 0 {
		gates = append(gates, gate{
			compare("lull", since, "≥", ruleOfThree*gap, "", "operations since the last large rise, against three times the largest number between two rises; fewer do not show that the growth stopped; clean needs it"),
			holds, either, fmt.Sprintf("it grew in steps up to %.0f operations apart, and %.0f operations without a step do not show that it stopped; %s", gap, since, more),
		})
	}
	return append(gates, gate{settledGate("unsettled last round", s.last()), either, holds, unsettledFinal})
}

// moreRounds returns how many rounds to suggest: enough that a perfect trend, p = 1/(rounds+1)!, is significant even
// if the measurement after idling does not confirm it, and twice the current number if that was enough already.
func moreRounds(rounds int, alpha float64) int {
	need := min(PointsNeeded(alpha)-1, stats.MaxExact)
	if rounds >= need {
		return 2 * rounds
	}
	return need
}

// floorText states the smallest detectable growth, if there are control rounds.
func floorText(f *leak.Finding) string {
	if f.Floor <= 0 {
		return ""
	}
	return fmt.Sprintf("; less than %s per operation is indistinguishable from fluctuations without load", display.Rate(f.Floor, f.Unit))
}

// leakingText is "+0.98 goroutines per operation, blocked in chan send at watch.(*StreamWatcher).receive
// (137 after 140 operations; bound 0.01)" for stacks, and for metrics "heap.alloc +21.3 KiB per
// operation, sustained (p = 5.5e-06); bound 4.0 KiB".
func leakingText(f *leak.Finding, s series) string {
	note := ""
	if s.idle == nil {
		note = "; not measured again after idling"
	}
	if f.Onset > 0 {
		note = fmt.Sprintf("; since round %d%s", f.Onset+1, note)
	}
	if f.Exactly != "" {
		note = "; exactly " + f.Exactly + note
	}
	if f.Rhythm != "" && f.Rhythm != "operation" {
		note = "; it grows by the " + f.Rhythm + ", not by the operation" + note
	}
	gain, n := s.net()
	if f.Series == "" {
		return fmt.Sprintf("%s%s (%s after %.0f operations; bound %s%s)",
			headline(f), blockedAt(f), display.Value(gain, f.Unit), n, boundText(f), note)
	}
	return fmt.Sprintf("%s, sustained (p = %.2g); bound %s%s", headline(f), s.trend(), boundText(f), note)
}
