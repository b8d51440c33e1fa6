package runner

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestThin checks for any measurements that the first and the last snapshot and both sides of the steepest round
// stay, that no round and no operation is lost, and that there are never too many snapshots.
func TestThin(t *testing.T) {
	metrics := []metric{{"goroutine", "count"}, {"heap", "alloc"}}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		most := 10 + rng.IntN(40)
		var shots []leak.Snapshot
		var all []map[string]float64 // what was measured, by round
		stride, want := 1, leak.Tally{}
		for round := range 200 + rng.IntN(400) {
			values := map[string]float64{"goroutine": float64(rng.IntN(1000)), "heap": float64(rng.IntN(1 << 20))}
			all = append(all, values)
			s := leak.Snapshot{Round: round, Operations: 3 * round}
			for _, probe := range []string{"goroutine", "heap"} {
				metric := map[string]string{"goroutine": "count", "heap": "alloc"}[probe]
				s.Samples = append(s.Samples, leak.Sample{Probe: probe, Values: map[string]float64{metric: values[probe]}})
			}
			if round > 0 {
				tally := leak.Tally{Action: "post", Attempted: 3, Succeeded: 2, Failed: 1, TimedOut: round % 2, Errors: []leak.ErrorCount{{Message: "no", Count: 1}}}
				s.Load = []leak.Tally{tally}
				want.Attempted, want.Failed, want.TimedOut = want.Attempted+3, want.Failed+1, want.TimedOut+round%2
			}
			shots = append(shots, s)
			before := slices.Clone(shots)
			kept, next := thin(shots, stride, most, metrics)
			if !reflect.DeepEqual(before, shots) {
				t.Fatalf("seed %d: round %d: the argument was changed", seed, round)
			}
			shots, stride = kept, next
		}
		last := len(all) - 1
		if len(shots) > most || shots[0].Round != 0 || shots[0].Merged != 0 || shots[len(shots)-1].Round != last {
			t.Fatalf("seed %d: %d of at most %d, from round %d to %d of %d", seed, len(shots), most, shots[0].Round, shots[len(shots)-1].Round, last)
		}
		got, next := leak.Tally{}, 0
		for _, s := range shots {
			if s.First() != next {
				t.Fatalf("seed %d: round %d begins with %d, want %d", seed, s.Round, s.First(), next)
			}
			next = s.Round + 1
			for _, l := range s.Load {
				got.Attempted, got.Failed, got.TimedOut = got.Attempted+l.Attempted, got.Failed+l.Failed, got.TimedOut+l.TimedOut
				if l.Errors[0].Count != l.Failed || l.Attempted != 3*(s.Merged+1) {
					t.Fatalf("seed %d: round %d: %+v", seed, s.Round, l)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: load %+v, want %+v", seed, got, want)
		}
		for _, m := range metrics {
			steepest := 0.0
			for i := 1; i < len(all); i++ {
				steepest = max(steepest, all[i][m.probe]-all[i-1][m.probe])
			}
			kept := 0.0
			for i := 1; i < len(shots); i++ {
				a, ok1 := valueOf(&shots[i-1], m)
				b, ok2 := valueOf(&shots[i], m)
				if ok1 && ok2 && shots[i].Round == shots[i-1].Round+1 {
					kept = max(kept, b-a)
				}
			}
			if kept != steepest {
				t.Errorf("seed %d: the steepest round of %s, +%.0f, is gone: +%.0f is left", seed, m.probe, steepest, kept)
			}
		}
	}
}

// TestThinIsEven checks that the number of kept snapshots is constant over time, and that no two are more than twice
// as far apart as others.
func TestThinIsEven(t *testing.T) {
	var shots []leak.Snapshot
	stride := 1
	for round := range 10_000 {
		shots = append(shots, leak.Snapshot{Round: round})
		shots, stride = thin(shots, stride, maxKept, nil)
		if n := min(round+1, maxKept); len(shots) > maxKept || len(shots) < n-1 {
			t.Fatalf("round %d: %d are kept", round, len(shots))
		}
		for i := 1; i < len(shots)-1; i++ {
			if apart := shots[i].Round - shots[i-1].Round; apart != stride && apart != 2*stride {
				t.Fatalf("round %d, stride %d: round %d comes %d after the one before", round, stride, shots[i].Round, apart)
			}
		}
	}
	if stride != 64 {
		t.Errorf("stride %d", stride)
	}
}

func TestMerged(t *testing.T) {
	blocked := []leak.Group{{Stack: "hangs", Count: 2}}
	first := leak.Snapshot{Round: 3, Load: []leak.Tally{
		{Action: "post", Attempted: 2, Succeeded: 1, Failed: 1, TimedOut: 1, Seconds: 1, Latency: leak.Latency{P50: 3, Max: 4}, Errors: []leak.ErrorCount{{Message: "late", Count: 1}}},
		{Action: "exec", Attempted: 1, Succeeded: 1},
	}, Samples: []leak.Sample{{Probe: "goroutine", Blocked: blocked, BlockedRead: true}}}
	second := leak.Snapshot{Round: 4, Load: []leak.Tally{{Action: "post", Attempted: 2, Succeeded: 2, Seconds: 2, Latency: leak.Latency{P50: 1, Max: 9}}}, Samples: []leak.Sample{{Probe: "goroutine"}}}
	s := merged([]leak.Snapshot{first}, second)
	want := "[{post  4 3 1 1 0 3 {3 0 0 9} <nil> [{late 1 false}] [] []} {exec  1 1 0 0 0 0 {0 0 0 0} <nil> [] [] []}]"
	if got := fmt.Sprint(s.Load); s.Merged != 1 || got != want {
		t.Errorf("%d merged, load\n%s\nwant\n%s", s.Merged, got, want)
	}
	if !s.Samples[0].BlockedRead || len(s.Samples[0].Blocked) != 1 || second.Samples[0].BlockedRead {
		t.Errorf("what hung is not with the next snapshot, or the one before was changed: %+v, %+v", s.Samples, second.Samples)
	}
	// Messages stay few, the most frequent ones.
	var many []leak.Tally
	for i := range 20 {
		many = append(many, leak.Tally{Action: "post", Errors: []leak.ErrorCount{{Message: fmt.Sprint("m", i), Count: 20 - i}}})
	}
	if sum := sumTallies(many); len(sum[0].Errors) != maxErrors || sum[0].Errors[0].Message != "m0" {
		t.Errorf("%+v", sum[0].Errors)
	}
	// The record keeps operations that were lost with a worker, for any number and after any number of summations.
	many = append(many, leak.Tally{Action: "post", Errors: []leak.ErrorCount{{Message: "worker 1 of 2 lost: evicted", Count: 1, Lost: true}}})
	if sum := sumTallies(append(many, sumTallies(many)...)); sum[0].Errors[0] != (leak.ErrorCount{Message: "worker 1 of 2 lost: evicted", Count: 2, Lost: true}) {
		t.Errorf("%+v", sum[0].Errors)
	}
}

// A record forgets the stacks that nothing refers to any more.
func TestThinRecord(t *testing.T) {
	v := leak.VariantRecord{Stacks: map[string]leak.Stack{}}
	for round := range maxKept + 2 {
		id := fmt.Sprint("s", round)
		v.Stacks[id] = leak.Stack{}
		v.Snapshots = append(v.Snapshots, leak.Snapshot{Round: round, Samples: []leak.Sample{{
			Probe: "goroutine", Groups: map[string][]leak.Group{"dump": {{Stack: id}}}, Files: []string{"v/round-" + fmt.Sprint(round) + "/f"},
		}}})
	}
	if stride := thinRecord(&v, 1, nil); stride != 1 || len(v.Snapshots) != maxKept || len(v.Snapshots) != len(v.Stacks) || len(filesOf(&v)) != len(v.Snapshots) {
		t.Errorf("stride %d, %d snapshots, %d stacks, %d files", stride, len(v.Snapshots), len(v.Stacks), len(filesOf(&v)))
	}
	for _, s := range v.Snapshots {
		if _, ok := v.Stacks[s.Samples[0].Groups["dump"][0].Stack]; !ok {
			t.Errorf("the stack of round %d is gone", s.Round)
		}
	}
}
