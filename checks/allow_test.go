package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

func day(t *testing.T, text string) leak.Date {
	t.Helper()
	var d leak.Date
	if err := d.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAllow checks that an allowed leak does not count in any of its series, and that other leaks do.
func TestAllow(t *testing.T) {
	known := leak.Allowance{Match: `StreamWatcher\).receive`, State: "chan send", Reason: "upgrade in March", Link: "https://example.org/1", Until: day(t, "2027-01-31")}
	onHeap := known
	onHeap.Probe, onHeap.State = "heap", ""
	judge := func(run string, allow []leak.Allowance, change func(*leak.Record)) leak.VariantVerdict {
		s, r := scenario(), recordOf(leakyValues, leakyValues)
		s.Spec.Allow = allow
		r.Started = day(t, run).Add(12 * time.Hour)
		if change != nil {
			change(r)
		}
		v := Judge(s, r)
		if v.Variants[0].Result != leak.Met || v.Variants[0].Allowed != nil {
			t.Errorf("the leaky variant: %v, %s", v.Variants[0].Result, v.Variants[0].Reason)
		}
		return v.Variants[1]
	}
	both := []leak.Allowance{known, onHeap}
	another := func(r *leak.Record) {
		for _, shot := range append(pointersTo(r.Variants[1].Snapshots), r.Variants[1].Idle) {
			for source := range shot.Samples[0].Groups {
				shot.Samples[0].Groups[source][1].Count = int64(10 + 30*shot.Round)
			}
			shot.Samples[0].Values["count"] += float64(30 * shot.Round)
		}
	}
	for _, tt := range []struct {
		name   string
		run    string
		allow  []leak.Allowance
		change func(*leak.Record)
		want   leak.Result
		reason string
	}{
		{name: "nothing is allowed", run: "2027-01-31", want: leak.NotMet, reason: "expected clean, but receive leaks"},
		{name: "all of it is", run: "2027-01-31", allow: both, want: leak.Met, reason: `; allowed until 2027-01-31: +140 goroutines at StreamWatcher\).receive (upgrade in March, https://example.org/1)`},
		{name: "not on the heap", run: "2027-01-31", allow: []leak.Allowance{known}, want: leak.NotMet, reason: "heap leaks"},
		{name: "the day after", run: "2027-02-01", allow: both, want: leak.NotMet, reason: "expected clean, but receive leaks"},
		{
			name: "the day after, and it is fixed", run: "2027-02-01", allow: both, want: leak.NotMet, reason: "clean, but the allowance for",
			change: func(r *leak.Record) { r.Variants[1] = variantOf("fixed", flatValues...) },
		},
		{name: "another leak as well", run: "2027-01-31", allow: both, want: leak.NotMet, reason: "goroutines leaks: goroutine.count", change: another},
		{name: "another state", run: "2027-01-31", allow: []leak.Allowance{{Match: "receive", State: "select", Until: known.Until}, onHeap}, want: leak.NotMet, reason: "receive leaks"},
		{
			name: "stacks that were not read", run: "2027-01-31", allow: both, want: leak.NotMet, reason: "",
			change: func(r *leak.Record) { r.Variants[1].Snapshots[3].Samples[0].Groups = nil },
		},
	} {
		vv := judge(tt.run, tt.allow, tt.change)
		if tt.name == "stacks that were not read" {
			if f := vv.Findings[0]; f.Outcome != leak.Inconclusive || !strings.Contains(f.Summary, "allowed stacks: ") {
				t.Errorf("%s: %v: %s", tt.name, f.Outcome, f.Summary)
			}
			continue
		}
		if vv.Result != tt.want || !strings.Contains(vv.Reason, tt.reason) {
			t.Errorf("%s: %v: %s", tt.name, vv.Result, vv.Reason)
		}
	}
}

// TestRatchet checks that a stored verdict allows leaks that are not worse.
func TestRatchet(t *testing.T) {
	stored := Judge(scenario(), recordOf(leakyValues, leakyValues))
	faster := []float64{3, 33, 63, 93, 123, 153, 183, 213}
	another := func(r *leak.Record) {
		s := serving
		s.Frames = append([]leak.Frame{{Func: "main.fresh"}}, s.Frames...)
		r.Variants[1].Stacks[s.ID()] = s
		shots := append(pointersTo(r.Variants[1].Snapshots), r.Variants[1].Idle)
		for i, shot := range shots {
			for source, groups := range shot.Samples[0].Groups {
				shot.Samples[0].Groups[source] = append(groups, leak.Group{Stack: s.ID(), Count: int64(1 + 4*min(i, 7))})
			}
		}
	}
	for _, tt := range []struct {
		name   string
		fixed  []float64
		match  string
		change func(*leak.Record)
		want   leak.Result
		reason string
	}{
		{name: "the same", fixed: leakyValues, want: leak.Met, reason: "leaks no more than in the stored verdict: goroutines, heap, receive"},
		{name: "less", fixed: []float64{3, 13, 23, 33, 43, 53, 63, 73}, want: leak.Met},
		{name: "gone", fixed: flatValues, want: leak.Met, reason: "within"},
		{name: "worse", fixed: faster, want: leak.NotMet, reason: "receive is worse than +1.00 goroutines per operation: +1.50"},
		{name: "a new stack", fixed: []float64{3, 19, 35, 51, 67, 83, 99, 115}, match: ".", change: another, want: leak.NotMet, reason: "receive has a new stack: +28 IO wait at main.fresh"},
	} {
		s, r := scenario(), recordOf(leakyValues, tt.fixed)
		if tt.match != "" {
			s.Spec.Checks[2].Value.(*Stack).Match, s.Spec.Checks[2].Value.(*Stack).State = tt.match, ""
		}
		if tt.change != nil {
			tt.change(r)
		}
		now := Judge(s, r)
		v := Ratchet(stored, now)
		if vv := v.Variants[1]; vv.Result != tt.want || !strings.Contains(vv.Reason, tt.reason) || v.Result != tt.want {
			t.Errorf("%s: %v, %v: %s", tt.name, v.Result, vv.Result, vv.Reason)
		}
	}
	// An allowance that has ended fails, whether the leak was stored or not.
	ended, old := scenario(), recordOf(leakyValues, leakyValues)
	ended.Spec.Allow = []leak.Allowance{{Match: "receive", State: "chan send", Reason: "upgrade", Link: "https://example.org/1", Until: day(t, "2020-01-31")}}
	old.Started = day(t, "2020-02-01").Add(time.Hour)
	if v := Ratchet(stored, Judge(ended, old)); v.Result != leak.NotMet || !strings.Contains(v.Variants[1].Reason, "ended on 2020-01-31") {
		t.Errorf("an allowance that has ended: %v: %s", v.Result, v.Variants[1].Reason)
	}
	// A verdict without the variant lets nothing through, and what was not measured stays so.
	now := Judge(scenario(), recordOf(leakyValues, leakyValues))
	if v := Ratchet(&leak.Verdict{}, now); v.Result != leak.NotMet || !strings.Contains(v.Variants[1].Reason, "is new") || now.Variants[1].Reason == v.Variants[1].Reason {
		t.Errorf("%v: %s", v.Result, v.Variants[1].Reason)
	}
	r := recordOf(leakyValues, leakyValues)
	r.Variants[1].Snapshots = r.Variants[1].Snapshots[:4]
	if v := Ratchet(stored, Judge(scenario(), r)); v.Result != leak.Unmeasured {
		t.Errorf("not measured: %v", v.Result)
	}
}
