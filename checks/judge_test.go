package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func scenario() *leak.Scenario {
	return &leak.Scenario{Spec: leak.Spec{
		Variants: []leak.Variant{
			{Name: "leaky", Expect: leak.ExpectLeaking, Fingerprint: []string{"receive"}},
			{Name: "fixed", Expect: leak.ExpectClean},
		},
		Checks: []leak.Block[leak.Check]{
			{Kind: "delta", Name: "goroutines", Value: &Delta{Probe: "goroutine", Max: 10}},
			{Kind: "growth", Name: "heap", Value: &Growth{Probe: "heap", MaxPerOp: quantity(0.05)}},
			{Kind: "stack", Name: "receive", Value: stackCheck()},
		},
	}}
}

var (
	leakyValues = []float64{3, 23, 43, 63, 83, 103, 123, 143}
	flatValues  = []float64{3, 3, 3, 3, 3, 3, 3, 3}
)

func recordOf(leaky, fixed []float64) *leak.Record {
	return &leak.Record{
		Schema: 1, Scenario: "watch-then-delete",
		Plan:     leak.Plan{Variants: []string{"leaky", "fixed"}, Warmup: 1, Rounds: 7},
		Metrics:  testMetrics(),
		Variants: []leak.VariantRecord{variantOf("leaky", leaky...), variantOf("fixed", fixed...)},
	}
}

func TestJudge(t *testing.T) {
	const as = "+1.00 goroutines per operation at watch.(*StreamWatcher).receive"
	failing := func(v *leak.VariantRecord, round, attempted, succeeded int) {
		v.Snapshots[round].Load = []leak.Tally{{
			Action: "post", Attempted: attempted, Succeeded: succeeded, Failed: attempted - succeeded,
			Errors: []leak.ErrorCount{{Message: "503 Service Unavailable", Count: 5}, {Message: "EOF", Count: 1}},
		}}
	}
	for _, tt := range []struct {
		name              string
		leaky, fixed      []float64
		change            func(*leak.Scenario, *leak.Record)
		leakyIs, fixedIs  leak.Result
		leakyOut, fixedUp leak.Outcome
		sentence          string
		reason            string // of either variant
	}{
		{
			name: "both as expected", leakyIs: leak.Met, fixedIs: leak.Met, leakyOut: leak.Leaking, fixedUp: leak.Clean,
			sentence: "leaky leaks " + as + ", fixed is clean.",
			reason:   "receive +1.00 goroutines per operation, blocked in chan send at watch.(*StreamWatcher).receive (140 after 140 operations; bound 0.01; exactly 1 per operation)",
		},
		{
			name: "the fixed one leaks", fixed: leakyValues, leakyIs: leak.Met, fixedIs: leak.NotMet, leakyOut: leak.Leaking, fixedUp: leak.Leaking,
			sentence: "fixed leaks " + as + "; leaky leaks " + as + " as expected.", reason: "expected clean, but receive leaks: +1.00 goroutines",
		},
		{
			name: "leakrig no longer sees the leak", leaky: flatValues, leakyIs: leak.NotMet, fixedIs: leak.Met, fixedUp: leak.Clean, leakyOut: leak.Clean,
			sentence: "leaky was not reproduced: receive is clean",
		},
		{
			name: "a leak without its fingerprint", leakyIs: leak.NotMet, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(s *leak.Scenario, _ *leak.Record) { s.Spec.Checks[2].Value.(*Stack).Match = "nosuch" },
			reason: "goroutines leaks, but not with the fingerprint",
		},
		{
			name: "a fingerprint that cannot be decided", leakyIs: leak.Undecided, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(_ *leak.Scenario, r *leak.Record) { setIdle(&r.Variants[0], 50) }, sentence: "leaky is undecided: receive: ",
		},
		{
			name: "one of two fingerprints is clean", leakyIs: leak.NotMet, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(s *leak.Scenario, _ *leak.Record) {
				serve := *stackCheck()
				serve.Match, serve.State = "serve", ""
				s.Spec.Checks = append(s.Spec.Checks, leak.Block[leak.Check]{Name: "serve", Value: &serve})
				s.Spec.Variants[0].Fingerprint = []string{"receive", "serve"}
			},
			reason: "not reproduced: serve is clean",
		},
		{
			name: "no fingerprint", leakyIs: leak.Undecided, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(s *leak.Scenario, _ *leak.Record) { s.Spec.Variants[0].Fingerprint = nil },
		},
		{
			name: "a fingerprint that no check has", leakyIs: leak.Undecided, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(s *leak.Scenario, _ *leak.Record) { s.Spec.Variants[0].Fingerprint = []string{"x"} },
		},
		{
			name: "no checks", leakyIs: leak.Undecided, fixedIs: leak.Undecided,
			change: func(s *leak.Scenario, _ *leak.Record) { s.Spec.Checks = nil },
		},
		{
			name: "a check without its configuration", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(s *leak.Scenario, _ *leak.Record) { s.Spec.Checks[0].Value = nil },
		},
		{
			name: "no expectation", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(s *leak.Scenario, _ *leak.Record) { s.Spec.Variants[1].Expect = "" },
		},
		{
			name: "swapped expectations flip the verdict", leakyIs: leak.NotMet, leakyOut: leak.Leaking, fixedIs: leak.NotMet, fixedUp: leak.Clean,
			change: func(s *leak.Scenario, _ *leak.Record) {
				s.Spec.Variants[0].Expect, s.Spec.Variants[1].Expect = leak.ExpectClean, leak.ExpectLeaking
				s.Spec.Variants[1].Fingerprint = []string{"receive"}
			},
		},
		{
			name: "one edited sample changes its mind", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.NotMet, fixedUp: leak.Leaking,
			change: func(_ *leak.Scenario, r *leak.Record) {
				r.Variants[1].Final().Sample("goroutine").Values["count"] = 99
				r.Variants[1].Idle.Sample("goroutine").Values["count"] = 99
			},
		},
		{
			name: "a lost sample", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(_ *leak.Scenario, r *leak.Record) { r.Variants[1].Snapshots[4].Samples = nil }, reason: "goroutines: round 4: no sample",
		},
		{
			name: "the subject died in round 3", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Unmeasured,
			change: func(_ *leak.Scenario, r *leak.Record) {
				r.Variants[1].Snapshots = r.Variants[1].Snapshots[:3]
				r.Variants[1].Failure = &leak.Failure{Message: "the subject exited: signal: killed"}
			},
			sentence: "fixed was not measured: 2 of 7 planned rounds were measured: the subject exited: signal: killed; leaky",
		},
		{
			name: "it failed after the last round", leakyIs: leak.Unmeasured, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(_ *leak.Scenario, r *leak.Record) {
				r.Variants[0].Failure = &leak.Failure{Message: "idle: connection refused"}
			},
			reason: "it failed after the last round: idle: connection refused",
		},
		{
			name: "the run failed before the second variant", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Unmeasured,
			change: func(_ *leak.Scenario, r *leak.Record) {
				r.Variants = r.Variants[:1]
				r.Failure = &leak.Failure{Message: "the cluster is gone"}
			},
			reason: "it was not run: the cluster is gone",
		},
		{
			name: "interrupted", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Unmeasured,
			change: func(_ *leak.Scenario, r *leak.Record) {
				r.Variants[1].Snapshots = r.Variants[1].Snapshots[:1]
				r.Interrupted = true
			},
			reason: "0 of 7 planned rounds were measured: the run was interrupted",
		},
		{
			name: "cut off while idling", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Unmeasured,
			change: func(_ *leak.Scenario, r *leak.Record) { r.Variants[1].Idle, r.Interrupted = nil, true },
			reason: "it was not measured again after idling: the run was interrupted",
		},
		{
			name: "1 % may be lost with a worker", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(_ *leak.Scenario, r *leak.Record) { losing(&r.Variants[1], 1) },
		},
		{
			name: "no more may be lost with a worker", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(_ *leak.Scenario, r *leak.Record) { losing(&r.Variants[1], 2) },
			reason: "2 of 140 operations (post) failed: worker 2 of 4 lost: evicted",
		},
		{
			name: "no baseline", leakyIs: leak.Unmeasured, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(_ *leak.Scenario, r *leak.Record) { r.Variants[0].Snapshots = nil },
		},
		{
			name: "a variant that the scenario no longer has", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Unmeasured,
			change: func(s *leak.Scenario, _ *leak.Record) { s.Spec.Variants = s.Spec.Variants[:1] }, reason: "the scenario has no variant fixed",
		},
		{
			name: "no rounds planned", leakyIs: leak.Unmeasured, fixedIs: leak.Unmeasured,
			change: func(_ *leak.Scenario, r *leak.Record) { r.Plan.Rounds = 0 },
		},
		{
			name: "rounds beyond the plan are not looked at", fixed: []float64{3, 3, 3, 3, 3, 3, 3, 3, 900}, leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(_ *leak.Scenario, r *leak.Record) { setIdle(&r.Variants[1], 3) },
		},
		{
			name: "failed load overrides a leak too", leakyIs: leak.Undecided, fixedIs: leak.Undecided,
			change: func(_ *leak.Scenario, r *leak.Record) {
				failing(&r.Variants[0], 2, 20, 14)
				failing(&r.Variants[1], 2, 20, 14)
			},
			reason: "6 of 140 operations (post) failed: 503 Service Unavailable",
		},
		{
			name: "1 % may fail", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Met, fixedUp: leak.Clean,
			change: func(_ *leak.Scenario, r *leak.Record) { failing(&r.Variants[1], 2, 20, 19) },
		},
		{
			name: "what neither succeeded nor failed has failed", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(_ *leak.Scenario, r *leak.Record) { r.Variants[1].Snapshots[1].Load[0].Succeeded = 10 },
		},
		{
			name: "a rare action that always fails", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(_ *leak.Scenario, r *leak.Record) {
				shot := &r.Variants[1].Snapshots[1]
				shot.Load = append(shot.Load, leak.Tally{Action: "exec", Attempted: 1, Failed: 1})
			},
			reason: "1 of 1 operations (exec) failed",
		},
		{
			name: "no operations", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(_ *leak.Scenario, r *leak.Record) {
				operationsAre(0, 0, 0, 0, 0, 0, 0, 0)(&r.Variants[1])
			},
			reason: "no operations were attempted",
		},
		{
			name: "no tallies", leakyIs: leak.Met, leakyOut: leak.Leaking, fixedIs: leak.Undecided,
			change: func(_ *leak.Scenario, r *leak.Record) {
				for i := range r.Variants[1].Snapshots {
					r.Variants[1].Snapshots[i].Load = nil
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, r := scenario(), recordOf(or(tt.leaky, leakyValues), or(tt.fixed, flatValues))
			if tt.change != nil {
				tt.change(s, r)
			}
			v := judgeTwice(t, s, r)
			leaky, fixed := v.Variants[0], v.Variants[1]
			if leaky.Result != tt.leakyIs || leaky.Outcome != tt.leakyOut {
				t.Errorf("leaky: %v, %v: %s", leaky.Outcome, leaky.Result, leaky.Reason)
			}
			if fixed.Result != tt.fixedIs || fixed.Outcome != tt.fixedUp {
				t.Errorf("fixed: %v, %v: %s", fixed.Outcome, fixed.Result, fixed.Reason)
			}
			if v.Result != leak.Worst(leaky.Result, fixed.Result) || v.Interrupted != r.Interrupted {
				t.Errorf("%+v", v)
			}
			if !strings.Contains(v.Sentence, tt.sentence) {
				t.Errorf("sentence: %s", v.Sentence)
			}
			if !strings.Contains(leaky.Reason+"\n"+fixed.Reason, tt.reason) {
				t.Errorf("reasons: %s\n%s", leaky.Reason, fixed.Reason)
			}
			t.Log(v.Sentence)
		})
	}
}

func or(a, b []float64) []float64 {
	if a == nil {
		return b
	}
	return a
}

// judgeTwice judges, and fails if that changed the record, cannot be written, or differs when repeated.
func judgeTwice(t *testing.T, s *leak.Scenario, r *leak.Record) *leak.Verdict {
	t.Helper()
	before, beforeErr := json.Marshal(r)
	v := Judge(s, r)
	first, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := json.Marshal(Judge(s, r))
	if !bytes.Equal(first, second) {
		t.Fatalf("judged twice:\n%s\n%s", first, second)
	}
	if after, _ := json.Marshal(r); beforeErr == nil && !bytes.Equal(before, after) {
		t.Fatal("the record was changed")
	}
	return v
}

func TestJudgeZeroValues(t *testing.T) {
	for name, r := range map[string]*leak.Record{
		"no record":            {},
		"planned, nothing run": {Plan: leak.Plan{Variants: []string{"leaky", "fixed"}, Rounds: 7}},
		"empty variants":       {Plan: leak.Plan{Variants: []string{"leaky", "fixed"}}, Variants: []leak.VariantRecord{{Name: "leaky"}, {Name: "fixed"}}},
		"empty snapshots": {
			Plan:     leak.Plan{Variants: []string{"fixed"}, Rounds: 1},
			Variants: []leak.VariantRecord{{Name: "fixed", Snapshots: []leak.Snapshot{{}, {Round: 1}}}},
		},
	} {
		for _, s := range []*leak.Scenario{{}, scenario()} {
			if v := judgeTwice(t, s, r); v.Result == leak.Met || v.Sentence == "" {
				t.Errorf("%s: %v: %s", name, v.Result, v.Sentence)
			}
		}
	}
	failed := &leak.Record{Failure: &leak.Failure{Message: "the cluster did not boot"}}
	if v := Judge(scenario(), failed); v.Result != leak.Unmeasured || !strings.Contains(v.Sentence, "the cluster did not boot") {
		t.Errorf("%v: %s", v.Result, v.Sentence)
	}
}

// A broken run is judged as far as it went, for information, and passes nothing.
func TestJudgePartial(t *testing.T) {
	r := recordOf(leakyValues, flatValues)
	r.Variants[1].Snapshots = r.Variants[1].Snapshots[:3]
	v := Judge(scenario(), r).Variants[1]
	if len(v.Findings) != 3 || len(v.Findings[0].Points) != 4 {
		t.Fatalf("%+v", v.Findings)
	}
	for _, f := range v.Findings {
		if f.Outcome != leak.Inconclusive || !strings.Contains(f.Summary, "only 2 of 7 planned rounds") {
			t.Errorf("%s is %v: %s", f.Check, f.Outcome, f.Summary)
		}
	}
}

func TestAlpha(t *testing.T) {
	s := scenario() // growth and stack with maxPerOp test a trend, delta does not
	for _, tt := range []struct {
		variants, looks int
		want            float64
	}{{1, 1, 5e-4}, {2, 1, 2.5e-4}, {0, 0, 1e-3}, {2, 5, 0.5e-4}} {
		if got := alpha(s, tt.variants, tt.looks); got != tt.want {
			t.Errorf("%d variants, %d looks: %v, want %v", tt.variants, tt.looks, got, tt.want)
		}
	}
	s.Spec.Checks[2].Value = &Stack{Probe: "goroutine", Match: "x", Max: quantity(1)}
	if got := alpha(s, 1, 1); got != 1e-3 {
		t.Errorf("a stack with max draws on the budget: %v", got)
	}
	// The bound of the trend gate shows the used budget.
	f := Judge(scenario(), recordOf(leakyValues, flatValues)).Variants[0].Findings[1]
	for _, g := range f.Gates {
		if g.Name == "trend" && g.Bound != 2.5e-4 {
			t.Errorf("%+v", g)
		}
	}
}

func TestGrowing(t *testing.T) {
	r := recordOf(leakyValues, flatValues)
	v := &r.Variants[0]
	for i := range 30 { // more stacks than are listed; i of each in the last round
		s := leak.Stack{State: "select", Frames: []leak.Frame{{Func: fmt.Sprintf("example.org/x.F%d", i)}}}
		v.Stacks[s.ID()] = s
		sample := v.Final().Sample("goroutine")
		sample.Groups["dump"] = append(sample.Groups["dump"], leak.Group{Stack: s.ID(), Count: int64(i)})
	}
	vv := Judge(scenario(), r).Variants[0]
	if len(vv.Growing) != maxStacks {
		t.Fatalf("%d stacks", len(vv.Growing))
	}
	if spread := vv.SpreadIn("goroutine"); spread == nil || spread.Stacks != 30 || spread.Grew != 140+29*15 || spread.Largest != 140 {
		t.Errorf("the growth of all stacks is %+v", spread)
	}
	want := leak.StackGrowth{
		ID: receiveID, Stack: receive, From: 3, To: 143, PerOperation: 1, Module: "k8s.io/apimachinery v0.18.8", Fingerprint: true,
		Who: &receive.Frames[0], Caller: receive.Creator,
	}
	if !reflect.DeepEqual(vv.Growing[0], want) {
		t.Errorf("%+v", vv.Growing[0])
	}
	for i, g := range vv.Growing[1:] {
		if g.To != int64(29-i) || g.Fingerprint {
			t.Errorf("%d: %+v", i+1, g)
		}
	}
	if len(vv.HeapGrowing) != 1 || vv.HeapGrowing[0].To != 143 {
		t.Errorf("heap: %+v", vv.HeapGrowing)
	}
	if f := vv.Findings[2]; !f.Fingerprint || !f.Stacks[0].Fingerprint || vv.Findings[0].Fingerprint {
		t.Errorf("fingerprint marks: %+v", vv.Findings)
	}
	if fixed := Judge(scenario(), r).Variants[1]; fixed.Growing != nil || fixed.HeapGrowing != nil {
		t.Errorf("what did not grow is listed: %+v", fixed.Growing)
	}
}

// FuzzJudge judges hostile records. Judging must end, be repeatable, not change the record, and meet an expectation
// only if every planned round has operations.
func FuzzJudge(f *testing.F) {
	for _, r := range []*leak.Record{{}, recordOf(leakyValues, flatValues), recordOf(flatValues[:3], leakyValues[:2])} {
		data, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r leak.Record
		if json.Unmarshal(data, &r) != nil || len(r.Plan.Variants) > 20 {
			return
		}
		v := judgeTwice(t, scenario(), &r)
		for _, vv := range v.Variants {
			if vv.Result != leak.Met {
				continue
			}
			m := r.Variant(vv.Variant)
			if m == nil || r.Plan.Rounds < 1 || len(m.Snapshots) <= r.Plan.Rounds || m.Failure != nil || m.Final().Operations <= 0 {
				t.Fatalf("%s meets its expectation: %s", vv.Variant, vv.Reason)
			}
		}
	})
}

// losing has a worker lost with n operations of the second round.
func losing(v *leak.VariantRecord, n int) {
	load := &v.Snapshots[2].Load[0]
	load.Succeeded -= n
	load.Failed += n
	load.Errors = []leak.ErrorCount{{Message: "worker 2 of 4 lost: evicted", Count: n, Lost: true}}
	load.Workers = []leak.WorkerTally{{Operations: 10, Attempted: 10, Succeeded: 10}, {First: 10, Operations: 10, Attempted: 10 - n, Succeeded: 10 - n, Lost: "evicted"}}
}

// TestFlatSummaries checks that flat series share one statement.
// TestOwnThreads checks that descriptors of the runtime's threads are not among the sites that grew, but that the
// runtime's descriptors of leaking goroutines are.
func TestOwnThreads(t *testing.T) {
	runtimeOnly := func(name string) leak.Stack {
		return leak.Stack{Frames: []leak.Frame{{Func: "runtime." + name, File: "runtime/proc.go", Line: 1}, {Func: "runtime.systemstack", File: "runtime/asm_amd64.s", Line: 514}}}
	}
	thread, goroutine := runtimeOnly("allocm"), runtimeOnly("malg")
	program := leak.Stack{Frames: append([]leak.Frame{{Func: "runtime.mstart", File: "runtime/asm_amd64.s", Line: 2}}, leak.Frame{Func: "main.work", File: "main.go", Line: 3})}
	x := leak.VariantRecord{Name: "x", Stacks: map[string]leak.Stack{}}
	for round := range 8 {
		s := leak.Snapshot{Round: round, Operations: 100 * round, Settle: leak.SettleResult{Settled: true}}
		groups := []leak.Group{}
		for _, g := range []struct {
			stack leak.Stack
			bytes int64
		}{{thread, 64 * int64(min(round, 2))}, {goroutine, 40_000 * int64(round)}, {program, 8 * int64(round)}} {
			x.Stacks[g.stack.ID()] = g.stack
			groups = append(groups, leak.Group{Stack: g.stack.ID(), Bytes: g.bytes, Count: 1})
		}
		s.Samples = []leak.Sample{{Probe: "heap", Groups: map[string][]leak.Group{"heap": groups}}}
		x.Snapshots = append(x.Snapshots, s)
	}
	grew, spreads := growing(evidence{leak.Evidence{Variant: x, Rounds: 7}}, "heap", func(leak.Stack) bool { return false })
	var names []string
	for _, g := range grew {
		names = append(names, g.Stack.Frames[0].Func)
	}
	if got := strings.Join(names, " "); got != "runtime.malg runtime.mstart" || len(spreads) != 1 || spreads[0].Stacks != 2 {
		t.Errorf("grew: %s, %+v", got, spreads)
	}
}

func TestFlatSummaries(t *testing.T) {
	finding := func(series, unit string, floor float64) leak.Finding {
		f := leak.Finding{Check: series, Series: series, Unit: unit, Floor: floor, Unbounded: true, BoundPerOperation: true, Outcome: leak.Clean}
		f.Summary = headline(&f) + fmt.Sprintf(undetected, per(floor, unit))
		return f
	}
	flat := []leak.Finding{finding("goroutine.count", "goroutines", 0.004), finding("any-stack", "goroutines", 0.004), finding("heap.alloc", "bytes", 34)}
	if got, want := summaries(flat), "Nothing grows; a leak below 0.004 goroutines or 34 B of heap.alloc per operation would not have been detected"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	stopped := finding("heap.objects", "objects", 1)
	stopped.Summary = "heap.objects 0 per operation: the +12 before have stopped"
	if got := summaries(append(flat[:1], stopped)); !strings.HasPrefix(got, stopped.Summary+"; nothing else grows; a leak below 0.004 goroutines per operation") {
		t.Errorf("%q", got)
	}
}
