package runner

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leakrig/leakrig/leak"
)

// Control rounds come between warm-up and baseline, without load; sizes say how often a round's actions are
// performed; rounds are added until enough is known.
func TestControlAndSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Variants = l.Variants[:1]
		l.Scenario.Spec.Control, l.Scenario.Spec.Sizes, l.Scenario.Spec.MaxRounds = 2, []int{1, 3}, 7
		l.Enough = func(_ leak.Variant, r leak.VariantRecord) string {
			if len(r.Snapshots) == 7 {
				return "decided"
			}
			return ""
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := record.Variant("leaky")
		if len(v.Control) != 3 || len(v.Snapshots) != 7 || v.Stopped != "decided" || !slices.Equal(record.Plan.Looks, []int{3, 6, 7}) || record.Plan.Rounds != 7 {
			t.Fatalf("%d control, %d snapshots, stopped %q, plan %+v", len(v.Control), len(v.Snapshots), v.Stopped, record.Plan)
		}
		for i, shot := range v.Control {
			if shot.Round != i || len(shot.Load) != 0 || shot.Operations != v.Control[0].Operations || len(shot.Samples) != 2 {
				t.Errorf("control %d: %+v", i, shot)
			}
		}
		for i, want := range []int{0, 4, 16, 20, 32, 36, 48} {
			if got := v.Snapshots[i]; got.Operations != want || i > 0 && len(got.Load) != l.Scenario.Spec.Size(i) {
				t.Errorf("round %d: %d operations in %d loads, want %d", i, got.Operations, len(got.Load), want)
			}
		}
		if v.Idle == nil || v.Idle.Round != 6 {
			t.Errorf("idle %+v", v.Idle)
		}
		if at := slices.IndexFunc(l.progress, func(line string) bool { return strings.Contains(line, "control rounds without load") }); at < 0 {
			t.Errorf("progress %v", l.progress)
		}
	})
}
