package profiles

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Recorded are the groups that a run has recorded at a snapshot, in the form that source names, by the probe of that
// name. Without a name it is the only probe that has recorded any.
func Recorded(v *leak.VariantRecord, shot *leak.Snapshot, source, probe string) (*Profile, error) {
	var found *Profile
	var names []string
	for _, sample := range shot.Samples {
		if list, ok := sample.Groups[source]; ok && (probe == "" || probe == sample.Probe) {
			found = &Profile{Source: source, Rate: sample.Rate, Groups: list, Stacks: v.Stacks}
			names = append(names, sample.Probe)
		}
	}
	switch {
	case found == nil && probe != "":
		return nil, fmt.Errorf("the probe %s has recorded no %s after round %d", probe, source, shot.Round)
	case found == nil:
		return nil, fmt.Errorf("the run has recorded no %s after round %d", source, shot.Round)
	case len(names) > 1:
		return nil, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("several probes have recorded %s", source), "--probe names one: %s", strings.Join(names, ", "))}
	}
	return found, nil
}

// Match finds in a production profile the stacks that grew in a run. Production has another program around
// them, so a stack goes by its frames up to where package main begins, under names that do not change
// between builds. Each group of production goes to the growing stack that shares most frames with it.
func Match(grew *leak.Diff, production *Profile) (*leak.Match, error) {
	if grew.Source != production.Source {
		return nil, leak.WithHint(fmt.Errorf("one is %s, the other %s", forms[grew.Source], forms[production.Source]), "take both in the same form")
	}
	m := &leak.Match{Unit: production.Unit(), Total: production.Total(), Stacks: []leak.MatchedStack{}, Unexplained: []leak.StackGrowth{}}
	var below [][]string
	for _, s := range grew.Stacks {
		if s.To > s.From {
			m.Stacks = append(m.Stacks, leak.MatchedStack{StackGrowth: s})
			below = append(below, s.Stack.Below())
		}
	}
	for _, g := range production.Groups {
		stack, best := production.Stacks[g.Stack], -1
		for i := range m.Stacks {
			if stack.StandsOn(below[i], m.Stacks[i].Stack.State) && (best < 0 || len(below[i]) > len(below[best])) {
				best = i
			}
		}
		if best < 0 {
			m.Unexplained = append(m.Unexplained, production.growth(g, leak.Group{}))
			continue
		}
		m.Stacks[best].Production += production.Amount(g)
		m.Stacks[best].Groups++
		m.Explained += production.Amount(g)
	}
	slices.SortStableFunc(m.Stacks, func(a, b leak.MatchedStack) int {
		return cmp.Or(cmp.Compare(b.Production, a.Production), cmp.Compare(b.To-b.From, a.To-a.From))
	})
	slices.SortStableFunc(m.Unexplained, func(a, b leak.StackGrowth) int { return cmp.Compare(b.To, a.To) })
	return m, nil
}
