package checks

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// withLeaked gives every snapshot a sample of the leak profile, the last value again after idling.
func withLeaked(values ...float64) leak.VariantRecord {
	v := variantOf("v", make([]float64, len(values))...)
	add := func(shot *leak.Snapshot, n float64) {
		sample := leak.Sample{Probe: "leaked", Values: map[string]float64{"count": n}, Groups: map[string][]leak.Group{"leaked": {}}}
		if n > 0 {
			sample.Groups["leaked"] = []leak.Group{{Stack: receiveID, Count: int64(n)}}
		}
		shot.Samples = append(shot.Samples, sample)
	}
	for i := range v.Snapshots {
		add(&v.Snapshots[i], values[i])
	}
	add(v.Idle, values[len(values)-1])
	return v
}

func TestLeakedCheck(t *testing.T) {
	for _, tt := range []struct {
		name    string
		values  []float64
		max     float64
		change  func(*leak.VariantRecord)
		want    leak.Outcome
		summary string
	}{
		{name: "none", values: []float64{0, 0, 0}, want: leak.Clean, summary: "leaked.count 0 → 0"},
		{name: "one is proof", values: []float64{0, 0, 1}, want: leak.Leaking, summary: "leaked.count 0 → 1, blocked in chan send at watch.(*StreamWatcher).receive, over 0"},
		{name: "those of the warm-up are not counted", values: []float64{9, 9, 9}, want: leak.Clean},
		{name: "within the bound", values: []float64{0, 2, 4}, max: 5, want: leak.Clean},
		{
			name: "not served does not pass", values: []float64{0, 0, 0}, want: leak.Inconclusive, summary: "not available: round 1: 404; Go 1.27 serves it",
			change: func(v *leak.VariantRecord) {
				s := v.Snapshots[1].Sample("leaked")
				s.Unavailable, s.Values, s.Groups = "404", nil, nil
			},
		},
		{
			name: "not read does not pass", values: []float64{0, 0, 0}, want: leak.Inconclusive, summary: "no sample of the probe leaked",
			change: func(v *leak.VariantRecord) { v.Snapshots[1].Samples = v.Snapshots[1].Samples[:2] },
		},
	} {
		v := withLeaked(tt.values...)
		if tt.change != nil {
			tt.change(&v)
		}
		e := evidenceOf(v, 2)
		e.Metrics["leaked.count"] = leak.Metric{Name: "count", Unit: "goroutines", Default: true}
		f := (&Leaked{Probe: "leaked", Max: leak.Quantity(tt.max)}).Check(e)
		if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) {
			t.Errorf("%s: %v: %s", tt.name, f.Outcome, f.Summary)
		}
	}
}
