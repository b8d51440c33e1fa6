package checks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// soakOf is a variant of a soak that kept one of stride rounds, and the last.
func soakOf(name string, stride int, values ...float64) leak.VariantRecord {
	v := variantOf(name, values...)
	v.Soak = &leak.SoakRecord{Rounds: len(values) - 1}
	last := len(v.Snapshots) - 1
	var kept []leak.Snapshot
	merged := 0
	for i, s := range v.Snapshots {
		if i%stride != 0 && i != last {
			merged++
			continue
		}
		s.Merged = merged
		for range merged {
			s.Load = append(s.Load, s.Load[0])
		}
		s.Time = time.Date(2026, 11, 20, 12, 0, 10*i, 0, time.UTC)
		kept = append(kept, s)
		merged = 0
	}
	v.Snapshots = kept
	return v
}

func values(rounds int, at func(i int) float64) []float64 {
	y := make([]float64, rounds+1)
	for i := range y {
		y[i] = at(i)
	}
	return y
}

// Rounds that were thinned out change neither what is concluded nor the numbers per operation, and rounds are
// called by their numbers.
func TestSoakIsJudged(t *testing.T) {
	const rounds = 300
	leaky := values(rounds, func(i int) float64 { return 3 + 20*float64(i) })
	late := values(rounds, func(i int) float64 { return 3 + 20*float64(max(0, i-100)) })
	flat := values(rounds, func(i int) float64 { return 3 + float64(i%2) })
	s := scenario()
	s.Spec.Soak = &leak.SoakSpec{Every: leak.Duration(10 * time.Second), For: leak.Duration(3000 * time.Second)}
	judged := func(stride int, leaky, fixed []float64) *leak.Verdict {
		r := recordOf(nil, nil)
		r.Plan.Rounds, r.Plan.Looks, r.Plan.Soak = rounds, s.Spec.Looks(), s.Spec.Soak
		r.Variants = []leak.VariantRecord{soakOf("leaky", stride, leaky...), soakOf("fixed", stride, fixed...)}
		return Judge(s, r)
	}
	for _, stride := range []int{4, 16} {
		v := judged(stride, leaky, flat)
		if f := v.Variants[0].Findings[2]; v.Result != leak.Met || f.PerOperation != 1 || f.Exactly != "1 per operation" || f.Rhythm != "" {
			t.Errorf("stride %d: %v, %+v per operation, exactly %q, by the %q: %s", stride, v.Result, f.PerOperation, f.Exactly, f.Rhythm, v.Sentence)
		}
		v = judged(stride, late, flat)
		if f := v.Variants[0].Findings[2]; f.Onset < 100-stride || f.Onset > 100+stride || !strings.Contains(f.Summary, fmt.Sprintf("since round %d", f.Onset+1)) {
			t.Errorf("stride %d: since round %d: %s", stride, f.Onset, f.Summary)
		}
		v = judged(stride, leaky, leaky)
		if v.Variants[1].Outcome != leak.Leaking || v.Result != leak.NotMet {
			t.Errorf("stride %d: %v: %s", stride, v.Result, v.Sentence)
		}
	}
	// A soak that was late has fewer rounds than were planned, and says so; one that was cut short was not measured.
	r := recordOf(nil, nil)
	r.Plan.Rounds, r.Plan.Looks, r.Plan.Soak = 400, s.Spec.Looks(), s.Spec.Soak
	r.Variants = []leak.VariantRecord{soakOf("leaky", 4, leaky...), soakOf("fixed", 4, flat...)}
	if v := Judge(s, r); v.Result != leak.Unmeasured || !strings.Contains(v.Sentence, "300 of 400 planned rounds were measured") {
		t.Errorf("cut short: %v: %s", v.Result, v.Sentence)
	}
	r.Variants[0].Stopped, r.Variants[1].Stopped = "its 4000s are over", "its 4000s are over"
	if v := Judge(s, r); v.Result != leak.Met {
		t.Errorf("late: %v: %s", v.Result, v.Sentence)
	}
	// A gap that thinning does not account for is one.
	r.Variants[1].Snapshots[10].Merged--
	if v := Judge(s, r); v.Result != leak.Unmeasured || !strings.Contains(v.Sentence, "36 of 300 planned rounds") {
		t.Errorf("a gap: %v: %s", v.Result, v.Sentence)
	}
}

// A soak ends early for a leak, at a look; never because nothing has leaked so far.
func TestSoakIsEnough(t *testing.T) {
	s := scenario()
	s.Spec.Rounds = 0
	s.Spec.Soak = &leak.SoakSpec{Every: leak.Duration(time.Minute), For: leak.Duration(time.Hour)}
	if got := fmt.Sprint(s.Spec.Looks()); got != "[10 20 40 60]" {
		t.Fatalf("looks %s", got)
	}
	leaks := func(i int) float64 { return 3 + 20*float64(i) }
	flat := func(int) float64 { return 3 }
	for _, tt := range []struct {
		name    string
		variant int
		rounds  int
		stride  int
		at      func(i int) float64
		drains  bool
		want    string
	}{
		{"a leak where none is expected, at a look", 1, 20, 1, leaks, false, "goroutines and heap and receive leak at a look"},
		{"the same, thinned", 1, 40, 4, leaks, false, "goroutines and heap and receive leak at a look"},
		{"between looks", 1, 21, 1, leaks, false, ""},
		{"gone after idling", 1, 20, 1, leaks, true, ""},
		{"clean so far", 1, 20, 1, flat, false, ""},
		{"the leak that is expected", 0, 20, 1, leaks, false, "receive leaks at a look"},
		{"not reproduced so far", 0, 20, 1, flat, false, ""},
	} {
		v := soakOf(s.Spec.Variants[tt.variant].Name, tt.stride, values(tt.rounds, tt.at)...)
		if tt.drains {
			idle := snapshot(tt.rounds, 3)
			v.Idle = &idle
		}
		if why := Enough(s, s.Spec.Variants[tt.variant], v, testMetrics()); !strings.HasPrefix(why, tt.want) || (why == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.name, why, tt.want)
		}
	}
	if err := Feasible(s, 2); err != nil {
		t.Error(err)
	}
	s.Spec.Soak.For = leak.Duration(4 * time.Minute)
	if err := Feasible(s, 2); err == nil || !strings.Contains(err.Error(), "soak: 4 rounds (every 1m0s, for 4m0s) can never show") || !strings.Contains(leak.Hint(err), "let them come more often, or for longer") {
		t.Errorf("%v; %s", err, leak.Hint(err))
	}
}
