package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Growth is worse if it is more than worse times the stored growth, and outside of its interval. A stack that was not
// stored is worse if it has more than a tenth of the growth.
const (
	worse     = 1.1
	freshPart = 0.1
)

// Ratchet compares a verdict with a stored one: a variant that is not as expected, but not worse than before, passes,
// and new or worse leaks are named. So an old leak does not hide a new one, and bounds stay low. Other results do not
// change, and an expired allowance still fails. Ratchet does not change its arguments.
func Ratchet(stored, now *leak.Verdict) *leak.Verdict {
	v := *now
	v.Variants = slices.Clone(now.Variants)
	var results []leak.Result
	for i := range v.Variants {
		vv := &v.Variants[i]
		if vv.Result == leak.NotMet && vv.Expect == leak.ExpectClean && vv.Outcome == leak.Leaking {
			ratchet(vv, variantOfVerdict(stored, vv.Variant))
		}
		results = append(results, vv.Result)
	}
	v.Result = leak.Worst(results...)
	if now.Result == leak.Unmeasured {
		v.Result = leak.Unmeasured
	}
	v.Sentence = sentence(&v, &leak.Record{Interrupted: now.Interrupted})
	return &v
}

func variantOfVerdict(v *leak.Verdict, name string) *leak.VariantVerdict {
	i := slices.IndexFunc(v.Variants, func(vv leak.VariantVerdict) bool { return vv.Variant == name })
	if i < 0 {
		return nil
	}
	return &v.Variants[i]
}

func ratchet(vv, stored *leak.VariantVerdict) {
	var fresh, known []string
	for _, one := range eachReplica(vv) {
		of := ""
		if one.Replica > 0 {
			of = fmt.Sprintf("replica %d: ", one.Replica)
		}
		for _, f := range one.Findings {
			if f.Outcome != leak.Leaking {
				continue
			}
			if why := newOrWorse(&f, stored); why != "" {
				fresh = append(fresh, of+f.Check+" "+why)
			} else {
				known = append(known, of+f.Check)
			}
		}
	}
	if why := expired(vv.Allowed); why != "" {
		fresh = append(fresh, why)
	}
	if len(fresh) > 0 {
		vv.Reason = strings.Join(fresh, "; ")
		return
	}
	vv.Result = leak.Met
	vv.Reason = "leaks no more than in the stored verdict: " + strings.Join(known, ", ")
}

// eachReplica returns the verdicts on all replicas, or on the variant if it has none. The verdict on the worst replica
// must not hide growth that is new in another.
func eachReplica(vv *leak.VariantVerdict) []leak.VariantVerdict {
	if len(vv.Replicas) > 0 {
		return vv.Replicas
	}
	return []leak.VariantVerdict{*vv}
}

// newOrWorse describes how a leaking finding is new or worse, "" if it is neither.
func newOrWorse(f *leak.Finding, stored *leak.VariantVerdict) string {
	var old *leak.Finding
	if stored != nil {
		for _, one := range eachReplica(stored) {
			for _, o := range one.Findings {
				if o.Check == f.Check && o.Outcome == leak.Leaking && (old == nil || o.PerOperation > old.PerOperation) {
					old = &o
				}
			}
		}
	}
	if old == nil || old.BoundPerOperation != f.BoundPerOperation {
		return "is new: " + f.Summary
	}
	now, before, limit := f.PerOperation, old.PerOperation, max(worse*old.PerOperation, old.High)
	low := f.Low
	if !f.BoundPerOperation {
		first, last := f.Ends()
		oldFirst, oldLast := old.Ends()
		now, before = last-first, oldLast-oldFirst
		low, limit = now, worse*before
	}
	if now > worse*before && low > limit {
		return fmt.Sprintf("is worse than %s: %s", headline(old), f.Summary)
	}
	keys := map[string]bool{}
	for _, s := range old.Stacks {
		keys[s.Stack.Key()] = true
	}
	grew := int64(0)
	for _, s := range f.Stacks {
		grew += max(s.To-s.From, 0)
	}
	for _, s := range f.Stacks {
		if gain := s.To - s.From; !keys[s.Stack.Key()] && float64(gain) > freshPart*float64(grew) {
			return fmt.Sprintf("has a new stack: %s %s", display.Delta(float64(gain), f.Unit), s.Stack)
		}
	}
	return ""
}
