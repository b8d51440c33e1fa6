package checks

import (
	"fmt"
	"math"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// falseAlarmBudget is the probability that a run in which nothing grows is called leaking by chance. All
// trend tests of the run share it equally, and each its share over the looks: the rounds, fixed beforehand,
// after which the run may end.
const falseAlarmBudget = 1e-3

// alpha returns one test's share of the budget over all planned variants, where each replica counts as a variant. It
// counts planned and not measured series, so that a lost series does not relax the others.
func alpha(s *leak.Scenario, variants, looks int) float64 {
	return falseAlarmBudget / float64(max(trendTests(s)*variants, 1)*max(looks, 1))
}

// spent returns the share of a time budget that has passed since the baseline. It is 1 without a budget, and if the
// budget ended the run.
func spent(budget time.Duration, v *leak.VariantRecord) float64 {
	if budget <= 0 || v.Spent || len(v.Snapshots) == 0 {
		return 1
	}
	took := v.Snapshots[len(v.Snapshots)-1].Time.Sub(v.Snapshots[0].Time)
	return min(max(took.Seconds()/budget.Seconds(), 0), 1)
}

// trendTests counts the checks that draw on the budget.
func trendTests(s *leak.Scenario) int {
	n := 0
	for _, b := range s.Spec.Checks {
		if t, ok := b.Value.(leak.TrendTester); ok && t.TestsTrend() {
			n++
		}
	}
	return n
}

// Feasible refuses a scenario with too few rounds for even a perfect trend to be significant: its checks could pass
// but never fail.
func Feasible(s *leak.Scenario, variants int) error {
	tests := trendTests(s)
	if tests == 0 {
		return nil
	}
	variants *= s.Spec.Subject.Copies()
	share, rounds := alpha(s, variants, len(s.Spec.Looks())), s.Spec.MostRounds()
	perfect := func(rounds int) float64 { return windows(s) * perfect(rounds) }
	need := max(rounds, minRounds)
	for perfect(need) > share && need < stats.MaxExact {
		need++
	}
	if need <= rounds {
		return nil
	}
	if s.Spec.Soak != nil {
		return leak.WithHint(
			fmt.Errorf("soak: %d rounds (every %s, for %s) can never show that something leaks: even a perfect trend over them has p = %.2g, and the false-alarm budget leaves %.2g for each of %d trend tests and %d looks",
				rounds, s.Spec.Soak.Every, s.Spec.Soak.For, perfect(rounds), share, tests*variants, len(s.Spec.Looks())),
			"%d rounds are enough for a series without noise: let them come more often, or for longer", need)
	}
	return leak.WithHint(
		fmt.Errorf("rounds: %d can never show that something leaks: even a perfect trend over them has p = %.2g, and the false-alarm budget of %g, shared by %d trend tests (checks × variants%s), leaves %.2g",
			rounds, perfect(rounds), falseAlarmBudget, tests*variants, replicas(s), share),
		"%d rounds are enough for a series without noise, %d leave room for it; fewer checks or variants need fewer rounds", need, moreRounds(need, share/windows(s)))
}

// windows returns how many windows the trend tests of the scenario have at most: without a bound, two (judgeSustained).
func windows(s *leak.Scenario) float64 {
	for _, b := range s.Spec.Checks {
		switch c := b.Value.(type) {
		case *Growth:
			if c.MaxPerOp == nil {
				return 2
			}
		case *Stack:
			if c.MaxPerOp == nil && c.Max == nil {
				return 2
			}
		}
	}
	return 1
}

// perfect is the p-value of a series that rises in every round and is the same after idling: the smallest
// that there is for rounds and idling together, 2/(rounds+2)!.
func perfect(rounds int) float64 { return 2 / math.Gamma(float64(rounds)+3) }

// replicas describes the factor that replicas add to the number of tests.
func replicas(s *leak.Scenario) string {
	if s.Spec.Subject.Copies() > 1 {
		return " × replicas"
	}
	return ""
}
