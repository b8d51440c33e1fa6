package checks

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// sizeTolerance is how far the size that was found may be from the planted one. Bytes may also be off by floorBytes per
// operation, which a clean verdict does not exclude.
const sizeTolerance = 0.05

// Truth has the counts of a calibration subject: the resources that it will never release, and its operations.
type Truth struct{ Goroutines, Bytes, Descriptors, Operations int64 }

// ParseTruth finds the line that subjects/calibration writes at its end.
func ParseTruth(log string) (Truth, error) {
	const head = "calibration: retained "
	var t Truth
	i := strings.LastIndex(log, head)
	if i < 0 {
		return t, fmt.Errorf("the subject's log does not state how much it retained")
	}
	_, err := fmt.Sscanf(log[i+len(head):], "goroutines=%d bytes=%d descriptors=%d in %d operations", &t.Goroutines, &t.Bytes, &t.Descriptors, &t.Operations)
	if err != nil {
		return t, fmt.Errorf("retained counts: %w", err)
	}
	return t, nil
}

// PerOperation is the planted growth in a metric's unit.
func (t Truth) PerOperation(unit string) float64 {
	if t.Operations <= 0 {
		return 0
	}
	n := map[string]int64{"goroutines": t.Goroutines, "bytes": t.Bytes, "descriptors": t.Descriptors}[unit]
	return float64(n) / float64(t.Operations)
}

// Recall sums up runs of calibration scenarios: which planted leaks were found, with which size, which
// look-alikes were called leaking, and what growth would not have been detected.
type Recall struct {
	FalseAlarmBudget float64     `json:"falseAlarmBudget"`
	Rows             []RecallRow `json:"rows"`
	Floors           []Floor     `json:"floors"`
}

// RecallRow is one variant over all runs.
type RecallRow struct {
	Scenario string           `json:"scenario"`
	Variant  string           `json:"variant"`
	Expect   leak.Expectation `json:"expect"`
	Runs     int              `json:"runs"`
	Leaking  int              `json:"leaking"`
	Clean    int              `json:"clean"`
	// Inconclusive counts runs without a decision, including runs that could not be measured.
	Inconclusive int `json:"inconclusive"`
	Unmeasured   int `json:"unmeasured"`
	// Sized counts the runs that found the leak with every planted size within 5 %.
	Sized int    `json:"sized"`
	Sizes []Size `json:"sizes,omitempty"`
	// Reasons are those of the runs that were not as expected.
	Reasons []string `json:"reasons,omitempty"`
}

// Size is one planted growth, as counted by the subject and as found.
type Size struct {
	Unit string `json:"unit"`
	// Planted and Found are per operation, of the run with the largest error.
	Planted float64 `json:"planted"`
	Found   float64 `json:"found"`
}

// Error is the relative error of the size.
func (s Size) Error() float64 {
	if s.Planted == 0 {
		return math.Inf(1)
	}
	return math.Abs(s.Found-s.Planted) / s.Planted
}

// Floor is the growth that one check cannot distinguish from none.
type Floor struct {
	Scenario string  `json:"scenario"`
	Check    string  `json:"check"`
	Unit     string  `json:"unit"`
	Bound    float64 `json:"bound"`
	// Floor is the largest upper end of the 95 % interval that the control, which grows by nothing, had.
	Floor float64 `json:"floor"`
}

// control is the variant of a calibration scenario that does nothing but the traffic.
const control = "nothing"

// Add adds one run. truth is what each leaking variant's subject counted.
func (r *Recall) Add(v *leak.Verdict, truth map[string]Truth) {
	r.FalseAlarmBudget = v.FalseAlarmBudget
	for i := range v.Variants {
		vv := &v.Variants[i]
		row := r.row(v.Scenario, vv)
		row.Runs++
		switch vv.Outcome {
		case leak.Leaking:
			row.Leaking++
		case leak.Clean:
			row.Clean++
		default:
			row.Inconclusive++
		}
		if vv.Result == leak.Unmeasured {
			row.Unmeasured++
		}
		sized := vv.Expect == leak.ExpectLeaking && vv.Outcome == leak.Leaking && row.size(vv, truth[vv.Variant])
		if sized {
			row.Sized++
		}
		if vv.Result != leak.Met {
			row.Reasons = append(row.Reasons, vv.Reason)
		}
		if vv.Variant == control {
			r.floor(v.Scenario, vv.Findings)
		}
	}
}

func (r *Recall) row(scenario string, vv *leak.VariantVerdict) *RecallRow {
	i := slices.IndexFunc(r.Rows, func(row RecallRow) bool { return row.Scenario == scenario && row.Variant == vv.Variant })
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, RecallRow{Scenario: scenario, Variant: vv.Variant, Expect: vv.Expect})
	}
	return &r.Rows[i]
}

// size compares the fingerprints' growth with the truth and reports whether all of it is near enough.
func (row *RecallRow) size(vv *leak.VariantVerdict, truth Truth) bool {
	near := true
	for _, f := range vv.Findings {
		if !f.Fingerprint {
			continue
		}
		counted := slices.Contains([]string{"goroutines", "bytes", "descriptors"}, f.Unit) && f.Series != "heap.stack"
		if !counted || truth == (Truth{Operations: truth.Operations}) {
			continue // the subject cannot count it
		}
		s := Size{f.Unit, truth.PerOperation(f.Unit), f.PerOperation}
		near = near && (s.Error() <= sizeTolerance || f.Unit == "bytes" && math.Abs(s.Found-s.Planted) <= floorBytes)
		i := slices.IndexFunc(row.Sizes, func(known Size) bool { return known.Unit == s.Unit })
		switch {
		case i < 0:
			row.Sizes = append(row.Sizes, s)
		case s.Error() > row.Sizes[i].Error():
			row.Sizes[i] = s
		}
	}
	return near
}

func (r *Recall) floor(scenario string, findings []leak.Finding) {
	for _, f := range findings {
		if !f.BoundPerOperation || len(f.Points) == 0 {
			continue
		}
		i := slices.IndexFunc(r.Floors, func(known Floor) bool { return known.Scenario == scenario && known.Check == f.Check })
		if i < 0 {
			i = len(r.Floors)
			r.Floors = append(r.Floors, Floor{Scenario: scenario, Check: f.Check, Unit: f.Unit, Bound: f.Bound})
		}
		floor := f.High
		if f.Unbounded {
			floor = f.Floor
		}
		r.Floors[i].Floor = max(r.Floors[i].Floor, floor)
	}
}

// AsExpected reports whether the row is as expected: a leak is found with its size in every run, a look-alike is
// never called leaking.
func (row RecallRow) AsExpected() bool {
	if row.Expect == leak.ExpectLeaking {
		return row.Runs > 0 && row.Sized == row.Runs
	}
	return row.Runs > row.Unmeasured && row.Leaking == 0
}

// Result is the worst over all rows.
func (r *Recall) Result() leak.Result {
	var results []leak.Result
	for _, row := range r.Rows {
		switch {
		case row.Unmeasured > 0:
			results = append(results, leak.Unmeasured)
		case row.AsExpected():
			results = append(results, leak.Met)
		default:
			results = append(results, leak.NotMet)
		}
	}
	return leak.Worst(results...)
}
