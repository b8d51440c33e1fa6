package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Enough says why more rounds of a variant would tell nothing new, "" where they might. After any round it
// stops at what needs no statistics alone: a bound in all that is broken, by stacks or operations that
// hang, stays so. For a variant that is expected to leak these are all its fingerprints; for one that is
// expected clean a hung operation is one too many. After the rounds that were fixed beforehand as looks it
// also stops if every check is decided: to stop whenever it looks right would make 20 % of 5 %.
func Enough(s *leak.Scenario, v leak.Variant, record leak.VariantRecord, metrics map[string]leak.Metric) string {
	if len(record.Snapshots) < 2 {
		return ""
	}
	e := leak.Evidence{Variant: record, Rounds: len(record.Snapshots) - 1, Metrics: metrics, Alpha: alpha(s, len(s.Spec.Variants), len(s.Spec.Looks()))}
	if v.Expect == leak.ExpectClean {
		e.Allow = allowances(s.Spec.Allow, record.Snapshots[len(record.Snapshots)-1].Time)
	}
	if looks := s.Spec.Looks(); len(looks) > 1 && slices.Contains(looks, e.Rounds) && allDecided(s, v, e) {
		return "every check is decided"
	}
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
	return fmt.Sprintf("%s beyond doubt: more rounds would tell nothing new", strings.Join(stand, " and "))
}

// allDecided tells whether every check that matters to the variant is.
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
