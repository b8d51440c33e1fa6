package checks

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// loaded is a variant with a tally of 100 operations per latency, in seconds, of a round.
func loaded(medians ...float64) leak.VariantRecord {
	v := variantOf("v", make([]float64, len(medians)+1)...)
	for i, m := range medians {
		v.Snapshots[i+1].Operations = 100 * (i + 1)
		v.Snapshots[i+1].Load = []leak.Tally{{
			Action: "post", Attempted: 100, Succeeded: 100, Latency: leak.Latency{P50: m, P90: 2 * m, P99: 3 * m, Max: 10 * m},
		}}
	}
	return v
}

func repeated(n int, value func(i int) float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = value(i)
	}
	return values
}

func TestLatency(t *testing.T) {
	ms := func(n int) leak.Duration { return leak.Duration(time.Duration(n) * time.Millisecond) }
	flat := repeated(8, func(int) float64 { return 0.010 })
	slower := repeated(8, func(i int) float64 { return 0.010 + 0.001*float64(i) }) // 10 ms per 1,000 operations
	for _, tt := range []struct {
		name    string
		check   Latency
		values  []float64
		change  func(*leak.VariantRecord)
		want    leak.Outcome
		summary string
	}{
		{name: "within", check: Latency{P50: ms(11), P99: ms(30), Max: ms(100)}, values: flat, want: leak.Clean, summary: "p50 10.0 ms, within 11ms; p99 30.0 ms, within 30ms; max 100 ms, within 100ms"},
		{name: "over in one of them", check: Latency{P50: ms(11), P99: ms(29)}, values: flat, want: leak.Leaking, summary: "p99 30.0 ms, over 29ms"},
		{name: "one slow round does not count for the percentiles", check: Latency{P99: ms(30)}, values: append(flat[:7:7], 0.2), want: leak.Clean},
		{name: "one slow operation counts", check: Latency{Max: ms(100)}, values: append(flat[:7:7], 0.2), want: leak.Leaking, summary: "max 2.00 s, over 100ms"},
		{name: "slower and slower", check: Latency{Growth: ms(5)}, values: slower, want: leak.Leaking, summary: "post.latency +10.0 µs per operation, sustained"},
		{name: "slower, within the bound", check: Latency{Growth: ms(12)}, values: slower, want: leak.Clean, summary: "within"},
		{name: "as fast as before", check: Latency{Growth: ms(1)}, values: flat, want: leak.Clean},
		{name: "too few rounds for a trend", check: Latency{Growth: ms(5)}, values: slower[:4], want: leak.Inconclusive, summary: "a trend needs 5 rounds"},
		{name: "a trend that is clean does not hide a bound", check: Latency{Growth: ms(1), Max: ms(50)}, values: flat, want: leak.Leaking, summary: "max 100 ms, over 50ms"},
		{name: "a round is missing", check: Latency{Max: ms(100)}, values: flat, change: func(v *leak.VariantRecord) { v.Snapshots = v.Snapshots[:8] }, want: leak.Inconclusive, summary: "only 7 of 8 planned rounds"},
		{name: "no operations", check: Latency{Max: ms(100)}, values: flat, change: func(v *leak.VariantRecord) { v.Snapshots[3].Load = nil }, want: leak.Inconclusive, summary: "round 3: no operations were attempted"},
		{
			name: "another action, and faults, are not judged", check: Latency{Max: ms(100)}, values: flat, want: leak.Clean,
			change: func(v *leak.VariantRecord) {
				slow := leak.Latency{P50: 9, P99: 9, Max: 9}
				v.Snapshots[2].Load = append(v.Snapshots[2].Load, leak.Tally{Action: "other", Attempted: 7, Latency: slow}, leak.Tally{Action: "cut", Fault: "cut", Attempted: 100, Latency: slow})
			},
		},
		{name: "no bound", check: Latency{}, values: flat, want: leak.Inconclusive, summary: "no bound"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := loaded(tt.values...)
			if tt.change != nil {
				tt.change(&v)
			}
			f := tt.check.Check(evidenceOf(v, len(tt.values)))
			if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
				t.Errorf("%v: %s", f.Outcome, f.Summary)
			}
		})
	}
	for _, c := range []Latency{{P50: -1}, {Growth: -1}, {}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}

// TestLatencyTrend measures the growth check on latencies with heavy tails: without growth it stays silent, and it finds
// operations that become slower by a tenth of the median per round.
func TestLatencyTrend(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 27))
	check := &Latency{Growth: leak.Duration(500 * time.Microsecond)} // 50 µs a round
	const trials = 400
	alarms, found, clean := 0, 0, 0
	for range trials {
		noise := func() float64 { return 0.002 * math.Exp(0.05*random.NormFloat64()) }
		switch check.Check(evidenceOf(loaded(repeated(12, func(int) float64 { return noise() })...), 12)).Outcome {
		case leak.Leaking:
			alarms++
		case leak.Clean:
			clean++
		}
		grows := repeated(12, func(i int) float64 { return noise() + 0.0002*float64(i) })
		if check.Check(evidenceOf(loaded(grows...), 12)).Outcome == leak.Leaking {
			found++
		}
	}
	if alarms > 0 || found < trials*9/10 || clean < trials*9/10 {
		t.Errorf("%d false alarms, %d of %d found, %d clean", alarms, found, trials, clean)
	}
}

func TestErrors(t *testing.T) {
	failing := func(failed ...int) leak.VariantRecord {
		v := loaded(make([]float64, len(failed))...)
		for i, n := range failed {
			one := &v.Snapshots[i+1].Load[0]
			one.Failed, one.Succeeded = n, 100-n
			if n > 0 {
				one.Errors = []leak.ErrorCount{{Message: "connection reset", Count: n}}
			}
		}
		return v
	}
	for _, tt := range []struct {
		name    string
		check   Errors
		v       leak.VariantRecord
		want    leak.Outcome
		summary string
	}{
		{"none", Errors{}, failing(0, 0), leak.Clean, "0 of 200 operations failed"},
		{"within the bound", Errors{Max: 0.2}, failing(10, 30), leak.Clean, "40 of 200 operations failed (20 %), within 20 %: connection reset"},
		{"over it", Errors{Max: 0.2}, failing(10, 31), leak.Leaking, "over 20 %"},
		{"of an action that did not run", Errors{Action: "exec", Max: 0.2}, failing(0, 0), leak.Inconclusive, "no operations were attempted"},
		{"a share that is none", Errors{Max: 2}, failing(0, 0), leak.Inconclusive, "not between 0 and 1"},
	} {
		f := tt.check.Check(evidenceOf(tt.v, 2))
		if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
			t.Errorf("%s: %v: %s", tt.name, f.Outcome, f.Summary)
		}
	}

	// Failures within the bound are part of the load. More of them are not as expected, and no leak is reproduced by
	// another load than that of the scenario.
	delta := leak.Block[leak.Check]{Kind: "delta", Name: "delta", Value: &Delta{Probe: "goroutine", Max: 10}}
	budget := leak.Block[leak.Check]{Kind: "errors", Name: "errors", Value: &Errors{Max: 0.2}}
	for _, tt := range []struct {
		name   string
		checks []leak.Block[leak.Check]
		failed int
		expect leak.Expectation
		want   leak.Result
		reason string
	}{
		{"no budget", []leak.Block[leak.Check]{delta}, 10, leak.ExpectClean, leak.Undecided, "20 of 200 operations (post) failed"},
		{"within the budget", []leak.Block[leak.Check]{delta, budget}, 10, leak.ExpectClean, leak.Met, ""},
		{"over the budget", []leak.Block[leak.Check]{delta, budget}, 30, leak.ExpectClean, leak.NotMet, "errors is over its bound: 60 of 200 operations failed"},
		{"over it, expected to leak", []leak.Block[leak.Check]{delta, budget}, 30, leak.ExpectLeaking, leak.Undecided, "60 of 200 operations (post) failed"},
	} {
		v := measuredIdle(failing(tt.failed, tt.failed))
		s := &leak.Scenario{Spec: leak.Spec{Checks: tt.checks, Variants: []leak.Variant{{Name: "v", Expect: tt.expect, Fingerprint: []string{"delta"}}}}}
		r := &leak.Record{Plan: leak.Plan{Variants: []string{"v"}, Rounds: 2}, Metrics: testMetrics(), Variants: []leak.VariantRecord{v}}
		verdict := Judge(s, r)
		if got := verdict.Variants[0]; got.Result != tt.want || !strings.Contains(got.Reason, tt.reason) {
			t.Errorf("%s: %v: %s", tt.name, got.Result, got.Reason)
		}
		if tt.want == leak.NotMet && !strings.Contains(verdict.Sentence, "v is over the bound of errors") {
			t.Errorf("%s: %s", tt.name, verdict.Sentence)
		}
	}
	// A fault that could not be injected is never excused.
	fault := failing(0, 0)
	fault.Snapshots[1].Load = append(fault.Snapshots[1].Load, leak.Tally{Action: "cut", Fault: "cut", Attempted: 10, Succeeded: 9, Failed: 1})
	if why := badLoad(nil, fault.Snapshots, excused{failed: map[string]float64{"": 1}}); !strings.Contains(why, "1 of 10 operations (cut) failed") {
		t.Errorf("%q", why)
	}
	never := failing(0, 0)
	never.Snapshots[1].Load = append(never.Snapshots[1].Load, leak.Tally{Action: "cut", Fault: "cut"})
	if why := badLoad(nil, never.Snapshots, excused{}); !strings.Contains(why, "the fault cut was never injected") {
		t.Errorf("%q", why)
	}
}
