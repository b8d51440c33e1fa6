package checks

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// active is what a process did: mallocs and processor seconds, negative where unknown.
func active(seconds, lines, mallocs, cpu float64) []leak.Activity {
	a := leak.Activity{Seconds: seconds, Lines: lines}
	if mallocs >= 0 {
		a.Mallocs = &mallocs
	}
	if cpu >= 0 {
		a.CPUSeconds = &cpu
	}
	return []leak.Activity{a}
}

// TestAttackNoTrace checks that load without a trace is never clean, and that growth is leaking nevertheless. Reading
// the counters costs 400 objects and 5 per line, and the output grows by 100 lines per round.
func TestAttackNoTrace(t *testing.T) {
	type traced struct{ perOp, each, cpuPerOp, rate float64 }
	for _, tt := range []struct {
		name   string
		values []float64
		load   traced
		change func(*leak.VariantRecord)
		want   leak.Outcome
		reason string
	}{
		{name: "a request takes dozens of objects", load: traced{perOp: 40}, want: leak.Clean},
		{name: "no load at all", want: leak.Inconclusive, reason: "left no trace"},
		{name: "one request that counts as several operations", load: traced{each: 15}, want: leak.Inconclusive, reason: "per operation"},
		{name: "the process is busy without load", load: traced{rate: 50000}, want: leak.Inconclusive, reason: "left no trace"},
		{name: "busy without load, and loaded", load: traced{rate: 500, perOp: 40}, want: leak.Clean},
		{name: "no load, and it leaks", values: leakyValues, want: leak.Leaking},
		{
			name: "processor time alone", load: traced{perOp: -1, cpuPerOp: 50e-6}, want: leak.Clean,
		},
		{
			name: "processor time alone, none", load: traced{perOp: -1}, want: leak.Inconclusive, reason: "no more processor time",
		},
		{
			name: "nothing is known", load: traced{perOp: 40}, want: leak.Inconclusive, reason: "whether the load reached it is unknown",
			change: func(v *leak.VariantRecord) { v.Quiet, v.Reading = nil, nil },
		},
		{
			name: "a record from before", want: leak.Clean,
			change: func(v *leak.VariantRecord) { v.Traced = false },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.values == nil {
				tt.values = flatValues
			}
			s, r := herd(leak.ExpectClean, tt.values)
			v := &r.Variants[0]
			v.Traced = true
			cost := func(lines, seconds, extra float64) []leak.Activity {
				mallocs := 400 + 5*lines + tt.load.rate*seconds + extra
				if tt.load.perOp < 0 {
					mallocs = -1
				}
				return active(seconds, lines, mallocs, 0)
			}
			lines := 100.0
			for i := 1; i < len(v.Snapshots); i++ {
				operations := float64(v.Snapshots[i].Operations - v.Snapshots[i-1].Operations)
				v.Snapshots[i].Reading = cost(lines, 0.001, 0)
				lines += 100
				load := cost(lines, 0.3, tt.load.perOp*operations+tt.load.each)
				cpu := tt.load.cpuPerOp * operations
				load[0].CPUSeconds = &cpu
				v.Snapshots[i].Activity = load
			}
			for range 5 {
				v.Quiet = append(v.Quiet, cost(lines, 2, 0))
				v.Reading = append(v.Reading, cost(lines, 0.001, 0))
			}
			if tt.change != nil {
				tt.change(v)
			}
			vv := Judge(s, r).Variants[0]
			if vv.Outcome != tt.want || !strings.Contains(vv.Reason, tt.reason) {
				t.Errorf("%v: %s", vv.Outcome, vv.Reason)
			}
		})
	}
}
