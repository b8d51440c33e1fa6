package checks

import (
	"fmt"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// allowances returns the allowances that are valid at the time of the run.
func allowances(all []leak.Allowance, run time.Time) []leak.Allowance {
	var current []leak.Allowance
	for _, a := range all {
		if !a.Until.Expired(run) {
			current = append(current, a)
		}
	}
	return current
}

// allowed returns which stacks of a probe are allowed, nil if none are.
func (e evidence) allowed(probe string) func(leak.Stack) bool {
	var matches []func(leak.Stack) bool
	for _, a := range e.Allow {
		if allowedProbe(a) == probe {
			matches = append(matches, (&Stack{Match: a.Match, State: a.State}).matchOne())
		}
	}
	if len(matches) == 0 {
		return nil
	}
	return func(s leak.Stack) bool {
		for _, match := range matches {
			if match(s) {
				return true
			}
		}
		return false
	}
}

func allowedProbe(a leak.Allowance) string {
	if a.Probe == "" {
		return "goroutine"
	}
	return a.Probe
}

// withoutAllowed returns how much of a metric is on allowed stacks in a snapshot. A metric that is not a sum over
// stacks has none.
func (e evidence) withoutAllowed(probe, metric string) (func(*leak.Snapshot) float64, error) {
	allowed := e.allowed(probe)
	amount := map[string]func(leak.Group) float64{
		"goroutine.count": func(g leak.Group) float64 { return float64(g.Count) },
		"leaked.count":    func(g leak.Group) float64 { return float64(g.Count) },
		"heap.alloc":      func(g leak.Group) float64 { return float64(g.Bytes) },
		"heap.objects":    func(g leak.Group) float64 { return float64(g.Count) },
	}[leak.ProbeKind(probe)+"."+metric]
	if allowed == nil || amount == nil {
		return func(*leak.Snapshot) float64 { return 0 }, nil
	}
	c, err := e.census(probe)
	if err != nil {
		return nil, fmt.Errorf("allowed stacks: %w", err)
	}
	return func(shot *leak.Snapshot) float64 {
		sum := 0.0
		for _, g := range groups(shot, probe, c.source) {
			if allowed(c.stacks[g.Stack]) {
				sum += amount(g)
			}
		}
		return sum
	}, nil
}

// report returns what every allowance covered, and which have expired.
func (j judge) report(v *leak.VariantRecord) []leak.Allowed {
	var list []leak.Allowed
	for _, a := range j.scenario.Spec.Allow {
		line := leak.Allowed{Match: a.Match, Reason: a.Reason, Link: a.Link, Until: a.Until, Unit: "goroutines", Expired: a.Until.Expired(j.record.Started)}
		e := evidence{leak.Evidence{Variant: *v, Rounds: j.record.Plan.Rounds}}
		if c, err := e.census(allowedProbe(a)); err == nil && len(c.shots) > 0 {
			line.Unit = c.unit
			match := (&Stack{Match: a.Match, State: a.State}).matchOne()
			sum := func(shot *leak.Snapshot) (n float64) {
				for id, count := range c.counts[shot] {
					if match(c.stacks[id]) {
						n += count
					}
				}
				return n
			}
			line.From, line.To = sum(&c.shots[0]), sum(&c.shots[len(c.shots)-1])
		}
		list = append(list, line)
	}
	return list
}

// expired is the reason why allowances that have ended fail a variant, "" where none has.
func expired(list []leak.Allowed) string {
	var parts []string
	for _, a := range list {
		if a.Expired {
			parts = append(parts, fmt.Sprintf("the allowance for %s ended on %s (%s, %s): fix it, or remove or renew the allowance", a.Match, a.Until, a.Reason, a.Link))
		}
	}
	return strings.Join(parts, "; ")
}

// tolerated describes the growth that was allowed, "" for none.
func tolerated(list []leak.Allowed) string {
	text := ""
	for _, a := range list {
		if !a.Expired && a.To > a.From {
			text += fmt.Sprintf("; allowed until %s: %s %s at %s (%s, %s)", a.Until, display.Delta(a.To-a.From, a.Unit), strings.TrimSuffix(a.Unit, "bytes"), a.Match, a.Reason, a.Link)
		}
	}
	return strings.ReplaceAll(text, "  ", " ")
}
