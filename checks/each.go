package checks

import (
	"github.com/leakrig/leakrig/leak"
)

// ComeAndGo is how many goroutines more or less on one stack of many say nothing.
const ComeAndGo = 2

// worst judges every matching stack separately and returns the finding on the stack that leaks most, or else on an
// undecided one; nil if each is within the bound. All stacks of the record share the check's part of the false-alarm
// budget.
func (m matcher) worst(e evidence, f leak.Finding) *leak.Finding {
	var ids []string
	for id := range m.stacks {
		if m.stacks[id].matches {
			ids = append(ids, id)
		}
	}
	e.Alpha /= float64(max(len(ids), 1))
	var worst *leak.Finding
	for _, id := range ids {
		s := series{unit: m.unit}
		err := e.read(&s, func(shot *leak.Snapshot) (float64, error) { return m.counts[shot][id], nil })
		if gain, _ := s.net(); err == nil && (!f.Unbounded && s.rate() <= f.Bound || m.unit == "goroutines" && gain <= ComeAndGo) {
			continue // transient, but not growing
		}
		one := f
		one.Gates = []leak.Gate{}
		one.Stacks, one.Spread = m.growing(func(other string) bool { return other == id })
		s.survived = m.survivedOn(id)
		one = e.judge(one, s, err)
		if one.Outcome == leak.Clean || worst != nil && !leaksMore(&one, worst) {
			continue
		}
		worst = &one
	}
	return worst
}

// leaksMore reports whether one leaks and the other does not, or leaks more.
func leaksMore(one, other *leak.Finding) bool {
	if (one.Outcome == leak.Leaking) != (other.Outcome == leak.Leaking) {
		return one.Outcome == leak.Leaking
	}
	if one.PerOperation != other.PerOperation {
		return one.PerOperation > other.PerOperation
	}
	return one.Stacks[0].ID < other.Stacks[0].ID // the same record gives the same verdict
}
