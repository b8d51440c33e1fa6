package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Enough says why more rounds of a variant would tell nothing new, "" where they might. It stops at what
// needs no statistics alone: a bound in all that is broken, by stacks or operations that hang, stays so.
// For a variant that is expected to leak these are all its fingerprints; for one that is expected clean a
// hung operation is one too many.
func Enough(s *leak.Scenario, v leak.Variant, record leak.VariantRecord) string {
	if len(record.Snapshots) < 2 {
		return ""
	}
	e := leak.Evidence{Variant: record, Rounds: len(record.Snapshots) - 1}
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

func decides(b leak.Block[leak.Check], v leak.Variant) bool {
	switch c := b.Value.(type) {
	case *Hung:
		return v.Expect == leak.ExpectClean || slices.Contains(v.Fingerprint, b.Name)
	case *Stack:
		return c.Max != nil && slices.Contains(v.Fingerprint, b.Name)
	}
	return false
}
