package checks

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

func evidenceOf(v leak.VariantRecord, rounds int) leak.Evidence {
	return leak.Evidence{Check: "c", Variant: v, Rounds: rounds, Metrics: testMetrics(), Alpha: 2.5e-4}
}

func unsettle(v *leak.VariantRecord, rounds ...int) {
	for _, r := range rounds {
		v.Snapshots[r].Settle.Settled = false
	}
}

func setIdle(v *leak.VariantRecord, x float64) {
	idle := snapshot(len(v.Snapshots)-1, x)
	v.Idle = &idle
}

func TestDelta(t *testing.T) {
	for _, tt := range []struct {
		name    string
		values  []float64
		change  func(*leak.VariantRecord)
		want    leak.Outcome
		summary string
	}{
		{name: "within the bound", values: []float64{12, 30, 13}, want: leak.Clean, summary: "goroutine.count 12 → 13, within +10"},
		{name: "on the bound", values: []float64{12, 12, 22}, want: leak.Clean},
		{name: "over it and still there", values: []float64{12, 80, 149}, want: leak.Leaking, summary: "goroutine.count 12 → 149, over +10, and still 149 after idling"},
		{
			name: "over it, drained while idling", values: []float64{12, 80, 149}, change: func(v *leak.VariantRecord) { setIdle(v, 13) },
			want: leak.Clean, summary: "goroutine.count 12 → 149, but 13 after idling, within +10: it drains slowly",
		},
		{name: "over it, half drained", values: []float64{12, 80, 149}, change: func(v *leak.VariantRecord) { setIdle(v, 60) }, want: leak.Leaking},
		{
			name: "over it, never idled", values: []float64{12, 80, 149}, change: func(v *leak.VariantRecord) { v.Idle = nil },
			want: leak.Leaking, summary: "goroutine.count 12 → 149, over +10 (not measured again after idling)",
		},
		{name: "a last round that still fell, over the bound", values: []float64{12, 80, 149}, change: func(v *leak.VariantRecord) { unsettle(v, 2) }, want: leak.Inconclusive, summary: "raise settle.timeout"},
		{name: "a last round that still fell, within it", values: []float64{12, 80, 14}, change: func(v *leak.VariantRecord) { unsettle(v, 1, 2) }, want: leak.Clean},
		{name: "a baseline that still fell hides growth", values: []float64{12, 12, 12}, change: func(v *leak.VariantRecord) { unsettle(v, 0) }, want: leak.Inconclusive, summary: "the baseline was still falling"},
		{
			name: "no sample in the middle", values: []float64{12, 12, 12}, change: func(v *leak.VariantRecord) { v.Snapshots[1].Samples = nil },
			want: leak.Inconclusive, summary: "round 1: no sample of the probe goroutine",
		},
		{name: "no sample after idling", values: []float64{12, 12, 12}, change: func(v *leak.VariantRecord) { v.Idle.Samples = nil }, want: leak.Inconclusive, summary: "after idling: no sample"},
		{
			name: "no metric", values: []float64{12, 12, 12}, change: func(v *leak.VariantRecord) { v.Snapshots[2].Samples[0].Values = nil },
			want: leak.Inconclusive, summary: "round 2: the sample has no goroutine.count",
		},
		{
			name: "a round is missing", values: []float64{12, 12, 12}, change: func(v *leak.VariantRecord) { v.Snapshots = v.Snapshots[:2] },
			want: leak.Inconclusive, summary: "only 1 of 2 planned rounds",
		},
		{
			name: "a round has another one's number", values: []float64{12, 12, 12}, change: func(v *leak.VariantRecord) { v.Snapshots[1].Round = 2 },
			want: leak.Inconclusive, summary: "only 0 of 2 planned rounds",
		},
		{name: "not a number", values: []float64{12, math.NaN(), 12}, want: leak.Inconclusive, summary: "round 1: NaN"},
		{name: "infinite", values: []float64{math.Inf(1), 12, 12}, want: leak.Inconclusive, summary: "baseline: +Inf"},
		{name: "negative", values: []float64{12, 12, -5}, want: leak.Inconclusive},
		{name: "larger than anything real", values: []float64{12, 12, 1e300}, want: leak.Inconclusive},
		{name: "nothing", want: leak.Inconclusive, summary: "no baseline was measured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := variantOf("v", tt.values...)
			if tt.change != nil {
				tt.change(&v)
			}
			f := (&Delta{Probe: "goroutine", Max: 10}).Check(evidenceOf(v, 2))
			if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
				t.Errorf("%v: %s", f.Outcome, f.Summary)
			}
		})
	}
}

func TestGrowthGuards(t *testing.T) {
	leaky := []float64{0, 20, 40, 60, 80, 100, 120, 140}
	flat := []float64{7, 7, 7, 7, 7, 7, 7, 7}
	for _, tt := range []struct {
		name    string
		values  []float64
		change  func(*leak.VariantRecord)
		want    leak.Outcome
		summary string
	}{
		{name: "a leak", values: leaky, want: leak.Leaking, summary: "goroutine.count +1.00 per operation, sustained (p = 5.5e-06); bound 0.01; exactly 1 per operation"},
		{name: "no leak", values: flat, want: leak.Clean, summary: "goroutine.count 0 per operation, within 0.01"},
		{name: "growth that stopped", values: []float64{0, 90, 90, 90, 90, 90, 90, 90}, want: leak.Clean, summary: "within 0.01"},
		{
			name: "a leak that drains while idling", values: leaky, change: func(v *leak.VariantRecord) { setIdle(v, 3) },
			want: leak.Inconclusive, summary: "only +3 of +140 were left after idling, so it drains; raise settle.quiet",
		},
		{name: "a leak that loses a little while idling", values: leaky, change: func(v *leak.VariantRecord) { setIdle(v, 120) }, want: leak.Leaking},
		{
			name: "a leak that was not measured after idling", values: leaky, change: func(v *leak.VariantRecord) { v.Idle = nil },
			want: leak.Leaking, summary: "not measured again after idling",
		},
		{name: "a leak with a last round that still fell", values: leaky, change: func(v *leak.VariantRecord) { unsettle(v, 7) }, want: leak.Inconclusive, summary: "the last round was still falling"},
		{name: "a leak with a middle round that still fell", values: leaky, change: func(v *leak.VariantRecord) { unsettle(v, 3) }, want: leak.Leaking},
		{name: "no leak, last round still fell", values: flat, change: func(v *leak.VariantRecord) { unsettle(v, 7) }, want: leak.Clean},
		{name: "no leak, baseline still fell", values: flat, change: func(v *leak.VariantRecord) { unsettle(v, 0) }, want: leak.Inconclusive, summary: "the baseline was still falling"},
		{name: "a perfect trend over too few rounds", values: leaky[:6], want: leak.Inconclusive, summary: "p = 0.0004, needed 0.00025); --rounds 6"},
		{name: "a flat line over too few rounds", values: flat[:5], want: leak.Inconclusive, summary: "a trend needs 5 rounds"},
		{name: "no operations", values: flat, change: operationsAre(0, 0, 0, 0, 0, 0, 0, 0), want: leak.Inconclusive, summary: "no operations were attempted"},
		{name: "no operations lately", values: flat, change: operationsAre(0, 20, 40, 60, 80, 80, 80, 80), want: leak.Inconclusive, summary: "in the last 3 rounds"},
		{name: "operations in four rounds of seven", values: flat, change: operationsAre(0, 20, 20, 40, 40, 60, 60, 80), want: leak.Inconclusive, summary: "a trend needs 5 rounds"},
		{name: "operations that go back", values: flat, change: operationsAre(0, 20, 40, 60, 50, 100, 120, 140), want: leak.Inconclusive, summary: "round 4: the operations went back to 50"},
		{name: "rounds of different size", values: leaky, change: operationsAre(0, 20, 40, 60, 80, 100, 120, 140), want: leak.Leaking},
		{name: "negative operations", values: flat, change: operationsAre(-9, 0, 1, 2, 3, 4, 5, 6), want: leak.Inconclusive},
		{name: "enormous operations", values: flat, change: operationsAre(0, 1, 2, 3, 4, 5, 6, math.MaxInt), want: leak.Clean},
		{name: "enormous values", values: []float64{0, 1e18, 0, 1e18, 0, 1e18, 0, 1e18}, want: leak.Inconclusive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := variantOf("v", tt.values...)
			if tt.change != nil {
				tt.change(&v)
			}
			f := (&Growth{Probe: "goroutine", Metric: "count", MaxPerOp: quantity(0.01)}).Check(evidenceOf(v, len(tt.values)-1))
			if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
				t.Errorf("%v: %s\n%+v", f.Outcome, f.Summary, f.Gates)
			}
			if _, err := json.Marshal(f); err != nil {
				t.Error(err)
			}
		})
	}
}

// For every gate that noise alone rarely makes decide: a series on which nothing else stands in the way.
func TestGrowthStoppedBy(t *testing.T) {
	for _, tt := range []struct {
		gate   string
		values []float64
		why    string
	}{
		{"tail growth", []float64{20, 20, 20, 20, 20, 20, 20, 20, 10, 11, 12, 13, 14, 15, 16, 10}, "it grows only in the last rounds"},
		{"tail net growth", []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 900}, "one step in the last rounds is over the bound"},
		{"growth", []float64{0, 0, 0, 0, 0, 0, 200, 400}, "it grows only in the last rounds"},
		{"drawdown", []float64{10, 11, 12, 13, 14, 15, 16, 10.5, 18, 19, 20, 21, 22, 23, 24}, "it falls by 5.50 in between"},
		{"saturation", []float64{0, 10, 20, 30, 40, 41, 42, 60}, "it is slowing down"},
		{"last rounds", []float64{0, 10, 20, 30, 40, 50, 60, 60}, "it slowed down in the last 2 rounds"},
		{"lull", []float64{0, 1, 1, 2, 2, 2, 2, 2}, "it grew in steps up to 40 operations apart, and 80 operations without a step"},
	} {
		c := &Growth{Probe: "goroutine", MaxPerOp: quantity(0.01)}
		f := c.Check(evidenceOf(variantOf("v", tt.values...), len(tt.values)-1))
		if f.Outcome != leak.Inconclusive || !strings.Contains(f.Summary, tt.why) {
			t.Errorf("%s: %v: %s", tt.gate, f.Outcome, f.Summary)
		}
	}
}

func operationsAre(n ...int) func(*leak.VariantRecord) {
	return func(v *leak.VariantRecord) {
		for i := range v.Snapshots {
			v.Snapshots[i].Operations = n[i]
		}
	}
}

// TestGatesAreAlwaysListed checks that every gate is listed for any outcome. Only the lull is omitted if nothing
// grew.
func TestGatesAreAlwaysListed(t *testing.T) {
	names := func(f leak.Finding) string {
		var s []string
		for _, g := range f.Gates {
			s = append(s, g.Name)
			if g.Doc == "" {
				t.Errorf("gate %s has no doc", g.Name)
			}
		}
		return strings.Join(s, ", ")
	}
	want := "rounds, unsettled baseline, tail growth, tail net growth, upper limit, growth, lower limit, left after idling, trend, drawdown, saturation, last rounds, unsettled last round"
	if got := names(judgeValues(1, 5, 5, 5, 5, 5, 5, 5, 5)); got != want {
		t.Errorf("clean: %s", got)
	}
	want = strings.Replace(want, "last rounds, ", "last rounds, lull, ", 1)
	if got := names(judgeValues(1, 0, 200, 400, 600, 800, 1000, 1200, 1400)); got != want {
		t.Errorf("leaking: %s", got)
	}
	if o, _ := decide(nil, gateTail); o != leak.Inconclusive {
		t.Errorf("no gates: %v", o)
	}
}

func TestStack(t *testing.T) {
	leaky := []float64{0, 20, 39, 59, 78, 98, 118, 137}
	drop := func(rounds ...int) func(*leak.VariantRecord) {
		return func(v *leak.VariantRecord) {
			for _, r := range rounds {
				delete(v.Snapshots[r].Samples[0].Groups, "dump")
			}
		}
	}
	perOp := func(match, state string) *Stack {
		return &Stack{Probe: "goroutine", Match: match, State: state, MaxPerOp: quantity(0.01)}
	}
	for _, tt := range []struct {
		name    string
		check   *Stack
		values  []float64
		change  func(*leak.VariantRecord)
		want    leak.Outcome
		summary string
	}{
		{
			name: "by function and state", check: perOp(`StreamWatcher\).receive`, "chan send"), values: leaky, want: leak.Leaking,
			summary: "+0.98 goroutines per operation, blocked in chan send at watch.(*StreamWatcher).receive (137 after 140 operations; bound 0.01)",
		},
		{name: "by file and line", check: perOp(`streamwatcher\.go:125$`, ""), values: leaky, want: leak.Leaking},
		{name: "by creator", check: perOp(`NewStreamWatcher`, ""), values: leaky, want: leak.Leaking},
		{name: "another state", check: perOp(`receive`, "select"), values: leaky, want: leak.Clean, summary: "(no stack matches)"},
		{name: "nothing matches", check: perOp(`nosuch`, ""), values: leaky, want: leak.Clean, summary: "0 goroutines per operation, within 0.01 (no stack matches)"},
		{name: "a constant stack", check: perOp(`conn\).serve`, ""), values: leaky, want: leak.Clean},
		{name: "everything", check: perOp(`.`, ""), values: leaky, want: leak.Leaking},
		{name: "callers that lead there", check: &Stack{Probe: "goroutine", Match: "receive", Callers: []string{"goexit"}, MaxPerOp: quantity(0.01)}, values: leaky, want: leak.Leaking},
		{name: "callers that do not", check: &Stack{Probe: "goroutine", Match: "goexit", Callers: []string{"receive"}, MaxPerOp: quantity(0.01)}, values: leaky, want: leak.Clean, summary: "(no stack matches)"},
		{
			name: "max, over", check: &Stack{Probe: "goroutine", Match: "receive", Max: quantity(5)}, values: leaky, want: leak.Leaking,
			summary: "0 → 137 goroutines, blocked in chan send at watch.(*StreamWatcher).receive, over +5, and still 137 after idling",
		},
		{name: "max, within", check: &Stack{Probe: "goroutine", Match: "receive", Max: quantity(5)}, values: []float64{0, 0, 3}, want: leak.Clean, summary: "0 → 3 goroutines"},
		{name: "heap bytes", check: &Stack{Probe: "heap", Match: "receive", MaxPerOp: quantity(0.01)}, values: leaky, want: leak.Leaking, summary: "+1 B per operation"},
		{
			name: "heap that was not sampled", check: &Stack{Probe: "heap", Match: "receive", MaxPerOp: quantity(0.01)}, values: leaky,
			change: func(v *leak.VariantRecord) { v.Snapshots[3].Samples[1].Groups = nil }, want: leak.Inconclusive, summary: "round 3: the sample of the probe heap has no stacks",
		},

		{name: "one dump is missing: profiles for all", check: perOp(`receive`, ""), values: leaky, change: drop(4), want: leak.Leaking, summary: "from pprof profiles"},
		{
			name: "one dump is missing, creator needed", check: perOp(`NewStreamWatcher`, ""), values: leaky, want: leak.Inconclusive, summary: "matches by its creator, which needs a text dump",
			change: func(v *leak.VariantRecord) { drop(4)(v); profilesWithout(v, true) },
		},
		{
			name: "one dump is missing, state needed", check: perOp(`receive`, "chan send"), values: leaky, want: leak.Inconclusive, summary: "the wait state of watch.(*StreamWatcher).receive is not known",
			change: func(v *leak.VariantRecord) { drop(4)(v); profilesWithout(v, false) },
		},
		{
			name: "no stacks at all in one round", check: perOp(`receive`, ""), values: leaky, want: leak.Inconclusive,
			change: func(v *leak.VariantRecord) { v.Snapshots[2].Samples[0].Groups = nil }, summary: "round 2: the sample of the probe goroutine has no stacks",
		},
		{
			name: "an empty dump is an error", check: perOp(`receive`, ""), values: leaky, want: leak.Inconclusive,
			change: func(v *leak.VariantRecord) {
				v.Snapshots[2].Samples[0].Groups = map[string][]leak.Group{"dump": {}, "profile": {}}
			},
		},
		{
			name: "a stack that the record lost", check: perOp(`receive`, ""), values: leaky, want: leak.Inconclusive,
			change: func(v *leak.VariantRecord) { v.Stacks = nil }, summary: "is not in the record",
		},
		{name: "a negative count", check: perOp(`receive`, ""), values: []float64{0, 0, 0, 0, 0, -1, 0, 0}, want: leak.Inconclusive},
		{name: "a bad expression", check: perOp(`(`, ""), values: leaky, want: leak.Inconclusive, summary: "match: error parsing regexp"},
		{name: "the zero check", check: &Stack{}, values: leaky, want: leak.Inconclusive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := variantOf("v", tt.values...)
			if tt.change != nil {
				tt.change(&v)
			}
			f := tt.check.Check(evidenceOf(v, len(tt.values)-1))
			if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
				t.Errorf("%v: %s\n%+v", f.Outcome, f.Summary, f.Gates)
			}
		})
	}
}

// profilesWithout gives the profile groups separate stacks, as in a pprof profile: no creator, and no state unless
// kept.
func profilesWithout(v *leak.VariantRecord, state bool) {
	s := receive
	s.Creator = nil
	if !state {
		s.State = ""
	}
	v.Stacks[s.ID()] = s
	shots := append([]*leak.Snapshot{v.Idle}, nil)
	for i := range v.Snapshots {
		shots = append(shots, &v.Snapshots[i])
	}
	for _, shot := range shots {
		if shot != nil {
			shot.Samples[0].Groups["profile"][0].Stack = s.ID()
		}
	}
}

// TestCallers checks that callers match from the outside in, each on a different frame, and that the match is
// innermost.
func TestCallers(t *testing.T) {
	var stack leak.Stack
	for _, f := range []string{"NewRingGrowing", "newProcessListener", "AddHandler", "toRecord", "setPeers", "main"} {
		stack.Frames = append(stack.Frames, leak.Frame{Func: "example.org/x." + f})
	}
	stack.Creator = &leak.Frame{Func: "example.org/x.creator"}
	for _, tt := range []struct {
		match   string
		callers []string
		want    bool
	}{
		{"NewRing", nil, true},
		{"NewRing", []string{"setPeers", "toRecord", "AddHandler"}, true},
		{"NewRing", []string{"toRecord", "setPeers"}, false}, // in the wrong order
		{"toRecord", []string{"NewRing"}, false},
		{"NewRing", []string{"NewRing"}, false}, // one frame is not two
		{"Listener|NewRing", []string{"Listener"}, true},
		{"NewRing", []string{"nosuch"}, false},
		{"creator", nil, true},
		{"creator", []string{"main"}, false}, // where it was called from is not known
	} {
		c := &Stack{Match: tt.match, Callers: tt.callers}
		if got := c.matchOne()(stack); got != tt.want {
			t.Errorf("%s after %v: %t", tt.match, tt.callers, got)
		}
	}
}

func TestStackGrowth(t *testing.T) {
	f := stackCheck().Check(evidenceOf(variantOf("v", 3, 23, 43, 63, 83, 103, 123, 143), 7))
	want := []leak.StackGrowth{{
		ID: receiveID, Stack: receive, From: 3, To: 143, PerOperation: 1, Module: "k8s.io/apimachinery v0.18.8",
		Who: &receive.Frames[0], Caller: receive.Creator,
	}}
	if !reflect.DeepEqual(f.Stacks, want) {
		t.Errorf("%+v", f.Stacks)
	}
	if len(f.Points) != 9 || !f.Points[8].Idle || f.Points[7].Idle || f.Points[7].Value != 143 {
		t.Errorf("points %+v", f.Points)
	}
	if f.PerOperation != 1 || f.Low != 1 || f.High != 1 || f.Bound != 0.01 || !f.BoundPerOperation || f.Unit != "goroutines" || f.Series != "" {
		t.Errorf("%+v", f)
	}
}

// Goroutines that a leak made stay the same ones; those of a backlog that turns over do not.
func TestSurvivors(t *testing.T) {
	number := func(v *leak.VariantRecord, first func(round int, idle bool) uint64) {
		for i, shot := range append([]*leak.Snapshot{v.Idle}, pointersTo(v.Snapshots)...) {
			for _, groups := range shot.Samples[0].Groups {
				for j := range groups {
					g := &groups[j]
					var ids []uint64
					for k := range int(g.Count) {
						ids = append(ids, uint64(j)<<32+first(shot.Round, i == 0)+uint64(k))
					}
					g.IDs = leak.IDsOf(ids...)
				}
			}
		}
	}
	leaky := []float64{3, 23, 43, 63, 83, 103, 123, 143}
	for _, tt := range []struct {
		name     string
		first    func(round int, idle bool) uint64
		want     leak.Outcome
		survived int
		summary  string
	}{
		{"the same ones", func(int, bool) uint64 { return 1 }, leak.Leaking, 140, "140 after 140 operations"},
		{"new ones each time", func(round int, idle bool) uint64 {
			if idle {
				round++
			}
			return uint64(round) * 1000
		}, leak.Inconclusive, 0, "only 0 of the goroutines that appeared in the rounds still exist"},
	} {
		v := variantOf("v", leaky...)
		number(&v, tt.first)
		f := stackCheck().Check(evidenceOf(v, 7))
		if f.Outcome != tt.want || f.Stacks[0].Survived != tt.survived || !strings.Contains(f.Summary, tt.summary) {
			t.Errorf("%s: %v, %d survived: %s", tt.name, f.Outcome, f.Stacks[0].Survived, f.Summary)
		}
	}
	// Without numbers, or with truncated dumps, the gate is omitted.
	f := stackCheck().Check(evidenceOf(leak.VariantRecord{Stacks: map[string]leak.Stack{receiveID: receive}}, 7))
	if f.Outcome != leak.Inconclusive {
		t.Errorf("no snapshot: %v", f)
	}
}

// TestEach checks that a growing stack is found despite a shrinking one if each is judged separately.
func TestEach(t *testing.T) {
	masked := func(growing, shrinking func(round int) int64) leak.VariantRecord {
		v := variantOf("v", 0, 0, 0, 0, 0, 0, 0, 0)
		for i, shot := range append(pointersTo(v.Snapshots), v.Idle) {
			i = min(i, 7)
			for source, groups := range shot.Samples[0].Groups {
				groups[0].Count, groups[1].Count = growing(i), shrinking(i)
				shot.Samples[0].Groups[source] = groups
			}
			shot.Samples[0].Values["count"] = float64(growing(i) + shrinking(i))
		}
		return v
	}
	up := func(i int) int64 { return int64(20 * i) }
	down := func(i int) int64 { return int64(900 - 40*i) }
	flat := func(int) int64 { return 5 }
	for _, tt := range []struct {
		name    string
		v       leak.VariantRecord
		alpha   float64
		each    bool
		want    leak.Outcome
		summary string
	}{
		{"the sum shrinks", masked(up, down), 2.5e-4, false, leak.Clean, "within 0.01"},
		{"one of them grows", masked(up, down), 2.5e-4, true, leak.Leaking, "+1.00 goroutines per operation, blocked in chan send at watch.(*StreamWatcher).receive (140 after 140 operations"},
		{"none grows", masked(flat, down), 2.5e-4, true, leak.Clean, "within 0.01"},
		{"both grow: the faster one is reported", masked(up, func(i int) int64 { return int64(9 + 80*i) }), 2.5e-4, true, leak.Leaking, "+4.00 goroutines per operation, blocked in IO wait"},
		{"they share the budget", masked(up, down), perfect(7) * 1.5, true, leak.Inconclusive, "the trend is not sustained enough"},
	} {
		c := &Stack{Probe: "goroutine", Match: ".", MaxPerOp: quantity(0.01), Each: tt.each}
		e := evidenceOf(tt.v, 7)
		e.Alpha = tt.alpha
		f := c.Check(e)
		if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
			t.Errorf("%s: %v: %s", tt.name, f.Outcome, f.Summary)
		}
	}
	if err := (&Stack{Probe: "goroutine", Match: ".", Max: quantity(1), Each: true}).Validate(); err == nil || !strings.Contains(err.Error(), "each") {
		t.Errorf("each with max: %v", err)
	}
}

func TestModule(t *testing.T) {
	frames := func(frames ...leak.Frame) leak.Stack { return leak.Stack{Frames: frames} }
	all := append([]leak.Module{{Path: "k8s.io/api", Version: "v1", Replace: "example.com/fork v2"}, {Path: "k8s.io/klog", Version: "v1", Replace: "k8s.io/klog v2"}, {Path: "local", Version: "v0"}}, modules...)
	for _, tt := range []struct {
		name  string
		stack leak.Stack
		want  string
	}{
		{"the standard library is passed over", frames(leak.Frame{Func: "sync.(*Mutex).Lock"}, leak.Frame{Func: "net/http.(*T).M"}, leak.Frame{Func: "k8s.io/apimachinery/pkg/watch.F"}), "k8s.io/apimachinery v0.18.8"},
		{"so is what it vendors", frames(leak.Frame{Func: "vendor/golang.org/x/net/http2/hpack.F"}, leak.Frame{Func: "k8s.io/apimachinery/pkg/watch.F"}), "k8s.io/apimachinery v0.18.8"},
		{"a prefix ends at a slash, and a replacement is reported", frames(leak.Frame{Func: "k8s.io/api/core/v1.F"}), "k8s.io/api v1 => example.com/fork v2"},
		{"another version of the module is the one that the program has", frames(leak.Frame{Func: "k8s.io/klog.F"}), "k8s.io/klog v2"},
		{"main is found by its file", frames(leak.Frame{Func: "main.main", File: "example.com/subject/main.go"}), "example.com/subject (devel)"},
		{"main without -trimpath", frames(leak.Frame{Func: "main.main", File: "/home/x/main.go"}), ""},
		{"a module without a dot in its path", frames(leak.Frame{Func: "local/pkg.F"}), "local v0"},
		{"an unknown module hides what lies further out", frames(leak.Frame{Func: "example.org/x.F"}, leak.Frame{Func: "k8s.io/api/core/v1.F"}), ""},
		{"only the standard library", frames(leak.Frame{Func: "time.Sleep"}), ""},
		{"no frames", leak.Stack{}, ""},
	} {
		if got := module(tt.stack, all); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	inf := leak.Quantity(math.Inf(1))
	for _, tt := range []struct {
		name   string
		check  leak.Validator
		fields []string // in order; all problems at once
	}{
		{"delta", &Delta{Probe: "heap", Max: 10}, nil},
		{"delta of nothing", &Delta{Probe: "heap"}, nil}, // 0 is a bound: no growth at all
		{"delta, all wrong", &Delta{Max: -1}, []string{"probe", "max"}},
		{"delta, infinite", &Delta{Probe: "heap", Max: inf}, []string{"max"}},
		{"growth", &Growth{Probe: "heap", MaxPerOp: quantity(0.01)}, nil},
		{"growth, all wrong", &Growth{MaxPerOp: quantity(-1)}, []string{"probe", "maxPerOp"}},
		{"stack", stackCheck(), nil},
		{"stack, nothing", &Stack{}, []string{"probe", "match"}},
		{"stack, all wrong", &Stack{Probe: "goroutine", Match: "(", Callers: []string{"f", "["}, Max: quantity(-1), MaxPerOp: &inf}, []string{"match", "callers", "maxPerOp", "max", "maxPerOp"}},
	} {
		var fields []string
		if joined, ok := tt.check.Validate().(interface{ Unwrap() []error }); ok {
			for _, err := range flatten(joined.Unwrap()) {
				var f *leak.FieldError
				if !errors.As(err, &f) {
					t.Fatalf("%s: %v is not a FieldError", tt.name, err)
				}
				fields = append(fields, f.Field)
			}
		}
		if !reflect.DeepEqual(fields, tt.fields) {
			t.Errorf("%s: %v, want %v", tt.name, fields, tt.fields)
		}
	}
}

func flatten(errs []error) []error {
	var all []error
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = append(all, flatten(joined.Unwrap())...)
		} else {
			all = append(all, err)
		}
	}
	return all
}

// The loader derives the schema from the tags, and `leakrig kinds` prints the docs.
func TestKinds(t *testing.T) {
	for _, k := range Kinds() {
		v := k.New()
		if k.Name == "" || !strings.Contains(k.Doc, ". ") {
			t.Errorf("%q has no doc whose first sentence stands alone", k.Name)
		}
		if _, ok := v.(leak.Validator); !ok {
			t.Errorf("%s does not validate", k.Name)
		}
		_, reads := v.(leak.Reader)
		if _, ok := v.(leak.LoadReader); ok == reads {
			t.Errorf("%s does not return its series", k.Name)
		}
		typ := reflect.TypeOf(v).Elem()
		for i := range typ.NumField() {
			if tag := typ.Field(i).Tag; tag.Get("yaml") == "" || tag.Get("doc") == "" {
				t.Errorf("%s.%s lacks a tag", k.Name, typ.Field(i).Name)
			}
		}
		if f := v.Check(leak.Evidence{}); f.Outcome != leak.Inconclusive || f.Summary == "" {
			t.Errorf("%s: the zero evidence is %v: %s", k.Name, f.Outcome, f.Summary)
		}
		if k.New() == v {
			t.Errorf("%s: New returns the same value twice", k.Name)
		}
	}
	if probe, _ := Kinds()[2].New().(leak.Reader).Reads(); probe != "goroutine" {
		t.Errorf("stack reads %q by default", probe)
	}
}

func TestMoreRounds(t *testing.T) {
	for _, tt := range []struct {
		rounds int
		alpha  float64
		want   int
	}{
		{3, 1e-3, 6},    // 1/7! = 2.0e-4, 1/6! = 1.4e-3
		{5, 1.7e-4, 7},  // 1/8! = 2.5e-5
		{7, 1.7e-4, 14}, // enough for a perfect trend already: this one is not perfect
		{1, 1, 5},
		{5, 0, stats.MaxExact}, // no budget: bounded all the same
	} {
		if got := moreRounds(tt.rounds, tt.alpha); got != tt.want {
			t.Errorf("%d rounds at %v: %d, want %d", tt.rounds, tt.alpha, got, tt.want)
		}
	}
}

func testMetrics() map[string]leak.Metric {
	return map[string]leak.Metric{
		"goroutine.count": {Name: "count", Unit: "goroutines", Default: true},
		"heap.alloc":      {Name: "alloc", Unit: "bytes", Default: true},
		"heap.objects":    {Name: "objects", Unit: "objects"},
	}
}

// TestSigned checks that only a difference may be below zero.
func TestSigned(t *testing.T) {
	for _, signed := range []bool{false, true} {
		e := evidence{leak.Evidence{Rounds: 1, Metrics: map[string]leak.Metric{"process.native": {Name: "native", Unit: "bytes", Signed: signed}}}}
		for round, v := range []float64{-3 << 20, 2 << 20} {
			e.Variant.Snapshots = append(e.Variant.Snapshots, leak.Snapshot{
				Round: round, Operations: round, Samples: []leak.Sample{{Probe: "process", Values: map[string]float64{"native": v}}},
			})
		}
		if s, err := e.metricSeries("process", "native"); signed != (err == nil) || signed && len(s.points) != 2 {
			t.Errorf("signed %v: %v, %v", signed, s.points, err)
		}
	}
}
