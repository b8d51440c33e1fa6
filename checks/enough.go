package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Enough returns why more rounds of a variant would add nothing, "" if they might. After any round it stops for
// conditions without statistics: a broken bound on total growth, of stacks or of hung operations, stays broken. A
// variant that is expected to leak needs all its fingerprints; one that is expected clean needs a single hung
// operation. At the rounds that were fixed in advance as looks, it also stops if every check is decided: stopping at
// any time would turn 5 % into 20 %. A soak stops at a look only for a leak, because a clean result so far does not
// answer whether it will leak in three days.
//
// For conditions without statistics, one replica is sufficient, since the worst replica stands for the variant. For
// decisions, all replicas are needed.
func Enough(s *leak.Scenario, v leak.Variant, record leak.VariantRecord, metrics map[string]leak.Metric) string {
	if len(record.Snapshots) < 2 {
		return ""
	}
	decided := true
	for _, one := range record.Each() {
		e := leak.Evidence{
			Variant: one, Rounds: lastRound(record.Snapshots), Metrics: metrics, Alpha: alpha(s, len(s.Spec.Variants)*s.Spec.Subject.Copies(), len(s.Spec.Looks())),
			Linger: s.Spec.Linger.D(), For: s.Spec.For.D(), Spent: spent(s.Spec.For.D(), &one),
		}
		if v.Expect == leak.ExpectClean {
			e.Allow = allowances(s.Spec.Allow, record.Snapshots[len(record.Snapshots)-1].Time)
		}
		if why := beyondDoubt(s, v, e); why != "" {
			return why
		}
		looks := s.Spec.Looks()
		if s.Spec.Soak != nil {
			if slices.Contains(looks, e.Rounds) {
				if leaks := leaking(s, v, e); leaks != "" {
					return leaks + " at a look that was fixed beforehand"
				}
			}
			decided = false // what is clean has to stay so for as long as was asked
			continue
		}
		if s.Spec.For > 0 && slices.Contains(looks, e.Rounds) {
			if leaks := leaking(s, v, e); leaks != "" {
				return leaks
			}
		}
		decided = decided && len(looks) > 1 && slices.Contains(looks, e.Rounds) && allDecided(s, v, e)
	}
	if decided {
		return "every check is decided"
	}
	return ""
}

// beyondDoubt names broken bounds on total growth that suffice for a verdict, "" if they do not.
func beyondDoubt(s *leak.Scenario, v leak.Variant, e leak.Evidence) string {
	var stand []string
	for _, b := range s.Spec.Checks {
		if !decides(b, v) {
			continue
		}
		e.Check = b.Name
		if b.Value.Check(e).Outcome != leak.Leaking {
			return ""
		}
		stand = append(stand, b.Name)
	}
	if len(stand) == 0 || v.Expect == leak.ExpectLeaking && len(stand) < len(v.Fingerprint) {
		return ""
	}
	return fmt.Sprintf("%s beyond doubt: more rounds would add nothing", strings.Join(stand, " and "))
}

// leaking names checks that leak and suffice for a verdict, "" if they do not. A variant that is expected to leak needs
// all its fingerprints, and one that is expected clean needs any check.
func leaking(s *leak.Scenario, v leak.Variant, e leak.Evidence) string {
	var leaks []string
	for _, b := range s.Spec.Checks {
		e.Check = b.Name
		if v.Expect == leak.ExpectLeaking && !slices.Contains(v.Fingerprint, b.Name) || b.Value.Check(e).Outcome != leak.Leaking {
			continue
		}
		leaks = append(leaks, b.Name)
	}
	if len(leaks) == 0 || v.Expect == leak.ExpectLeaking && len(leaks) < len(v.Fingerprint) {
		return ""
	}
	return strings.Join(leaks, " and ") + leakVerb(len(leaks))
}

func leakVerb(n int) string {
	if n == 1 {
		return " leaks"
	}
	return " leak"
}

// allDecided reports whether every relevant check of the variant is decided.
func allDecided(s *leak.Scenario, v leak.Variant, e leak.Evidence) bool {
	for _, b := range s.Spec.Checks {
		if v.Expect == leak.ExpectLeaking && !slices.Contains(v.Fingerprint, b.Name) {
			continue
		}
		e.Check = b.Name
		if b.Value.Check(e).Outcome == leak.Inconclusive {
			return false
		}
	}
	return true
}

func decides(b leak.Block[leak.Check], v leak.Variant) bool {
	switch c := b.Value.(type) {
	case *Hung:
		return v.Expect == leak.ExpectClean || slices.Contains(v.Fingerprint, b.Name)
	case *Stack:
		return c.Max != nil && slices.Contains(v.Fingerprint, b.Name)
	}
	return false
}
