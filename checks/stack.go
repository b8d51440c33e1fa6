package checks

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// Stack bounds the goroutines on the stacks that match, or the bytes for the heap.
type Stack struct {
	Probe    string         `yaml:"probe,omitempty" doc:"probe of the stacks"`
	Match    string         `yaml:"match" doc:"Go regular expression; it must match the full name or the file:line of one frame, or the name of the creator"`
	Callers  []string       `yaml:"callers,omitempty" doc:"further regular expressions, outermost first, which must match outer frames in this order"`
	State    string         `yaml:"state,omitempty" doc:"wait state, as a goroutine dump prints it (chan send)"`
	Max      *leak.Quantity `yaml:"max,omitempty" doc:"maximum total growth over all rounds"`
	MaxPerOp *leak.Quantity `yaml:"maxPerOp,omitempty" doc:"maximum growth per operation; without it and without max, any sustained growth is a leak"`
	Each     bool           `yaml:"each,omitempty" doc:"judge each matching stack separately instead of their sum, so that a shrinking stack cannot hide a growing one"`
}

// Reads returns the probe of the judged stacks.
func (c *Stack) Reads() (probe, metric string) { return c.Probe, "" }

// TestsTrend reports whether the check uses the false-alarm budget.
func (c *Stack) TestsTrend() bool { return c.Max == nil }

// Validate returns all problems of the configuration.
func (c *Stack) Validate() error {
	errs := []error{needProbe(c.Probe)}
	if _, err := regexp.Compile(c.Match); err != nil {
		errs = append(errs, &leak.FieldError{Field: "match", Problem: err.Error(), Hint: "brackets and stars in names are escaped: \\(\\*StreamWatcher\\)\\.receive"})
	} else if c.Match == "" {
		errs = append(errs, &leak.FieldError{Field: "match", Problem: "is missing", Hint: "part of a function's name will do"})
	}
	for _, caller := range c.Callers {
		if _, err := regexp.Compile(caller); err != nil {
			errs = append(errs, &leak.FieldError{Field: "callers", Problem: err.Error(), Hint: "part of a function's name will do"})
		}
	}
	if c.Max != nil && c.MaxPerOp != nil {
		errs = append(errs, &leak.FieldError{Field: "maxPerOp", Problem: "cannot be combined with max", Hint: "write two checks"})
	}
	if c.Max != nil {
		errs = append(errs, needBound("max", *c.Max))
	}
	if c.Each && c.Max != nil {
		errs = append(errs, &leak.FieldError{Field: "each", Problem: "cannot be combined with max", Hint: "max is a bound on the sum"})
	}
	return errors.Join(append(errs, optionalBound("maxPerOp", c.MaxPerOp))...)
}

// Check judges the sum of the stacks that match.
func (c *Stack) Check(of leak.Evidence) leak.Finding {
	e := evidence{of}
	f := e.finding("stack")
	if err := c.Validate(); err != nil {
		return undecided(f, err)
	}
	if c.Max != nil {
		f.Bound = float64(*c.Max)
	} else {
		perOperation(&f, c.MaxPerOp)
	}
	census, err := e.census(c.Probe)
	if err != nil {
		return undecided(f, err)
	}
	m := c.matcher(census, e.allowed(c.Probe))
	s := series{unit: census.unit, unseen: census.unseen()}
	err = e.read(&s, m.sum)
	s.survived = m.survived()
	f.Stacks, f.Spread = census.growing(func(id string) bool { return m.stacks[id].matches })
	if c.Each && err == nil {
		if worst := m.worst(e, f); worst != nil {
			return *worst
		}
	}
	f = e.judge(f, s, err)
	switch {
	case census.fallback:
		f.Summary += " (from pprof profiles, without creators: not every snapshot has a text dump)"
	case len(f.Stacks) == 0 && err == nil:
		f.Summary += " (no stack matches)"
	}
	return f
}

// match says which parts of a Stack check a stack meets.
type match struct{ frames, creator, matches bool }

// pattern is a Stack check with its regular expressions compiled.
type pattern struct {
	match *regexp.Regexp
	// path is match with its callers before it, outermost first.
	path  []*regexp.Regexp
	state string
}

func (c *Stack) compile() pattern {
	p := pattern{match: regexp.MustCompile(c.Match), state: c.State}
	for _, caller := range c.Callers {
		p.path = append(p.path, regexp.MustCompile(caller))
	}
	p.path = append(p.path, p.match)
	return p
}

// classify matches the parts of a stack. State has to be equal, if one is asked for. A creator has no
// callers that could be matched.
func (p pattern) classify(s leak.Stack) match {
	m := match{
		frames:  p.leads(s.Frames),
		creator: len(p.path) == 1 && s.Creator != nil && p.match.MatchString(s.Creator.Func),
	}
	m.matches = (m.frames || m.creator) && (p.state == "" || p.state == s.State)
	return m
}

// leads reports whether the path matches the frames, which are innermost first, in order. Each step takes the
// outermost matching frame, which leaves most for the next.
func (p pattern) leads(frames []leak.Frame) bool {
	step := 0
	for _, f := range slices.Backward(frames) {
		if re := p.path[step]; re.MatchString(f.Func) || re.MatchString(f.Position()) {
			if step++; step == len(p.path) {
				return true
			}
		}
	}
	return false
}

// matcher is a Stack check over a census, every stack matched once.
type matcher struct {
	*census
	stacks map[string]match
	// stateless is set if the check needs a wait state that this source lacks.
	stateless bool
}

func (c *Stack) matcher(census *census, allowed func(leak.Stack) bool) matcher {
	p := c.compile()
	m := matcher{census: census, stacks: map[string]match{}, stateless: c.State != "" && !census.states[c.State]}
	for id, s := range census.stacks {
		if allowed == nil || !allowed(s) {
			m.stacks[id] = p.classify(s)
		}
	}
	return m
}

// sum adds up the matching groups. Data that a profile lacks is an error instead of a zero: a required wait state,
// and a stack that only its creator would match.
func (m matcher) sum(shot *leak.Snapshot) (float64, error) {
	const needsDump = "which needs a text dump (goroutine?debug=2) in every snapshot"
	sum := 0.0
	for _, g := range groups(shot, m.probe, m.source) {
		s := m.census.stacks[g.Stack]
		if m.stateless && s.State == "" && m.stacks[g.Stack].frames {
			return 0, fmt.Errorf("the wait state of %s is not known, %s", place(s), needsDump)
		}
		if m.stacks[g.Stack].matches {
			sum += m.amount(g)
		}
	}
	if !m.fallback {
		return sum, nil
	}
	for _, g := range groups(shot, m.probe, "dump") {
		if hit := m.stacks[g.Stack]; hit.creator && !hit.frames {
			return 0, fmt.Errorf("%s matches by its creator, %s", place(m.census.stacks[g.Stack]), needsDump)
		}
	}
	return sum, nil
}

// survived counts the survivors on the stacks that match, nil where some snapshot has no numbers.
func (m matcher) survived() *float64 {
	if len(m.shots) == 0 {
		return nil
	}
	n := 0.0
	for _, groups := range m.census.groups {
		for id, g := range groups {
			if m.stacks[id].matches && g.Count > 0 && len(g.IDs) == 0 {
				return nil
			}
		}
	}
	for id := range m.stacks {
		if m.stacks[id].matches {
			n += float64(m.survivors(id).Len())
		}
	}
	return &n
}

// survivedOn counts the survivors on one stack, nil without goroutine numbers.
func (m matcher) survivedOn(id string) *float64 {
	only := m
	only.stacks = map[string]match{id: m.stacks[id]}
	return only.survived()
}

// matchOne returns the check as a predicate on stacks.
func (c *Stack) matchOne() func(leak.Stack) bool {
	p := c.compile()
	return func(s leak.Stack) bool { return p.classify(s).matches }
}
