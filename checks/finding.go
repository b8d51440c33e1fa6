package checks

import (
	"fmt"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// finding starts a finding, inconclusive until its series has been judged.
func (e evidence) finding(kind string) leak.Finding {
	return leak.Finding{Check: e.Check, Kind: kind, Gates: []leak.Gate{}}
}

// undecided ends a finding that could not be judged.
func undecided(f leak.Finding, err error) leak.Finding {
	f.Outcome = leak.Inconclusive
	f.Summary = strings.ReplaceAll(err.Error(), "\n", "; ")
	return f
}

// judge holds the series against the finding's bound.
func (e evidence) judge(f leak.Finding, s series, err error) leak.Finding {
	f.Series, f.Unit, f.Outside, f.Points = s.name, s.unit, s.outside, s.allPoints()
	if err != nil {
		return undecided(f, err)
	}
	if line, ok := s.fit(); ok {
		f.PerOperation, f.Low, f.High = line.Slope, line.Low, line.High
	}
	switch {
	case f.Unbounded:
		judgeSustained(&f, s, e)
	case f.BoundPerOperation:
		judgeGrowth(&f, s, e.Alpha)
	default:
		judgeDelta(&f, s)
	}
	// What exists is judged, so that a broken run still informs, but it decides nothing.
	if have := s.last().Round; have < e.Rounds || e.Rounds < 1 {
		f.Outcome = leak.Inconclusive
		f.Summary += fmt.Sprintf(" (only %d of %d planned rounds were measured)", have, e.Rounds)
	}
	return f
}

// perOperation makes the finding one on growth per operation: over the bound, or without one on any that is
// sustained.
func perOperation(f *leak.Finding, bound *leak.Quantity) {
	f.BoundPerOperation, f.Unbounded = true, bound == nil
	if bound != nil {
		f.Bound = float64(*bound)
	}
}

// amount names the growth: "heap.alloc +21.3 KiB" or, for stacks, "+137 goroutines".
func amount(f *leak.Finding, s string) string {
	switch {
	case f.Series != "":
		return f.Series + " " + s
	case f.Unit == "goroutines":
		return s + " goroutines"
	}
	return s
}

const rateSuffix = " per operation"

// headline is the growth that the finding is about: per operation or in all, as its bound is.
func headline(f *leak.Finding) string {
	if f.BoundPerOperation {
		return amount(f, display.Rate(f.PerOperation, f.Unit)) + rateSuffix
	}
	first, last := f.Ends()
	return amount(f, display.Delta(last-first, f.Unit))
}

// at is " at watch.(*StreamWatcher).receive" if one stack has most of the growth, else ", spread over 151 stacks, all
// started at main.go:31". It is "" where no stack grew.
func at(f *leak.Finding) string {
	switch {
	case len(f.Stacks) == 0 || f.Stacks[0].To <= f.Stacks[0].From:
		return ""
	case f.Spread.Share(f.Stacks[0]) < leak.MinMost:
		return ", " + spreadOver(f.Spread, f.Unit == "bytes")
	}
	return " at " + placeOf(f.Stacks[0])
}

// spreadOver is "spread over 151 stacks, all started at main.go:31".
func spreadOver(s *leak.Spread, heap bool) string {
	noun := "stacks"
	if heap {
		noun = "allocation sites"
	}
	text := fmt.Sprintf("spread over %d %s", s.Stacks, noun)
	if s.Started != "" {
		text += ", all started at " + s.Started
	}
	return text
}

// blockedAt is at with the wait state and the number of other stacks that grew.
func blockedAt(f *leak.Finding) string {
	where := at(f)
	if where == "" || strings.HasPrefix(where, ",") {
		return where
	}
	if state := f.Stacks[0].Stack.State; strings.HasPrefix(state, "run") {
		where = ", " + state + where
	} else if state != "" {
		where = ", blocked in " + state + where
	}
	others := 0
	for _, g := range f.Stacks[1:] {
		if g.To > g.From {
			others++
		}
	}
	if f.Spread != nil {
		others = f.Spread.Stacks - 1 // Stacks are the largest
	}
	switch others {
	case 0:
		return where
	case 1:
		return where + " and on 1 more stack"
	}
	return fmt.Sprintf("%s and on %d more stacks", where, others)
}

// placeOf names the code that a growing stack belongs to.
func placeOf(g leak.StackGrowth) string {
	if g.Who != nil && g.Who.Short() != "" {
		return g.Who.Short()
	}
	return place(g.Stack)
}

func place(s leak.Stack) string {
	if at := s.Origin().Short(); at != "" {
		return at
	}
	return leak.Stack{Frames: s.Frames}.String()
}

// boundText is the bound as people write it.
func boundText(f *leak.Finding) string { return display.Value(f.Bound, f.Unit) }
