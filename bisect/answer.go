package bisect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Kinds of answers.
const (
	// Fixed: the newer side is clean. Broken: the newer side leaks.
	Fixed  = "fixed"
	Broken = "broken"
	// AllLeak and NoneLeaks: both ends are alike.
	AllLeak   = "all leak"
	NoneLeaks = "none leaks"
	// Wrong: an end is not as given. Untold: an end is undecided.
	Wrong  = "not as expected"
	Untold = "undecided"
)

// Answer is what a search over one range came to.
type Answer struct {
	// Line is the release line, "" for the whole range.
	Line string `json:"line,omitempty"`
	Kind string `json:"kind"`
	// Leaky and Clean are the neighbours of the boundary, "" if there is none.
	Leaky string `json:"leaky,omitempty"`
	Clean string `json:"clean,omitempty"`
	// First and Last are the outermost versions that were measured.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	// LeakyRuns of LeakyOf measurements of the leaky neighbour leaked; all CleanOf of the clean one were clean.
	LeakyRuns int `json:"leakyRuns,omitempty"`
	LeakyOf   int `json:"leakyOf,omitempty"`
	CleanOf   int `json:"cleanOf,omitempty"`
	// Between are versions between the neighbours that were unavailable or undecided.
	Between []Missing `json:"between,omitempty"`
	// LeftOut are versions between the neighbours that were no candidates.
	LeftOut []Missing `json:"leftOut,omitempty"`
	// Against are versions that do not go with their side of the boundary: there is more than one.
	Against  []string    `json:"against,omitempty"`
	Result   leak.Result `json:"result"`
	Sentence string      `json:"sentence"`
}

// answer says what a search came to, whose steps were all taken.
func (s *search) answer(f found, missing, leftOut []Missing) Answer {
	a := Answer{Line: s.line()}
	switch {
	case f.stuck != "":
		a.Kind, a.Result = Untold, leak.Undecided
		if s.seen(s.index(f.stuck)).unsure == 0 {
			a.Result = leak.Unmeasured
		}
		a.Sentence = fmt.Sprintf("%s, an end of the range, %s: %s", s.name(s.index(f.stuck)), s.lost(s.index(f.stuck)), s.reason(s.index(f.stuck)))
		return a
	case f.lo < 0:
		a.Kind, a.Result, a.Sentence = Untold, leak.Unmeasured, "no version was available and decided"
		return a
	case len(f.wrong) > 0:
		a.Kind, a.Result = Wrong, leak.NotMet
		a.Sentence = s.wrongEndsSentence(f.wrong)
		return a
	}
	a.First, a.Last = s.candidates[f.lo].Version, s.candidates[f.hi].Version
	if s.state(f.lo) == s.state(f.hi) {
		s.alike(&a, f)
		return a
	}
	leaky, clean := f.lo, f.hi
	a.Kind = Fixed
	if s.state(f.hi) == Leaky {
		a.Kind, leaky, clean = Broken, f.hi, f.lo
	}
	a.First, a.Last = s.outermost()
	a.Leaky, a.Clean = s.candidates[leaky].Version, s.candidates[clean].Version
	a.LeakyRuns, a.LeakyOf, a.CleanOf = s.seen(leaky).leaky, s.seen(leaky).decided(), s.seen(clean).clean
	for at := f.lo + 1; at < f.hi; at++ {
		a.Between = append(a.Between, Missing{s.candidates[at].Version, s.reason(at)})
	}
	lo, hi := s.candidates[f.lo].Version, s.candidates[f.hi].Version
	a.Between = append(a.Between, inside(missing, lo, hi)...)
	a.LeftOut = inside(leftOut, lo, hi)
	for _, at := range f.against {
		a.Against = append(a.Against, s.candidates[at].Version)
	}
	s.conclude(&a, leaky, clean)
	return a
}

func (s *search) line() string {
	if s.bad != "" {
		return ""
	}
	return s.candidates[0].Line
}

func (s *search) name(at int) string { return s.candidates[at].Name() }

// names are those of candidates, by version.
func (s *search) names(versions []string) []string {
	var names []string
	for _, v := range versions {
		if at := s.index(v); at >= 0 {
			v = s.name(at)
		}
		names = append(names, v)
	}
	return names
}

// outermost returns the first and the last decided versions.
func (s *search) outermost() (first, last string) {
	for at, c := range s.candidates {
		if state := s.state(at); state == Leaky || state == Clean {
			if first == "" {
				first = c.Version
			}
			last = c.Version
		}
	}
	return first, last
}

// reason is what the last step on a candidate said.
func (s *search) reason(at int) string {
	reason := ""
	for _, step := range s.steps {
		if step.Version == s.candidates[at].Version {
			reason = step.Reason
		}
	}
	return reason
}

// lost says in what way a version was lost.
func (s *search) lost(at int) string {
	if s.seen(at).unsure > 0 {
		return "was undecided"
	}
	return "was unavailable"
}

func (s *search) wrongEndsSentence(wrong []int) string {
	if len(wrong) == 2 {
		return fmt.Sprintf("it is the other way round: %s leaks, and %s does not", s.goodName(), s.badName())
	}
	at := wrong[0]
	if s.candidates[at].Version == s.good {
		return fmt.Sprintf("%s was given as good, but it leaks: %s", s.name(at), s.reason(at))
	}
	return fmt.Sprintf("%s was given as bad, but it does not leak: %s", s.name(at), s.reason(at))
}

func (s *search) goodName() string { return s.name(s.index(s.good)) }
func (s *search) badName() string  { return s.name(s.index(s.bad)) }

// alike is the answer where both ends are in the same state.
func (s *search) alike(a *Answer, f found) {
	a.Kind, a.Result = AllLeak, leak.Met
	says, verb, verbs := "never fixed", "leaks", "leak"
	if s.state(f.lo) == Clean {
		a.Kind = NoneLeaks
		says, verb, verbs = "clean", "does not leak", "do not leak"
	}
	if f.lo == f.hi {
		a.Sentence = fmt.Sprintf("%s: %s, the only available version, %s", says, s.name(f.lo), verb)
		return
	}
	a.Sentence = fmt.Sprintf("%s: %s and %s, the first and the last available version, %s", says, s.name(f.lo), s.name(f.hi), verbs)
}

// conclude writes the sentence about a boundary and decides how reliable it is.
func (s *search) conclude(a *Answer, leaky, clean int) {
	if a.Kind == Fixed {
		a.Sentence = fmt.Sprintf("fixed in %s; last leaky %s", s.named(clean), s.name(leaky))
	} else {
		a.Sentence = fmt.Sprintf("leaks since %s; last clean %s", s.named(leaky), s.name(clean))
	}
	a.Result = leak.Met
	if a.LeakyRuns < a.LeakyOf {
		a.Result = leak.Undecided
		a.Sentence += fmt.Sprintf("; the leak is intermittent: %s leaked in %d of %d measurements, so a clean result may be due to chance", s.name(leaky), a.LeakyRuns, a.LeakyOf)
	}
	for _, at := range []int{leaky, clean} {
		if s.seen(at).decided() < 1+s.repeats {
			a.Result = leak.Undecided
			a.Sentence += fmt.Sprintf("; %s was undecided when repeated", s.name(at))
		}
	}
	if len(a.Between) > 0 {
		a.Sentence += "; unavailable or undecided between them: " + strings.Join(s.names(versions(a.Between)), ", ")
	}
	if n := len(a.LeftOut); n > 0 && n <= 3 {
		a.Sentence += "; not tested between them: " + strings.Join(versions(a.LeftOut), ", ")
	} else if n > 0 {
		a.Sentence += fmt.Sprintf("; %d versions between them were not tested, %s to %s", n, a.LeftOut[0].Version, a.LeftOut[n-1].Version)
	}
	if len(a.Against) > 0 {
		a.Result = leak.Undecided
		a.Sentence += fmt.Sprintf("; not the only boundary: %s does not go with its side", strings.Join(s.names(a.Against), ", "))
	}
}

// named is a version with the first line of its commit.
func (s *search) named(at int) string {
	if c := s.candidates[at]; c.Title != "" {
		return fmt.Sprintf("%s (%s)", c.Name(), c.Title)
	}
	return s.name(at)
}

// inside returns the versions strictly between two others.
func inside(all []Missing, lo, hi string) []Missing {
	var in []Missing
	for _, m := range all {
		if between(m.Version, lo, hi) {
			in = append(in, m)
		}
	}
	return in
}

func versions(missing []Missing) []string {
	var all []string
	for _, m := range missing {
		if !slices.Contains(all, m.Version) {
			all = append(all, m.Version)
		}
	}
	return all
}
