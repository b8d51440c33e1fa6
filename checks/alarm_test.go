package checks

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestFalseAlarmRate judges complete runs without growth, with all gates and the budget of a run: three noisy series
// per run, each far above the bound, so that only the statistics prevent a false alarm. The budget allows 1 in 1000;
// the other gates make it rarer.
func TestFalseAlarmRate(t *testing.T) {
	runs := trials(8_000)
	s := &leak.Scenario{Spec: leak.Spec{
		Rounds:   6,
		Variants: []leak.Variant{{Name: "v", Expect: leak.ExpectClean}},
		Checks: []leak.Block[leak.Check]{
			{Kind: "growth", Name: "count", Value: &Growth{Probe: "goroutine", MaxPerOp: quantity(0.01)}},
			{Kind: "growth", Name: "alloc", Value: &Growth{Probe: "heap", MaxPerOp: quantity(0.01)}},
			{Kind: "growth", Name: "objects", Value: &Growth{Probe: "heap", Metric: "objects", MaxPerOp: quantity(0.01)}},
		},
	}}
	if err := Feasible(s, 1); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(6, 6))
	significant, found := 0, 0
	for range runs {
		v := variantOf("v", 1, 1, 1, 1, 1, 1, 1)
		for _, shot := range append([]*leak.Snapshot{v.Idle}, pointersTo(v.Snapshots)...) {
			for i := range shot.Samples {
				for metric := range shot.Samples[i].Values {
					shot.Samples[i].Values[metric] = 1000 + 100*rng.NormFloat64()
				}
			}
		}
		verdict := Judge(s, &leak.Record{Plan: leak.Plan{Rounds: 6, Variants: []string{"v"}}, Variants: []leak.VariantRecord{v}, Metrics: testMetrics()})
		if verdict.Variants[0].Outcome == leak.Leaking {
			found++
		}
		for _, f := range verdict.Variants[0].Findings {
			for _, g := range f.Gates {
				if g.Name == "trend" && g.Holds {
					significant++
				}
			}
		}
	}
	if most := alarms(runs); significant > most || found > most {
		t.Errorf("%d trends and %d alarms in %d runs, allowed %d", significant, found, runs, most)
	}
	t.Logf("%d runs: %d significant trends, %d false alarms", runs, significant, found)
}

func TestFeasible(t *testing.T) {
	one := quantity(1)
	for _, tt := range []struct {
		rounds, checks, variants int
		bound                    *leak.Quantity
		want                     string // of the hint; "" is feasible
	}{
		{5, 0, 3, one, ""}, // only bounds, no trends
		{5, 1, 1, one, ""}, // 2/7! = 4.0e-4 of 1e-3
		{5, 2, 1, one, ""}, // of 5e-4
		{5, 3, 1, one, "6 rounds are enough"},
		{4, 1, 1, one, "5 rounds are enough for a series without noise, 6 leave room"},
		{7, 3, 6, one, ""},
		{5, 3, 6, one, "6 rounds are enough"},
		{6, 40, 40, one, "8 rounds are enough"},
		{5, 1, 1, nil, ""}, // 4/7! = 7.9e-4 of 1e-3, since there are two windows without a bound
		{5, 2, 1, nil, "6 rounds are enough"},
		{6, 3, 6, nil, "7 rounds are enough"},
	} {
		s := &leak.Scenario{Spec: leak.Spec{Rounds: tt.rounds, Checks: []leak.Block[leak.Check]{{Kind: "delta", Value: &Delta{}}}}}
		for range tt.checks {
			s.Spec.Checks = append(s.Spec.Checks, leak.Block[leak.Check]{Kind: "growth", Value: &Growth{MaxPerOp: tt.bound}})
		}
		err := Feasible(s, tt.variants)
		if (err == nil) != (tt.want == "") || !strings.Contains(leak.Hint(err), tt.want) {
			t.Errorf("%d rounds, %d checks, %d variants: %v, %s", tt.rounds, tt.checks, tt.variants, err, leak.Hint(err))
		}
	}
	// A perfect leak is undetectable in a refused scenario, and detectable in an accepted one.
	perfectly := func(rounds int, share float64) leak.Outcome {
		values := make([]float64, rounds+1)
		for i := range values {
			values[i] = float64(i * opsPerRound)
		}
		e := evidenceOf(variantOf("v", values...), rounds)
		e.Alpha = share
		return (&Growth{Probe: "goroutine", MaxPerOp: quantity(0.01)}).Check(e).Outcome
	}
	for rounds := 5; rounds < 9; rounds++ {
		if o := perfectly(rounds, perfect(rounds)*1.001); o != leak.Leaking {
			t.Errorf("%d rounds: a perfect leak is %v", rounds, o)
		}
		if o := perfectly(rounds, perfect(rounds)*0.999); o == leak.Leaking {
			t.Errorf("%d rounds: found beyond the budget", rounds)
		}
	}
}
