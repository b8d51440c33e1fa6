package runner

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// timedAction takes a while for each of its operations.
type timedAction struct {
	*fakeAction
	each time.Duration
}

func (a *timedAction) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	tally, err := a.fakeAction.Run(ctx, t, first)
	took := time.Duration(a.times) * a.each
	tally.Seconds = took.Seconds()
	if err == nil {
		err = sleep(ctx, took)
	}
	return tally, err
}

func (a *timedAction) Scaled(factor int) leak.Action {
	scaled := *a.fakeAction
	scaled.times *= factor
	return &timedAction{&scaled, a.each}
}

func budgeted(t *testing.T, each time.Duration) *lab {
	l := newLab(t)
	l.Variants = l.Variants[:1]
	spec := &l.Scenario.Spec
	spec.Rounds, spec.For, spec.Control = 0, leak.Duration(time.Minute), 2
	spec.Settle.Quiet = leak.Duration(300 * time.Millisecond)
	spec.Round[0].Value = &timedAction{&fakeAction{l, "load", 1}, each}
	l.polls = func(int64) leak.Poll { return polled("dump", map[string]int64{"stays": 10}) }
	return l
}

// TestRoundsGrowWithinTheBudget checks that rounds grow within the time budget for any speed of the load, and that
// there are enough for a trend.
func TestRoundsGrowWithinTheBudget(t *testing.T) {
	for _, each := range []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := budgeted(t, each)
			start := time.Now()
			record, err := l.run(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			v := record.Variant("leaky")
			took := time.Since(start)
			if !v.Spent || v.Stopped == "" || len(v.Snapshots)-1 < wantedRounds || v.Idle == nil || took > 65*time.Second || took < 40*time.Second {
				t.Errorf("%v: spent %v, %q, %d rounds, took %v", each, v.Spent, v.Stopped, len(v.Snapshots)-1, took)
			}
			before := 0
			for i := 1; i < len(v.Snapshots); i++ {
				n := v.Snapshots[i].Operations - v.Snapshots[i-1].Operations
				last := i == len(v.Snapshots)-1 // which has what is left of the time
				if n < before*2/3 && !last || i > 2 && n > 5*before {
					t.Errorf("%v: round %d has %d operations, the one before %d", each, i, n, before)
				}
				before = n
			}
			if sum := v.Final().Operations; each < time.Second && float64(sum)*each.Seconds() < 20 {
				t.Errorf("%v: %d operations", each, sum)
			}
		})
	}
}

// TestRoundsGrowOnABusyMachine checks that short rounds also grow if measuring takes so long that few of them fit.
func TestRoundsGrowOnABusyMachine(t *testing.T) {
	for each, want := range map[time.Duration][]int{30 * time.Microsecond: {10, 10, 40, 40}, 2 * time.Second: {1, 1, 1, 1}} {
		g := growing{idle: 300 * time.Millisecond}
		size := 1
		for done, next := range want {
			load := time.Duration(size) * each
			g.measured(size, size, load, load+3*time.Second)
			g.deadline = time.Now().Add(7 * time.Second)
			var stop string
			if size, stop = g.next(done+1, math.Inf(1)); size != next || stop != "" {
				t.Errorf("%v: round %d has the size %d, want %d %s", each, done+2, size, next, stop)
			}
		}
	}
}

// TestDecidedRunsEndEarly checks that a run ends when it is decided at a look and after idling.
func TestDecidedRunsEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := budgeted(t, time.Millisecond)
		var idled int
		l.Enough = func(_ leak.Variant, r leak.VariantRecord) string {
			if r.Idle != nil {
				idled++
			}
			if len(r.Snapshots) > 7 && (r.Idle == nil || idled == 3) { // not confirmed at first, young or old
				return "decided"
			}
			return ""
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if v := record.Variant("leaky"); v.Spent || v.Stopped != "decided" || v.Final().Round != 7+confirmAgain || idled != 3 {
			t.Errorf("spent %v, %q after round %d, idled %d times", v.Spent, v.Stopped, v.Final().Round, idled)
		}
	})
}

// A program that grows much is not made to grow without end.
func TestGrowthIsBorne(t *testing.T) {
	g := growing{deadline: time.Now().Add(time.Hour)}
	gained, done, stop := 0.0, 0, ""
	for size := 1; size > 0 && done < 100; done++ {
		const each = 1 << 20
		margin := max(bearable["bytes"]-gained, 0) / each
		if size, stop = g.next(done, margin); size == 0 {
			break
		}
		gained += float64(size) * each
		g.measured(size, size, time.Duration(size)*time.Millisecond, time.Second)
	}
	if stop == "" || gained > bearable["bytes"]+1<<20 || done < wantedRounds {
		t.Errorf("%.0f MiB in %d rounds: %q", gained/(1<<20), done, stop)
	}
}

// What still goes away while idling is waited for, and what stays is not.
func TestDrainWaitsForWhatLingers(t *testing.T) {
	for _, tt := range []struct {
		name        string
		lasts, most time.Duration
		gone        bool
	}{
		{"a timeout", 20 * time.Second, 40 * time.Second, true},
		{"a longer one", 30 * time.Second, 50 * time.Second, true},
		{"a leak", time.Hour, 8 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := budgeted(t, 20*time.Millisecond)
			type seen struct {
				at time.Time
				n  int64
			}
			var all []seen
			l.polls = func(n int64) leak.Poll {
				gone, now := int64(0), time.Now()
				all = append(all, seen{now, n})
				for i := 1; i < len(all); i++ { // operations came evenly between two looks
					since := now.Add(-tt.lasts).Sub(all[i-1].at)
					if between := all[i].at.Sub(all[i-1].at); since > 0 && between > 0 {
						gone = all[i-1].n + int64(min(since.Seconds()/between.Seconds(), 1)*float64(all[i].n-all[i-1].n))
					}
				}
				return polled("dump", map[string]int64{"stays": 10, "linger": n - gone})
			}
			record, err := l.run(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			v := record.Variant("leaky")
			left := v.Idle.Sample("goroutine").Values["count"] - 10
			if idled := v.Idle.Time.Sub(v.Final().Time); idled > tt.most || (left < 5) != tt.gone {
				t.Errorf("%s: idled %v, %.0f are left", tt.name, idled, left)
			}
		})
	}
}
