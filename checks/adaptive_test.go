package checks

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// timed puts snapshots ten seconds apart, after control rounds with these values that lie as far apart.
func timed(v *leak.VariantRecord, control ...float64) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i, x := range control {
		shot := snapshot(i, x)
		shot.Operations, shot.Time = 0, start
		v.Control = append(v.Control, shot)
		start = start.Add(10 * time.Second)
	}
	for _, shot := range append(pointersTo(v.Snapshots), v.Idle) {
		shot.Time = start
		start = start.Add(10 * time.Second)
	}
}

// What grows without load as well is not blamed on the load; what grows beyond it is.
func TestBackground(t *testing.T) {
	leaky := []float64{0, 20, 40, 60, 80, 100, 120, 140}
	for _, tt := range []struct {
		name    string
		control []float64
		change  func(*leak.VariantRecord)
		want    leak.Outcome
		summary string
		floor   float64
	}{
		{name: "no control", want: leak.Leaking},
		{name: "flat without load", control: []float64{7, 7, 7}, want: leak.Leaking, summary: "+1.00 per operation"},
		{
			name: "the same without load", control: []float64{7, 27, 47}, want: leak.Inconclusive, floor: 1,
			summary: "it grows without load, too: +120.00 a minute, which makes +1.00 per operation of it",
		},
		{name: "half of it", control: []float64{7, 17, 27}, want: leak.Leaking, floor: 0.5},
		{
			name: "a control that was not read", control: []float64{7, 7, 7}, change: func(v *leak.VariantRecord) { v.Control[1].Samples = nil }, want: leak.Inconclusive,
			summary: "control round 1: no sample of the probe goroutine",
		},
	} {
		v := variantOf("v", leaky...)
		timed(&v, tt.control...)
		if tt.change != nil {
			tt.change(&v)
		}
		for _, c := range []leak.Check{&Growth{Probe: "goroutine", MaxPerOp: quantity(0.01)}, stackCheck()} {
			f := c.Check(evidenceOf(v, 7))
			if f.Outcome != tt.want || !strings.Contains(f.Summary, tt.summary) && f.Kind == "growth" || f.Floor != tt.floor {
				t.Errorf("%s: %s: %v, floor %v: %s", tt.name, f.Kind, f.Outcome, f.Floor, f.Summary)
			}
		}
	}
}

func TestRhythmIsTold(t *testing.T) {
	v := variantOf("v", 0, 20, 40, 60, 80, 100, 120, 140)
	timed(&v)
	operationsAre(0, 20, 60, 80, 140, 160, 200, 220)(&v)
	for i, shot := range pointersTo(v.Snapshots) {
		shot.Time = shot.Time.Add(time.Duration(i%3) * 4 * time.Second)
	}
	f := (&Growth{Probe: "goroutine", MaxPerOp: quantity(0.01)}).Check(evidenceOf(v, 7))
	if f.Outcome != leak.Leaking || f.Rhythm != "round" || !strings.Contains(f.Summary, "it grows by the round, not by the operation") {
		t.Errorf("%v, %q: %s", f.Outcome, f.Rhythm, f.Summary)
	}
}

// Rounds are added while something is undecided, and only at the looks that were fixed.
func TestLooks(t *testing.T) {
	s := scenario()
	s.Spec.Rounds, s.Spec.MaxRounds = 6, 16
	if got := s.Spec.Looks(); len(got) != 3 || got[0] != 6 || got[1] != 12 || got[2] != 16 {
		t.Fatalf("looks %v", got)
	}
	clean := s.Spec.Variants[1]
	for _, tt := range []struct {
		name   string
		values []float64
		want   bool
	}{
		{"flat at the first look", []float64{3, 3, 3, 3, 3, 3, 3}, true},
		{"flat between two looks", []float64{3, 3, 3, 3, 3, 3, 3, 3}, false},
		{"undecided at the first look", []float64{3, 90, 3, 90, 3, 90, 3}, false},
	} {
		v := variantOf("fixed", tt.values...)
		v.Idle = nil
		if why := Enough(s, clean, v, testMetrics()); (why != "") != tt.want {
			t.Errorf("%s: %q", tt.name, why)
		}
	}
	// A run that stopped at a look is complete, and is judged with the share of the budget that the looks leave.
	r := recordOf(leakyValues, flatValues)
	r.Plan.Rounds, r.Plan.Looks = 14, []int{7, 14}
	r.Variants[0].Stopped, r.Variants[1].Stopped = "decided", "decided"
	verdict := Judge(s, r)
	if verdict.Result != leak.Met {
		t.Fatalf("%v: %s", verdict.Result, verdict.Sentence)
	}
	for _, g := range verdict.Variants[0].Findings[1].Gates {
		if g.Name == "trend" && g.Bound != 1e-3/4/2 {
			t.Errorf("the share is %v", g.Bound)
		}
	}
}

// Runs in which nothing grows, looked at three times, and stopped at the first look at which something
// seems to leak: the budget holds for all looks together.
func TestFalseAlarmRateOverLooks(t *testing.T) {
	runs := trials(20_000)
	looks := []int{6, 12, 18}
	rng := rand.New(rand.NewPCG(12, 12))
	found := 0
	for range runs {
		y := make([]float64, 19)
		for i := range y {
			y[i] = rng.NormFloat64()
		}
		for _, n := range looks {
			if stats.MannKendall(y[:n+1]) <= falseAlarmBudget/float64(len(looks)) {
				found++
				break
			}
		}
	}
	if most := alarms(runs); found > most {
		t.Errorf("%d of %d, allowed %d", found, runs, most)
	}
	t.Logf("%d of %d runs have a significant trend at some look", found, runs)
}
