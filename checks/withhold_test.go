package checks

import (
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestAttackWithhold checks that an altered record has no expected result, that unexpected results stay, and that the
// verdict is not changed.
func TestAttackWithhold(t *testing.T) {
	for _, result := range []leak.Result{leak.Met, leak.NotMet, leak.Undecided, leak.Unmeasured} {
		v := &leak.Verdict{Result: result, Sentence: "fixed is clean.", Variants: []leak.VariantVerdict{
			{Result: result, Replicas: []leak.VariantVerdict{{Result: leak.Met}, {Result: leak.NotMet}}},
		}}
		want := result
		if want == leak.Met {
			want = leak.Undecided
		}
		got := Withhold(v, "it was changed")
		one := got.Variants[0]
		if got.Result != want || one.Result != want || one.Replicas[0].Result != leak.Undecided || one.Replicas[1].Result != leak.NotMet {
			t.Errorf("%s: %+v", result, got)
		}
		if got.Sentence != "it was changed. fixed is clean." || v.Result != result || v.Variants[0].Replicas[0].Result != leak.Met {
			t.Errorf("%s: %q, %+v", result, got.Sentence, v)
		}
	}
}
