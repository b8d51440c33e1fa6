package checks

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// execs is a variant with rounds of 100 operations, of which timedOut did not return, and with blocked goroutines in
// a second dump; -1 means no second dump.
func execs(timedOut, blocked []int64) leak.VariantRecord {
	stuck := leak.Stack{State: "chan receive", Frames: []leak.Frame{{Func: "ttrpc.(*Client).dispatch"}}}
	other := leak.Stack{State: "IO wait", Frames: []leak.Frame{{Func: "net.(*conn).Read"}}}
	v := leak.VariantRecord{Name: "v", Stacks: map[string]leak.Stack{"stuck": stuck, "other": other}}
	for i := 0; i <= len(timedOut); i++ {
		sample := leak.Sample{
			Probe: "containerd/goroutine", Values: map[string]float64{"count": 50},
			Groups: map[string][]leak.Group{"dump": {{Stack: "stuck", Count: 2}, {Stack: "other", Count: 48}}},
		}
		s := leak.Snapshot{Round: i, Operations: 100 * i, Settle: leak.SettleResult{Settled: true}}
		if i > 0 {
			s.Load = []leak.Tally{{Action: "exec", Attempted: 100, Failed: int(timedOut[i-1]), Succeeded: 100 - int(timedOut[i-1]), TimedOut: int(timedOut[i-1])}}
			if n := blocked[i-1]; n >= 0 {
				sample.BlockedRead = true
				sample.Blocked = []leak.Group{{Stack: "stuck", Count: n}, {Stack: "other", Count: 48}}
			}
		}
		s.Samples = []leak.Sample{sample}
		v.Snapshots = append(v.Snapshots, s)
	}
	return v
}

func TestHung(t *testing.T) {
	for _, tt := range []struct {
		name              string
		timedOut, blocked []int64
		want              leak.Outcome
		summary           string
	}{
		{"all returned", []int64{0, 0}, []int64{-1, -1}, leak.Clean, "all 200 operations returned in time"},
		{"slow, and gone ten seconds later", []int64{0, 7}, []int64{-1, 2}, leak.Clean, "0 operations hung, within 0; 7 missed their deadline"},
		{"hung", []int64{0, 97}, []int64{-1, 99}, leak.Leaking, "97 operations hung (97 of 200 missed their deadline"},
		{"some hung, some slow", []int64{60, 0}, []int64{42, -1}, leak.Leaking, "40 operations hung"},
		{"hung over two rounds", []int64{10, 10}, []int64{12, 22}, leak.Leaking, "20 operations hung"},
		{"without a second dump it does not pass", []int64{0, 1}, []int64{-1, -1}, leak.Inconclusive, "no second dump"},
		{"no round", nil, nil, leak.Inconclusive, "no round was measured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &Hung{Probe: "containerd/goroutine", Match: "dispatch"}
			f := c.Check(evidenceOf(execs(tt.timedOut, tt.blocked), len(tt.timedOut)))
			if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
				t.Errorf("%v: %s", f.Outcome, f.Summary)
			}
		})
	}
	for _, c := range []*Hung{{}, {Probe: "heap"}, {Probe: "goroutine", Match: "("}, {Probe: "goroutine", Max: -1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}

// TestHungOperationsAsLoad checks that hung operations are not failed load if a check bounds them, and are failed
// load otherwise.
func TestHungOperationsAsLoad(t *testing.T) {
	v := measuredIdle(execs([]int64{0, 97}, []int64{-1, 99}))
	hung := leak.Block[leak.Check]{Kind: "hung", Name: "hung", Value: &Hung{Probe: "containerd/goroutine", Match: "dispatch"}}
	delta := leak.Block[leak.Check]{Kind: "delta", Name: "delta", Value: &Delta{Probe: "containerd/goroutine", Max: 10}}
	for _, tt := range []struct {
		checks []leak.Block[leak.Check]
		want   leak.Result
		reason string
	}{
		{[]leak.Block[leak.Check]{delta}, leak.Undecided, "97 of 200 operations (exec) failed"},
		{[]leak.Block[leak.Check]{delta, hung}, leak.NotMet, "97 operations hung"},
	} {
		s := &leak.Scenario{Spec: leak.Spec{Rounds: 2, Checks: tt.checks, Variants: []leak.Variant{{Name: "v", Expect: leak.ExpectClean}}}}
		r := &leak.Record{Plan: leak.Plan{Variants: []string{"v"}, Rounds: 2}, Variants: []leak.VariantRecord{v}, Metrics: map[string]leak.Metric{
			"containerd/goroutine.count": {Name: "count", Unit: "goroutines", Default: true},
		}}
		got := Judge(s, r).Variants[0]
		if got.Result != tt.want || !strings.Contains(got.Reason, tt.reason) {
			t.Errorf("%v: %s", got.Result, got.Reason)
		}
	}
}

// TestHungExcusesOnce checks that hung operations excuse the same number in total, not per action.
func TestHungExcusesOnce(t *testing.T) {
	load := func(action string) leak.Tally {
		return leak.Tally{Action: action, Attempted: 400, Succeeded: 100, Failed: 300, TimedOut: 300}
	}
	shots := []leak.Snapshot{{}, {Operations: 800, Load: []leak.Tally{load("exec"), load("slow")}}}
	if why := badLoad(nil, shots, excused{hung: 300}); !strings.Contains(why, "300 of 400 operations (slow) failed") {
		t.Errorf("%q", why)
	}
	if why := badLoad(nil, shots, excused{hung: 600}); why != "" {
		t.Errorf("%q", why)
	}
}

// measuredIdle is a variant whose last snapshot was taken once more after idling.
func measuredIdle(v leak.VariantRecord) leak.VariantRecord {
	idle := *v.Final()
	v.Idle = &idle
	return v
}

func TestEnough(t *testing.T) {
	zero := leak.Quantity(0)
	stack := leak.Block[leak.Check]{Kind: "stack", Name: "stuck", Value: &Stack{Probe: "containerd/goroutine", Match: "dispatch", Max: &zero}}
	trend := leak.Block[leak.Check]{Kind: "growth", Name: "trend", Value: &Growth{Probe: "containerd/goroutine"}}
	hung := leak.Block[leak.Check]{Kind: "hung", Name: "hung", Value: &Hung{Probe: "containerd/goroutine", Match: "dispatch"}}
	s := &leak.Scenario{Spec: leak.Spec{Checks: []leak.Block[leak.Check]{stack, trend, hung}}}
	deadlocked := execs([]int64{0, 97}, []int64{-1, 99})
	deadlocked.Snapshots[2].Samples[0].Groups["dump"][0].Count = 99
	for _, tt := range []struct {
		name    string
		variant leak.Variant
		record  leak.VariantRecord
		want    bool
	}{
		{"nothing yet", leak.Variant{Expect: leak.ExpectLeaking, Fingerprint: []string{"stuck"}}, execs([]int64{0}, []int64{-1}), false},
		{"the fingerprint stands", leak.Variant{Expect: leak.ExpectLeaking, Fingerprint: []string{"stuck"}}, deadlocked, true},
		{"half of it", leak.Variant{Expect: leak.ExpectLeaking, Fingerprint: []string{"stuck", "trend"}}, deadlocked, false},
		{"clean, and hangs", leak.Variant{Expect: leak.ExpectClean}, deadlocked, true},
		{"clean, and does not", leak.Variant{Expect: leak.ExpectClean}, execs([]int64{0, 0}, []int64{-1, -1}), false},
	} {
		if why := Enough(s, tt.variant, tt.record, testMetrics()); (why != "") != tt.want {
			t.Errorf("%s: %q", tt.name, why)
		}
	}
}

// TestStoppedIsWhole checks that a run that stopped because more would add nothing is complete, and that an
// interrupted one is not.
func TestStoppedIsWhole(t *testing.T) {
	v := measuredIdle(execs([]int64{0, 97}, []int64{-1, 99}))
	s := &leak.Scenario{Spec: leak.Spec{Rounds: 9, Variants: []leak.Variant{{Name: "v", Expect: leak.ExpectLeaking, Fingerprint: []string{"hung"}}}, Checks: []leak.Block[leak.Check]{
		{Kind: "hung", Name: "hung", Value: &Hung{Probe: "containerd/goroutine", Match: "dispatch"}},
	}}}
	r := &leak.Record{Plan: leak.Plan{Variants: []string{"v"}, Rounds: 9}, Variants: []leak.VariantRecord{v}}
	if got := Judge(s, r).Variants[0]; got.Result != leak.Unmeasured {
		t.Errorf("cut short: %v: %s", got.Result, got.Reason)
	}
	r.Variants[0].Stopped = "hung beyond doubt"
	verdict := Judge(s, r)
	if got := verdict.Variants[0]; got.Result != leak.Met {
		t.Errorf("stopped: %v: %s", got.Result, got.Reason)
	}
	if want := "v hangs: 97 of 200 operations never returned."; verdict.Sentence != want {
		t.Errorf("%q, want %q", verdict.Sentence, want)
	}
}
