package checks

import (
	"math"
	"reflect"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func TestParseTruth(t *testing.T) {
	got, err := ParseTruth("noise\ncalibration: retained goroutines=1 bytes=2 descriptors=3 in 9 operations\n" +
		"calibration: retained goroutines=20 bytes=4096 descriptors=0 in 40 operations\n")
	if want := (Truth{20, 4096, 0, 40}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got.PerOperation("goroutines") != 0.5 || got.PerOperation("bytes") != 102.4 || got.PerOperation("threads") != 0 || (Truth{Bytes: 1}).PerOperation("bytes") != 0 {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "panic: boom", "calibration: retained goroutines=x"} {
		if _, err := ParseTruth(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A leak counts only when it is found with its size; a look-alike only when it is not called leaking.
func TestRecall(t *testing.T) {
	verdict := func(expect leak.Expectation, o leak.Outcome, r leak.Result, perOp float64) *leak.Verdict {
		return &leak.Verdict{Scenario: "s", Variants: []leak.VariantVerdict{{
			Variant: control, Expect: expect, Outcome: o, Result: r, Reason: "why",
			Findings: []leak.Finding{
				{Check: "c", Unit: "goroutines", PerOperation: perOp, High: perOp + 0.5, Bound: 3, BoundPerOperation: true, Fingerprint: expect == leak.ExpectLeaking, Points: []leak.Point{{}}},
				{Check: "unread", BoundPerOperation: true, High: 9},
				{Check: "delta", High: 9, Points: []leak.Point{{}}},
			},
		}}}
	}
	truth := map[string]Truth{control: {Goroutines: 100, Operations: 100}}
	for _, tt := range []struct {
		name string
		runs []*leak.Verdict
		want leak.Result
		size float64
	}{
		{"found", []*leak.Verdict{verdict(leak.ExpectLeaking, leak.Leaking, leak.Met, 1.04), verdict(leak.ExpectLeaking, leak.Leaking, leak.Met, 0.99)}, leak.Met, 1.04},
		{"found, but not with its size", []*leak.Verdict{verdict(leak.ExpectLeaking, leak.Leaking, leak.Met, 1), verdict(leak.ExpectLeaking, leak.Leaking, leak.Met, 1.06)}, leak.NotMet, 1.06},
		{"missed once", []*leak.Verdict{verdict(leak.ExpectLeaking, leak.Leaking, leak.Met, 1), verdict(leak.ExpectLeaking, leak.Clean, leak.NotMet, 0)}, leak.NotMet, 1},
		{"not measured", []*leak.Verdict{verdict(leak.ExpectLeaking, leak.Inconclusive, leak.Unmeasured, 0)}, leak.Unmeasured, math.NaN()},
		{"healthy", []*leak.Verdict{verdict(leak.ExpectClean, leak.Clean, leak.Met, 0)}, leak.Met, math.NaN()},
		{"healthy, undecided", []*leak.Verdict{verdict(leak.ExpectClean, leak.Inconclusive, leak.Undecided, 0)}, leak.Met, math.NaN()},
		{"a false alarm", []*leak.Verdict{verdict(leak.ExpectClean, leak.Clean, leak.Met, 0), verdict(leak.ExpectClean, leak.Leaking, leak.NotMet, 2)}, leak.NotMet, math.NaN()},
		{"nothing was run", nil, leak.Undecided, math.NaN()},
	} {
		var r Recall
		for _, v := range tt.runs {
			r.Add(v, truth)
		}
		if got := r.Result(); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if len(tt.runs) == 0 {
			continue
		}
		row := r.Rows[0]
		if len(r.Rows) != 1 || row.Runs != len(tt.runs) || row.Leaking+row.Clean+row.Inconclusive != row.Runs {
			t.Errorf("%s: %+v", tt.name, r.Rows)
		}
		if len(row.Sizes) == 1 {
			if size := row.Sizes[0].Found; size != tt.size {
				t.Errorf("%s: size %v", tt.name, size)
			}
		} else if !math.IsNaN(tt.size) {
			t.Errorf("%s: sizes %+v", tt.name, row.Sizes)
		}
	}
	var r Recall
	r.Add(verdict(leak.ExpectClean, leak.Clean, leak.Met, 0.1), nil)
	r.Add(verdict(leak.ExpectClean, leak.Clean, leak.Met, -0.3), nil)
	if want := []Floor{{Scenario: "s", Check: "c", Unit: "goroutines", Bound: 3, Floor: 0.6}}; !reflect.DeepEqual(r.Floors, want) {
		t.Errorf("floors %+v", r.Floors)
	}
	if e := (Size{}).Error(); !math.IsInf(e, 1) {
		t.Errorf("nothing planted: error %v", e)
	}
}
