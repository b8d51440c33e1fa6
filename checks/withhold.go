package checks

import (
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// Withhold returns the verdict without its expected results, which become undecided with this reason. Unexpected
// results stay. It is for altered records.
func Withhold(now *leak.Verdict, why string) *leak.Verdict {
	v := *now
	v.Variants = slices.Clone(now.Variants)
	for i := range v.Variants {
		withhold(&v.Variants[i], why)
	}
	if v.Result == leak.Met {
		v.Result = leak.Undecided
	}
	v.Sentence = why + ". " + now.Sentence
	return &v
}

func withhold(vv *leak.VariantVerdict, why string) {
	vv.Replicas = slices.Clone(vv.Replicas)
	for i := range vv.Replicas {
		withhold(&vv.Replicas[i], why)
	}
	if vv.Result == leak.Met {
		vv.Result = leak.Undecided
		vv.Reason = "as expected, but " + why
	}
}
