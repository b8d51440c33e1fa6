package bisect

import (
	"math/bits"
	"slices"
)

// most is how often an undecided version is measured before it is skipped.
const most = 2

// search is a search over candidates in order. It is stateless: everything follows from the steps.
type search struct {
	candidates []Candidate
	steps      []Step
	// bad and good are the given ends, "" if none: then the first and the last decided candidates are the ends.
	bad, good      string
	repeats, spots int
}

// seen is what the steps say of one candidate.
type seen struct {
	leaky, clean, unsure, skipped int
}

func (s seen) decided() int { return s.leaky + s.clean }

// state returns the state of the candidate, "" if it must be measured, or measured again. One measurement that leaks
// outweighs any that do not: the judgement has a budget for false alarms, but an intermittent leak has none for misses.
func (s seen) state() State {
	switch {
	case s.leaky > 0:
		return Leaky
	case s.clean > 0:
		return Clean
	case s.skipped > 0, s.unsure >= most:
		return Skipped
	}
	return ""
}

func (s *search) seen(i int) seen {
	var all seen
	for _, step := range s.steps {
		if step.Version != s.candidates[i].Version {
			continue
		}
		switch step.State {
		case Leaky:
			all.leaky++
		case Clean:
			all.clean++
		case Unsure:
			all.unsure++
		default:
			all.skipped++
		}
	}
	return all
}

func (s *search) state(i int) State { return s.seen(i).state() }

func (s *search) index(version string) int {
	return slices.IndexFunc(s.candidates, func(c Candidate) bool { return c.Version == version })
}

// todo is a measurement that is needed.
type todo struct {
	at  int
	why string
}

// found is the state of a search.
type found struct {
	// next is nil when there is nothing left to measure.
	next *todo
	// lo and hi are the innermost ends of both sides; -1 if a side has none.
	lo, hi int
	// against are candidates outside lo and hi that do not go with their side.
	against []int
	// wrong are ends whose state is not as given.
	wrong []int
	// stuck is an undecided end, "" if both are decided.
	stuck string
}

// look returns the state of the search.
func (s *search) look() found {
	f := found{lo: -1, hi: -1}
	if len(s.candidates) == 0 {
		return f
	}
	if f = s.ends(); f.next != nil || f.stuck != "" || len(f.wrong) > 0 || f.lo < 0 || s.state(f.lo) == s.state(f.hi) {
		return f
	}
	if f.next = s.between(&f); f.next != nil {
		return f
	}
	if f.next = s.verify(f); f.next != nil {
		return f
	}
	f.next = s.spot(&f)
	return f
}

// ends measures the ends, the bad one first: a leakrig that does not see the leak there sees it nowhere.
func (s *search) ends() found {
	f := found{lo: 0, hi: len(s.candidates) - 1}
	order := []int{f.lo, f.hi}
	if s.bad != "" && s.index(s.bad) == f.hi {
		order = []int{f.hi, f.lo}
	}
	for _, at := range order {
		if s.said(at) == "" {
			continue
		}
		switch state := s.state(at); {
		case state == "":
			f.next = &todo{at, "the end that was given as " + string(s.said(at))}
			return f
		case state == Skipped:
			f.stuck = s.candidates[at].Version
			return f
		case state == Clean && s.said(at) == Leaky && s.short(at):
			// Before it is called wrong: a leak that comes now and then may have stayed away.
			f.next = &todo{at, "again: it was given as leaky"}
			return f
		case state != s.said(at):
			f.wrong = append(f.wrong, at)
		}
	}
	if s.bad != "" {
		return f
	}
	// The ends of a release line are not given: they are the outermost decided candidates.
	for f.lo < len(s.candidates) && s.state(f.lo) == Skipped {
		f.lo++
	}
	for f.hi >= f.lo && s.state(f.hi) == Skipped {
		f.hi--
	}
	switch {
	case f.lo > f.hi:
		return found{lo: -1, hi: -1}
	case s.state(f.lo) == "":
		f.next = &todo{f.lo, "the first of its line"}
	case s.state(f.hi) == "":
		f.next = &todo{f.hi, "the last of its line"}
	}
	return f
}

// said returns the given state of a candidate.
func (s *search) said(at int) State {
	switch s.candidates[at].Version {
	case s.bad:
		return Leaky
	case s.good:
		return Clean
	}
	return ""
}

// between halves the range between the ends, and moves them to the boundary.
func (s *search) between(f *found) *todo {
	// The order is that of the measurements, so that a version that turned out to leak reopens the search at that
	// point.
	for _, step := range s.steps {
		if at := s.index(step.Version); at > f.lo && at < f.hi {
			switch s.state(at) {
			case s.state(f.lo):
				f.lo = at
			case s.state(f.hi):
				f.hi = at
			}
		}
	}
	var open []int
	for at := f.lo + 1; at < f.hi; at++ {
		if s.state(at) == "" {
			open = append(open, at)
		}
	}
	if len(open) == 0 {
		return nil
	}
	// Versions that do not build are often neighbours: each failed try doubles the distance to the next one.
	at := open[len(open)/2]
	if away := min(1<<min(s.skippedLast(), 20)-1, len(open)/4); away > 0 {
		at = open[len(open)/2-away]
	}
	why := "halves what is left"
	if s.seen(at).unsure > 0 {
		why = "again: it was undecided"
	}
	return &todo{at, why}
}

// skippedLast is how many of the last steps were skipped in a row.
func (s *search) skippedLast() int {
	n := 0
	for i := len(s.steps) - 1; i >= 0 && s.steps[i].State == Skipped; i-- {
		n++
	}
	return n
}

// verify measures the two neighbours of the boundary again.
func (s *search) verify(f found) *todo {
	for _, at := range []int{f.lo, f.hi} {
		if s.short(at) {
			return &todo{at, "again: a neighbour of the boundary"}
		}
	}
	return nil
}

// short reports whether a candidate was measured less often than the neighbours of the boundary require.
func (s *search) short(at int) bool {
	seen := s.seen(at)
	return seen.decided() < 1+s.repeats && seen.unsure <= most && seen.skipped == 0
}

// spot checks versions far from the boundary, within the budget, and records those that differ from their side.
func (s *search) spot(f *found) *todo {
	for at := range s.candidates {
		side := s.state(f.lo)
		if at >= f.hi {
			side = s.state(f.hi)
		}
		state := s.state(at)
		if state != Leaky && state != Clean || at > f.lo && at < f.hi {
			continue
		}
		if state == side {
			continue
		}
		if state == Clean && s.short(at) { // the leak may have stayed away for once
			return &todo{at, "again: it does not go with its side"}
		}
		f.against = append(f.against, at)
	}
	measured, spotted := 0, 0
	for _, step := range s.steps {
		if s.index(step.Version) < 0 {
			continue // of another release line
		}
		if step.measured() {
			measured++
		}
		if step.Why == whySpot {
			spotted++
		}
	}
	if len(f.against) > 0 || spotted >= s.spots || measured >= Budget(len(s.candidates)) {
		return nil
	}
	from, to := s.widest(0, f.lo), s.widest(f.hi, len(s.candidates)-1)
	gap := from
	if to[1]-to[0] > from[1]-from[0] {
		gap = to
	}
	if gap[1]-gap[0] < 2 {
		return nil
	}
	return &todo{(gap[0] + gap[1]) / 2, whySpot}
}

const whySpot = "a look far from the boundary"

// widest are the ends of the longest row of unmeasured candidates between two that lie on one side.
func (s *search) widest(lo, hi int) [2]int {
	best := [2]int{lo, lo}
	last := lo
	for at := lo + 1; at <= hi; at++ {
		if s.state(at) == "" {
			continue
		}
		if at-last > best[1]-best[0] {
			best = [2]int{last, at}
		}
		last = at
	}
	return best
}

// Budget is the most measured steps that a search over n candidates takes, where none has to be repeated: the
// ends, the halving, each neighbour once more, and two looks elsewhere.
func Budget(n int) int {
	if n < 2 {
		return n
	}
	return bits.Len(uint(n-1)) + 6
}
