package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// maxStacks bounds the lists of stacks in a verdict.
const maxStacks = 20

// census is how much stood on every stack at every snapshot, from one source.
type census struct {
	probe, source, unit string
	// fallback is set where some snapshots have a text dump, but not all.
	fallback bool
	shots    []leak.Snapshot
	stacks   map[string]leak.Stack
	binary   leak.SubjectInfo
	whose    leak.Attribution
	// states are the wait states that were seen.
	states map[string]bool
	// groups and counts are keyed by the snapshots' addresses, idle included, then by stack.
	counts map[*leak.Snapshot]map[string]float64
	groups map[*leak.Snapshot]map[string]leak.Group
	// end is the last measurement, which is the one after idling if there is one.
	end *leak.Snapshot
}

// census counts the groups of probe: text dumps if every snapshot has one, else pprof profiles for
// all, never a mixture. A snapshot without groups, or a group without its stack, is an error.
func (e evidence) census(probe string) (*census, error) {
	c := &census{
		probe: probe, unit: "goroutines", stacks: e.Variant.Stacks, binary: e.Variant.Binary(probe), whose: e.Attribution,
		shots:  wholeRounds(&e.Variant, e.Rounds),
		counts: map[*leak.Snapshot]map[string]float64{},
		groups: map[*leak.Snapshot]map[string]leak.Group{},
		states: map[string]bool{},
	}
	all := make([]*leak.Snapshot, 0, len(c.shots)+1)
	for i := range c.shots {
		all = append(all, &c.shots[i])
	}
	if e.Variant.Idle != nil {
		all = append(all, e.Variant.Idle)
	}
	if len(all) > 0 {
		c.end = all[len(all)-1]
	}
	c.chooseSource(append(all, pointersTo(e.Variant.Control)...))
	for i := range e.Variant.Control {
		if err := c.count(&e.Variant.Control[i]); err != nil {
			return nil, fmt.Errorf("control round %d: %w", i, err)
		}
	}
	for i, shot := range all {
		name := roundName(shot.Round)
		if i == len(c.shots) {
			name = "after idling"
		}
		if err := c.count(shot); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, nil
}

func pointersTo(shots []leak.Snapshot) []*leak.Snapshot {
	var list []*leak.Snapshot
	for i := range shots {
		list = append(list, &shots[i])
	}
	return list
}

func (c *census) chooseSource(all []*leak.Snapshot) {
	switch leak.ProbeKind(c.probe) {
	case "heap":
		c.source, c.unit = "heap", "bytes"
		return
	case "leaked":
		c.source = "leaked"
		return
	}
	dumps := 0
	for _, shot := range all {
		if len(groups(shot, c.probe, "dump")) > 0 {
			dumps++
		}
	}
	c.source = "dump"
	if dumps < len(all) {
		c.source, c.fallback = "profile", dumps > 0
	}
}

// unseen returns the growth of a stack that a sampled heap profile misses with a probability of 5 %, by the rule of
// three. Other profiles have no sampling rate.
func (c *census) unseen() float64 {
	if len(c.shots) == 0 {
		return 0
	}
	if rate := c.shots[len(c.shots)-1].Sample(c.probe).Rate; rate > 1 {
		return ruleOfThree * float64(rate)
	}
	return 0
}

func groups(shot *leak.Snapshot, probe, source string) []leak.Group {
	if sample := shot.Sample(probe); sample != nil {
		return sample.Groups[source]
	}
	return nil
}

func (c *census) count(shot *leak.Snapshot) error {
	sample := shot.Sample(c.probe)
	if sample == nil {
		return fmt.Errorf("no sample of the probe %s", c.probe)
	}
	list, ok := sample.Groups[c.source]
	// A program that runs has a goroutine; its sampled heap may be empty, and nothing may have leaked.
	if !ok || (len(list) == 0 && c.source != "heap" && c.source != "leaked") {
		return fmt.Errorf("the sample of the probe %s has no stacks (%s)", c.probe, c.source)
	}
	counts, groups := map[string]float64{}, map[string]leak.Group{}
	for _, g := range list {
		stack, ok := c.stacks[g.Stack]
		if !ok {
			return fmt.Errorf("stack %s is not in the record", g.Stack)
		}
		c.states[stack.State] = true
		n := c.amount(g)
		counts[g.Stack] += n
		groups[g.Stack] = g
		if n < 0 || counts[g.Stack] > maxValue {
			return fmt.Errorf("stack %s counts %v", g.Stack, n)
		}
	}
	c.counts[shot], c.groups[shot] = counts, groups
	return nil
}

// amount is what a group counts for: bytes of the heap, else goroutines.
func (c *census) amount(g leak.Group) float64 {
	if c.source == "heap" {
		return float64(g.Bytes)
	}
	return float64(g.Count)
}

// growing lists the stacks that keep picks, largest growth first, at most maxStacks. The spread is the growth of all of
// them, nil if none grew.
func (c *census) growing(keep func(id string) bool) ([]leak.StackGrowth, *leak.Spread) {
	if len(c.shots) == 0 {
		return nil, nil
	}
	first, last := c.counts[&c.shots[0]], c.counts[&c.shots[len(c.shots)-1]]
	seen := map[string]bool{}
	var list []leak.StackGrowth
	for i := range c.shots {
		for id := range c.counts[&c.shots[i]] {
			if seen[id] {
				continue
			}
			seen[id] = true
			if !keep(id) {
				continue
			}
			list = append(list, leak.StackGrowth{ID: id, Stack: c.stacks[id], From: int64(first[id]), To: int64(last[id])})
		}
	}
	slices.SortFunc(list, func(a, b leak.StackGrowth) int {
		return cmp.Or(cmp.Compare(b.To-b.From, a.To-a.From), cmp.Compare(b.To, a.To), cmp.Compare(a.ID, b.ID))
	})
	spread := c.spread(list)
	list = list[:min(len(list), maxStacks)]
	for i := range list {
		if leak.ProbeKind(c.probe) != c.probe {
			list[i].Probe = c.probe
		}
		list[i].PerOperation = c.slope(list[i].ID)
		list[i].Module = module(list[i].Stack, c.binary.Modules)
		list[i].Stack = c.binary.ActualStack(list[i].Stack)
		who := c.whose.Who(list[i].Stack)
		list[i].Who, list[i].Caller = &who, c.whose.Caller(list[i].Stack, c.binary)
		if c.source == "heap" {
			list[i].Objects = c.groups[&c.shots[len(c.shots)-1]][list[i].ID].Count - c.groups[&c.shots[0]][list[i].ID].Count
		}
		list[i].Survived = c.survivors(list[i].ID).Len()
		list[i].OldestMinutes = c.groups[c.end][list[i].ID].OldestMinutes
	}
	return list, spread
}

// ownThreads reports whether an allocation site is the runtime's alone (runtime.mstart, runtime.systemstack), and grew by less than
// a byte per operation: descriptors of new threads, which no operation causes.
func (c *census) ownThreads(id string) bool {
	if c.unit != "bytes" || slices.ContainsFunc(c.stacks[id].Frames, func(f leak.Frame) bool { return f.Package() != "runtime" }) {
		return false
	}
	first, last := &c.shots[0], &c.shots[len(c.shots)-1]
	return c.counts[last][id]-c.counts[first][id] < float64(last.Operations-first.Operations)
}

// spread returns the growth of all stacks, nil if none grew.
func (c *census) spread(list []leak.StackGrowth) *leak.Spread {
	s := &leak.Spread{Probe: c.probe}
	for _, g := range list {
		gain := g.To - g.From
		if gain <= 0 {
			continue
		}
		creator := g.Stack.Creator
		if creator != nil {
			actual := c.binary.Actual(*creator)
			creator = &actual
		}
		switch {
		case s.Stacks == 0:
			s.Creator = creator
		case s.Creator != nil && (creator == nil || *creator != *s.Creator):
			s.Creator = nil
		}
		s.Stacks++
		s.Grew += gain
		s.Largest = max(s.Largest, gain)
	}
	if s.Stacks == 0 {
		return nil
	}
	if s.Creator != nil {
		s.Started = c.binary.Position(*s.Creator)
	}
	return s
}

// survivors are the goroutines on a stack that were not there at the baseline, were seen after a round, and
// are still there at the end: a leak is made of them, a pool or a queue that turns over is not.
func (c *census) survivors(id string) leak.IDs {
	fresh := c.groups[c.end][id].IDs.Without(c.groups[&c.shots[0]][id].IDs)
	rest := fresh
	for i := 1; i < len(c.shots) && len(rest) > 0; i++ {
		rest = rest.Without(c.groups[&c.shots[i]][id].IDs)
	}
	return fresh.Without(rest)
}

// slope returns the growth per operation of one stack, 0 without operations.
func (c *census) slope(id string) float64 {
	if len(c.shots) > maxPoints {
		return 0
	}
	var x, y []float64
	for i := range c.shots {
		x = append(x, float64(c.shots[i].Operations))
		y = append(y, c.counts[&c.shots[i]][id])
	}
	line, _ := stats.TheilSen(x, y)
	return line.Slope
}

// module is the module of the innermost frame outside the standard library, "path version", "" where
// it is not known.
func module(s leak.Stack, modules []leak.Module) string {
	for _, f := range s.Frames {
		if m := moduleOf(f, modules); m != nil {
			text := strings.TrimSpace(m.Path + " " + m.Version)
			switch path, version, _ := strings.Cut(m.Replace, " "); {
			case path == m.Path && version != "":
				return m.Replace // another version of the module
			case m.Replace != "" && m.Replace != text:
				return text + " => " + m.Replace
			}
			return text
		}
		if !f.Standard() {
			return ""
		}
	}
	return ""
}

// moduleOf finds the module with the longest path that contains the frame's package. The package of a program is only
// "main"; then the file decides.
func moduleOf(f leak.Frame, modules []leak.Module) *leak.Module {
	path := f.Package()
	if path == "main" {
		path = f.File
	}
	var best *leak.Module
	for i, m := range modules {
		rest, ok := strings.CutPrefix(path, m.Path)
		if !ok || m.Path == "" || (rest != "" && rest[0] != '/' && rest[0] != '@') {
			continue
		}
		if best == nil || len(m.Path) > len(best.Path) {
			best = &modules[i]
		}
	}
	return best
}
