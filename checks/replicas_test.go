package checks

import (
	"slices"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// herd is a record of one variant whose replicas had these values.
func herd(expect leak.Expectation, replicas ...[]float64) (*leak.Scenario, *leak.Record) {
	s := scenario()
	s.Spec.Rounds = 7
	s.Spec.Variants = []leak.Variant{{Name: "v", Expect: expect, Fingerprint: []string{"receive"}}}
	if expect == leak.ExpectClean {
		s.Spec.Variants[0].Fingerprint = nil
	}
	s.Spec.Subject.Replicas = len(replicas)
	r := &leak.Record{
		Schema: 1, Scenario: "herd", Plan: leak.Plan{Variants: []string{"v"}, Warmup: 1, Rounds: 7, Replicas: len(replicas)}, Metrics: testMetrics(),
		Variants: []leak.VariantRecord{variantOf("v", replicas[0]...)},
	}
	r.Variants[0].Replica = 1
	for i, values := range replicas[1:] {
		other := variantOf("v", values...)
		other.Replica = i + 2
		r.Variants[0].Replicas = append(r.Variants[0].Replicas, other)
	}
	return s, r
}

// TestReplicas checks that each replica is judged separately, and that the worst stands for the variant.
func TestReplicas(t *testing.T) {
	faster := []float64{3, 43, 83, 123, 163, 203, 243, 283}
	for _, tt := range []struct {
		name     string
		expect   leak.Expectation
		replicas [][]float64
		change   func(*leak.Scenario, *leak.Record)
		shown    int
		outcome  leak.Outcome
		result   leak.Result
		reason   string
		sentence string
	}{
		{
			name: "all are clean", expect: leak.ExpectClean, replicas: [][]float64{flatValues, flatValues, flatValues},
			shown: 1, outcome: leak.Clean, result: leak.Met, reason: "replica 1, as all 3: ", sentence: "v is clean; nothing that is known to leak was run.",
		},
		{
			name: "one leaks", expect: leak.ExpectClean, replicas: [][]float64{flatValues, leakyValues, flatValues},
			shown: 2, outcome: leak.Leaking, result: leak.NotMet, reason: "replica 2, the worst of 3: expected clean, but receive leaks: +1.00 goroutines",
			sentence: "v (replica 2 of 3) leaks +1.00 goroutines per operation",
		},
		{
			name: "two leak, one of them more", expect: leak.ExpectClean, replicas: [][]float64{leakyValues, flatValues, faster},
			shown: 3, outcome: leak.Leaking, result: leak.NotMet, reason: "replica 3, the worst of 3: ", sentence: "v (replica 3 of 3) leaks +2.00 goroutines",
		},
		{
			name: "a leak is worse than what is undecided", expect: leak.ExpectClean, replicas: [][]float64{flatValues, leakyValues},
			change: func(_ *leak.Scenario, r *leak.Record) { r.Variants[0].Snapshots[3].Samples = nil },
			shown:  2, outcome: leak.Leaking, result: leak.NotMet, reason: "replica 2, the worst of 2: ",
		},
		{
			name: "undecided is worse than clean", expect: leak.ExpectClean, replicas: [][]float64{flatValues, flatValues},
			change: func(_ *leak.Scenario, r *leak.Record) { r.Variants[0].Replicas[0].Snapshots[3].Samples = nil },
			shown:  2, outcome: leak.Inconclusive, result: leak.Undecided, reason: "replica 2, the worst of 2: goroutines: round 3: no sample", sentence: "v (replica 2 of 2) is undecided",
		},
		{
			name: "a leak that is expected shows in one", expect: leak.ExpectLeaking, replicas: [][]float64{flatValues, leakyValues},
			shown: 2, outcome: leak.Leaking, result: leak.Met, reason: "replica 2, the worst of 2: receive +1.00", sentence: "v (replica 2 of 2) leaks +1.00",
		},
		{
			name: "and in none", expect: leak.ExpectLeaking, replicas: [][]float64{flatValues, flatValues},
			shown: 1, outcome: leak.Clean, result: leak.NotMet, reason: "replica 1, as all 2: not reproduced",
		},
		{
			name: "operations of one failed", expect: leak.ExpectClean, replicas: [][]float64{flatValues, flatValues},
			change: func(_ *leak.Scenario, r *leak.Record) {
				r.Variants[0].Replicas[0].Snapshots[2].Load = []leak.Tally{{Action: "post", Attempted: 20, Succeeded: 10, Failed: 10}}
			},
			shown: 2, outcome: leak.Inconclusive, result: leak.Undecided, reason: "10 of 140 operations (post) failed",
		},
		{
			name: "a round of one is missing", expect: leak.ExpectClean, replicas: [][]float64{leakyValues, flatValues},
			change: func(_ *leak.Scenario, r *leak.Record) {
				r.Variants[0].Replicas[0].Snapshots = r.Variants[0].Replicas[0].Snapshots[:7]
				r.Variants[0].Failure = &leak.Failure{Message: "round 7: replica 2: capture heap: EOF"}
			},
			shown: 1, outcome: leak.Inconclusive, result: leak.Unmeasured, reason: "capture heap: EOF",
		},
		{
			name: "a replica was not measured", expect: leak.ExpectClean, replicas: [][]float64{flatValues, flatValues},
			change: func(_ *leak.Scenario, r *leak.Record) { r.Variants[0].Replicas = nil },
			shown:  0, outcome: leak.Inconclusive, result: leak.Unmeasured, reason: "1 of 2 replicas were measured",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, r := herd(tt.expect, tt.replicas...)
			if tt.change != nil {
				tt.change(s, r)
			}
			v := Judge(s, r)
			vv := v.Variants[0]
			if vv.Replica != tt.shown || vv.Outcome != tt.outcome || vv.Result != tt.result || v.Result != tt.result {
				t.Errorf("replica %d is shown, %v, %v: %s", vv.Replica, vv.Outcome, vv.Result, vv.Reason)
			}
			if !strings.Contains(vv.Reason, tt.reason) || !strings.HasPrefix(v.Sentence, tt.sentence) {
				t.Errorf("reason %q, sentence %q", vv.Reason, v.Sentence)
			}
			if tt.shown == 0 {
				return
			}
			if len(vv.Replicas) != len(tt.replicas) {
				t.Fatalf("%d replicas", len(vv.Replicas))
			}
			for i, one := range vv.Replicas {
				if one.Replica != i+1 || one.Reason == "" || len(one.Replicas) != 0 || one.Operations == 0 {
					t.Errorf("replica %d: %+v", i+1, one)
				}
			}
		})
	}
}

// TestReplicasShareTheBudget checks that replicas share the false-alarm budget: a trend that is significant for one
// subject is not for many.
func TestReplicasShareTheBudget(t *testing.T) {
	trend := func(replicas ...[]float64) leak.Gate {
		s, r := herd(leak.ExpectClean, replicas...)
		for _, f := range Judge(s, r).Variants[0].Replicas[0].Findings {
			if f.Kind != "growth" {
				continue
			}
			for _, g := range f.Gates {
				if g.Name == "trend" {
					return g
				}
			}
		}
		t.Fatal("no trend gate")
		return leak.Gate{}
	}
	two, four := trend(leakyValues, leakyValues), trend(leakyValues, leakyValues, leakyValues, leakyValues)
	if two.Bound != falseAlarmBudget/4 || four.Bound != falseAlarmBudget/8 { // two trend tests
		t.Errorf("bounds %v of two, %v of four replicas", two.Bound, four.Bound)
	}
	s, _ := herd(leak.ExpectClean, leakyValues)
	s.Spec.Rounds = 5
	if err := Feasible(s, 1); err != nil {
		t.Error(err)
	}
	s.Spec.Subject.Replicas = 4
	if err := Feasible(s, 1); err == nil || !strings.Contains(err.Error(), "8 trend tests (checks × variants × replicas)") {
		t.Errorf("four replicas: %v", err)
	}
}

// More rounds are needed until every replica is decided, unless one of them is beyond doubt.
func TestEnoughReplicas(t *testing.T) {
	s, r := herd(leak.ExpectClean, flatValues, flatValues)
	s.Spec.Rounds, s.Spec.MaxRounds = 7, 14
	enough := func() string { return Enough(s, s.Spec.Variants[0], r.Variants[0], testMetrics()) }
	if why := enough(); why != "every check is decided" {
		t.Errorf("two that are clean: %q", why)
	}
	r.Variants[0].Replicas[0].Snapshots[3].Samples = nil
	if why := enough(); why != "" {
		t.Errorf("one that is not decided: %q", why)
	}
	s.Spec.Variants[0].Expect, s.Spec.Variants[0].Fingerprint = leak.ExpectLeaking, []string{"stuck"}
	s.Spec.Checks = append(s.Spec.Checks, leak.Block[leak.Check]{Name: "stuck", Value: &Stack{Probe: "goroutine", Match: "receive", Max: quantity(0)}})
	_, r = herd(leak.ExpectLeaking, flatValues, leakyValues)
	if why := enough(); !strings.Contains(why, "stuck beyond doubt") {
		t.Errorf("one that is stuck: %q", why)
	}
}

// TestRatchetReplicas checks that a new leak in a replica other than the worst fails as well, and that the same leak
// in another replica is not new.
func TestRatchetReplicas(t *testing.T) {
	judged := func(replicas ...[]float64) *leak.Verdict { return Judge(herd(leak.ExpectClean, replicas...)) }
	stored := judged(leakyValues, flatValues)
	if v := Ratchet(stored, judged(flatValues, leakyValues)); v.Result != leak.Met {
		t.Errorf("the other one leaks: %v", v.Variants[0].Reason)
	}
	now := judged(leakyValues, leakyValues)
	other := &now.Variants[0].Replicas[1]
	at := slices.IndexFunc(other.Findings, func(f leak.Finding) bool { return f.Check == "heap" })
	other.Findings[at].Check = "something else"
	if v := Ratchet(stored, now); v.Result != leak.NotMet || !strings.Contains(v.Variants[0].Reason, "replica 2: something else is new") {
		t.Errorf("%v: %s", v.Result, v.Variants[0].Reason)
	}
}
