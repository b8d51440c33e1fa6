package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var usual = Bounds{PerHour: 10, MinJudged: 0.99}

// process makes the counts of its stacks, one after the other, sweep by sweep.
type process func(rng *rand.Rand, sweep int) []int32

// recordOf is a record of processes that are swept so often, every minute.
func recordOf(seed uint64, sweeps int, processes ...process) *Record {
	r := &Record{Schema: RecordSchema, Started: time.Unix(0, 0), Every: leak.Duration(time.Minute)}
	rng := rand.New(rand.NewPCG(seed, 10))
	for i := range sweeps {
		r.Sweeps = append(r.Sweeps, Sweep{Seconds: float64(60 * i), Took: 1, Listed: len(processes), Read: len(processes)})
	}
	for k, p := range processes {
		s := r.add(fmt.Sprint(k), fmt.Sprintf("pod-%d", k), 0)
		for i := range sweeps {
			var counts []count
			total := int64(0)
			for stack, n := range p(rng, i) {
				counts = append(counts, count{stack, n})
				total += int64(n)
				for len(r.Stacks) <= stack {
					r.Stacks = append(r.Stacks, leak.Stack{State: "select", Frames: []leak.Frame{{Func: fmt.Sprintf("main.f%d", len(r.Stacks))}}})
				}
			}
			s.add(float64(60*i)+rng.Float64(), math.NaN(), total, counts)
		}
	}
	return r
}

func poisson(rng *rand.Rand, mean float64) int32 {
	n, p := int32(0), rng.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= rng.Float64()
	}
	return n
}

// healthy processes: each has stacks that never change and one that does.
var healthy = map[string]func() process{
	"quiet":    func() process { return func(*rand.Rand, int) []int32 { return []int32{5, 1, 0} } },
	"requests": func() process { return func(rng *rand.Rand, _ int) []int32 { return []int32{5, 1, poisson(rng, 6)} } },
	"periodic": func() process {
		phase := -1
		return func(rng *rand.Rand, i int) []int32 {
			if phase < 0 {
				phase = rng.IntN(7)
			}
			return []int32{5, 1, int32(4 * ((i + phase) % 7))}
		}
	},
	// One worker more or less at a time, between 2 and 12: each sweep starts from where the last ended.
	"wanders": func() process {
		n := int32(7)
		return func(rng *rand.Rand, _ int) []int32 {
			for range 10 {
				n = max(2, min(12, n+int32(2*rng.IntN(2)-1)))
			}
			return []int32{5, 1, n}
		}
	},
	// A pool that fills in the first minutes.
	"fills": func() process { return func(_ *rand.Rand, i int) []int32 { return []int32{5, 1, int32(min(3*i, 12))} } },
	// A pool that got some members more, now and then.
	"lazy": func() process {
		n := int32(3)
		return func(rng *rand.Rand, _ int) []int32 {
			if rng.IntN(10) == 0 && n < 7 {
				n++
			}
			return []int32{5, 1, n}
		}
	},
	// The number of goroutines follows traffic, which rises for some time and falls again.
	"traffic": func() process {
		return func(rng *rand.Rand, i int) []int32 {
			return []int32{5, 1, poisson(rng, 20+15*math.Sin(float64(i)/4))}
		}
	},
}

// leaking leaks perMinute goroutines a minute on stack 2, in addition to transient requests there, beside on average.
func leaking(perMinute, beside float64) process {
	return func(rng *rand.Rand, i int) []int32 {
		n := int32(perMinute * float64(i))
		if beside > 0 {
			n += poisson(rng, beside)
		}
		return []int32{5, 1, n}
	}
}

// A thousand processes of all healthy kinds, and three that leak one goroutine a minute: all three are found and
// no other, in every fleet.
func TestThreeInAThousand(t *testing.T) {
	for seed := range uint64(3) {
		var all []process
		for len(all) < 997 {
			for _, kind := range []string{"quiet", "requests", "periodic", "wanders", "fills"} {
				all = append(all, healthy[kind]())
			}
		}
		all = all[:997]
		all = append(all, leaking(1, 0), leaking(1, 0), leaking(1, 0))
		v := Judge(recordOf(seed, 16, all...), usual)
		if v.Targets.Leaking != 3 || v.ExitCode != leak.ExitNotMet || len(v.Stacks) == 0 || v.Stacks[0].Leaking != 3 {
			t.Fatalf("fleet %d: %+v: %s", seed, v.Targets, v.Sentence)
		}
		if v.Targets.Clean < 990 {
			t.Errorf("fleet %d: only %d clean, %d undecided", seed, v.Targets.Clean, v.Targets.Undecided)
		}
		for _, g := range v.Stacks[0].Targets {
			switch g.Target {
			case "pod-997", "pod-998", "pod-999":
				if math.Abs(g.PerHour-60) > 20 {
					t.Errorf("%s: %+v", g.Target, g.PerHour)
				}
			default:
				if g.Outcome == leak.Leaking {
					t.Errorf("%s leaks", g.Target)
				}
			}
		}
	}
}

// trials returns how often to repeat a simulation: all of it with LEAKRIG_FLEET=long, as the nightly tier has it, a tenth in
// an ordinary test.
func trials(full int) int {
	if os.Getenv("LEAKRIG_FLEET") == "long" {
		return full
	}
	return full / 10
}

// TestFleetAlarms measures how often a healthy fleet is called leaking, by kind. The budget covers fluctuations by
// chance. The other kinds violate the assumptions of the p-value, and the gates must reject them.
func TestFleetAlarms(t *testing.T) {
	const targets = 100
	fleets := trials(100)
	for kind, make := range healthy {
		for _, sweeps := range []int{16, 31, 90, 500} {
			n := fleets
			if sweeps > 60 {
				n = max(1, fleets/10)
			}
			alarms, undecided := 0, 0
			for seed := range uint64(n) {
				var all []process
				for range targets {
					all = append(all, make())
				}
				v := Judge(recordOf(seed, sweeps, all...), usual)
				if v.Targets.Leaking > 0 {
					alarms++
				}
				undecided += v.Targets.Undecided
			}
			t.Logf("%s, %d sweeps: %d of %d fleets called leaking, %d of %d targets undecided", kind, sweeps, alarms, n, undecided, n*targets)
			if alarms > 0 {
				t.Errorf("%s, %d sweeps: %d of %d fleets called leaking", kind, sweeps, alarms, n)
			}
		}
	}
}

// TestFleetRecall measures the slowest leak that is found, by the number of requests on the same stack.
func TestFleetRecall(t *testing.T) {
	for _, tt := range []struct {
		perMinute, beside float64
		sweeps            int
		least             float64 // share that is found
	}{
		{1, 0, 16, 1},
		{1, 1, 16, 0.8},
		{1, 3, 31, 0.8},
		{0.5, 0, 31, 1},
		{0.25, 0, 31, 1},
		{0.25, 1, 61, 0.8},
	} {
		found := 0
		leaks := trials(50)
		for seed := range uint64(leaks) {
			all := []process{leaking(tt.perMinute, tt.beside)}
			for range 999 {
				all = append(all, healthy["quiet"]())
			}
			found += Judge(recordOf(seed, tt.sweeps, all...), usual).Targets.Leaking
		}
		t.Logf("%g a minute with %g requests, %d sweeps: %d of %d found", tt.perMinute, tt.beside, tt.sweeps, found, leaks)
		if float64(found) < tt.least*float64(leaks) {
			t.Errorf("%+v: %d of %d found", tt, found, leaks)
		}
	}
}

// Nothing passes that was not measured.
func TestNotJudged(t *testing.T) {
	quiet := func(n int) []process {
		var all []process
		for range n {
			all = append(all, healthy["quiet"]())
		}
		return all
	}
	few := Judge(recordOf(1, 6, quiet(100)...), usual)
	if few.Outcome != leak.Inconclusive || few.ExitCode != leak.ExitInconclusive || few.Targets.NotJudged != 100 || !strings.Contains(few.Sentence, "6 sweeps are too few") {
		t.Errorf("%+v", few)
	}
	r := recordOf(1, 20, quiet(100)...)
	for _, s := range r.Targets[:2] {
		s.Seconds, s.Total, s.Gone = s.Seconds[:3], s.Total[:3], true
	}
	v := Judge(r, usual)
	if v.Outcome != leak.Inconclusive || v.ExitCode != leak.ExitInconclusive || v.Targets.Judged != 98 || len(v.NotJudged) != 2 || !strings.Contains(v.Sentence, "only 98 of 100 targets were judged") {
		t.Errorf("%+v", v)
	}
	if v := Judge(r, Bounds{PerHour: 10, MinJudged: 0.98}); v.Outcome != leak.Clean || v.ExitCode != leak.ExitMet {
		t.Errorf("%+v", v)
	}
	// A leak is reported independent of the other targets.
	r = recordOf(1, 20, append(quiet(10), leaking(1, 0))...)
	for _, s := range r.Targets[:5] {
		s.Seconds, s.Total = s.Seconds[:3], s.Total[:3]
	}
	if v := Judge(r, usual); v.ExitCode != leak.ExitNotMet || !strings.Contains(v.Sentence, "only 6 of 11 targets were judged") {
		t.Errorf("%+v", v)
	}
	r.Interrupted = true
	if v := Judge(r, usual); v.ExitCode != leak.ExitInterrupted || v.Outcome != leak.Leaking {
		t.Errorf("%+v", v)
	}
	if v := Judge(&Record{}, usual); v.Outcome != leak.Inconclusive || v.ExitCode != leak.ExitInconclusive {
		t.Errorf("of nothing: %+v", v)
	}
	r.Interrupted, r.Failure = false, &leak.Failure{Message: "no route"}
	if v := Judge(r, usual); v.ExitCode != leak.ExitUnmeasured {
		t.Errorf("%+v", v)
	}
}

// Growth is per operation where operations are known: twice the load leaks twice as much.
func TestPerOperation(t *testing.T) {
	r := recordOf(1, 20, leaking(1, 0), leaking(2, 0), healthy["quiet"](), leaking(1, 0))
	for k, perMinute := range []float64{100, 200, 100} {
		s := r.Targets[k]
		for _, seconds := range s.Seconds {
			s.Operations = append(s.Operations, perMinute*seconds/60)
		}
	}
	r.Counter, r.Targets[3].NoCounter = "requests", "status 404"
	v := Judge(r, usual)
	if v.Targets.Leaking != 3 || len(v.Stacks) != 1 {
		t.Fatalf("%+v", v)
	}
	if len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "judged per hour, without the counter requests: 1 target; pod-3: status 404") {
		t.Errorf("%q", v.Warnings)
	}
	for _, g := range v.Stacks[0].Targets {
		switch {
		case g.Target == "pod-3":
			if g.PerOperation != nil || math.Abs(g.PerHour-60) > 2 {
				t.Errorf("without a counter: %+v", g)
			}
		case g.PerOperation == nil || math.Abs(*g.PerOperation-0.01) > 0.001:
			t.Errorf("%s: %+v", g.Target, g.PerOperation)
		}
	}
	// A counter that stands still in the end leaves the clock.
	still := recordOf(1, 20, leaking(1, 0))
	for i := range still.Targets[0].Seconds {
		still.Targets[0].Operations = append(still.Targets[0].Operations, float64(100*min(i, 13)))
	}
	still.Counter = "requests"
	w := Judge(still, usual)
	if _, err := json.Marshal(w); err != nil || w.Targets.Leaking != 1 || w.Stacks[0].Targets[0].PerOperation != nil || !strings.Contains(w.Warnings[0], "it stood still") {
		t.Errorf("%+v %v", w, err)
	}
	if v := Judge(r, Bounds{PerHour: 1000, PerOperation: 0.02, MinJudged: 1}); v.Outcome != leak.Clean {
		t.Errorf("within the bounds: %s", v.Sentence)
	}
}

// TestNothingDecided checks that a fleet without any decided target is not clean, for any limit.
func TestNothingDecided(t *testing.T) {
	r := recordOf(1, 20, func(_ *rand.Rand, i int) []int32 { return []int32{5, 1, int32(10 * (i / 6))} }) // three large steps
	v := Judge(r, Bounds{PerHour: 10})
	if v.Targets.Judged != 0 || v.Targets.Undecided != 1 {
		t.Fatalf("%+v", v.Targets)
	}
	if v.ExitCode != leak.ExitInconclusive || !strings.Contains(v.Sentence, "nothing was decided on: 1 target grow") {
		t.Errorf("exit %d: %s", v.ExitCode, v.Sentence)
	}
}

// TestSpread checks that growth over many stacks, none of which is significant, is found in their total.
func TestSpread(t *testing.T) {
	r := recordOf(1, 20, func(_ *rand.Rand, i int) []int32 {
		counts := make([]int32, 20)
		for k := range counts {
			counts[k] = 1
			if k < i {
				counts[k] = 2
			}
		}
		return counts
	})
	v := Judge(r, usual)
	if v.Targets.Leaking != 1 || v.Stacks[0].Stack != nil || v.Stacks[0].Targets[0].To-v.Stacks[0].Targets[0].From != 19 {
		t.Errorf("%+v", v.Stacks)
	}
}

func TestCounts(t *testing.T) {
	for _, tt := range []struct {
		counts Counts
		want   string
	}{{Counts{}, "[]"}, {Counts{7}, "[7]"}, {Counts{7, 7, 7}, "7"}, {Counts{1, 2}, "[1,2]"}} {
		if b, err := tt.counts.MarshalJSON(); err != nil || string(b) != tt.want {
			t.Errorf("%v: %s %v", tt.counts, b, err)
		}
	}
}

// heapRecord is a record of targets whose heap has the given MiB on each allocation site, sweep by sweep, as a sampled
// profile shows them.
func heapRecord(seed uint64, sweeps int, mib ...func(rng *rand.Rand, sweep int) []float64) *Record {
	r := &Record{Schema: RecordSchema, Started: time.Unix(0, 0), Every: leak.Duration(time.Minute)}
	rng := rand.New(rand.NewPCG(seed, 11))
	for i := range sweeps {
		r.Sweeps = append(r.Sweeps, Sweep{Seconds: float64(60 * i), Took: 1, Listed: len(mib), Read: len(mib)})
	}
	for k, of := range mib {
		s := r.add(fmt.Sprint(k), fmt.Sprintf("pod-%d", k), 0)
		for i := range sweeps {
			heap := reading{}
			for stack, m := range of(rng, i) {
				samples := poisson(rng, 2*m) // one in 512 KiB
				heap.counts = append(heap.counts, count{stack, 512 * samples})
				heap.total += int64(512 * samples)
				for len(r.Stacks) <= stack {
					r.Stacks = append(r.Stacks, leak.Stack{Frames: []leak.Frame{{Func: fmt.Sprintf("main.f%d", len(r.Stacks))}}})
				}
			}
			s.addBoth(float64(60*i), math.NaN(), reading{5, []count{{0, 5}}}, &heap)
		}
	}
	return r
}

// TestHeap checks that a growing allocation site is found with the gates of goroutines, that sampling noise is not
// growth, and that goroutines and allocations of the same stack are separate.
func TestHeap(t *testing.T) {
	still := func(*rand.Rand, int) []float64 { return []float64{3, 20, 1} }
	grows := func(_ *rand.Rand, i int) []float64 { return []float64{3, 20, 1 + 2*float64(i)} }
	noisy := func(rng *rand.Rand, _ int) []float64 { return []float64{3, 20 + 10*rng.Float64(), 1} }
	bounds := Bounds{PerHour: 10, HeapPerHour: 1 << 20, MinJudged: 0.99}
	for seed := range uint64(20) {
		v := Judge(heapRecord(seed, 40, still, grows, noisy, noisy, still), bounds)
		if v.Targets.Leaking != 1 || v.Targets.Clean < 3 || v.Stacks[0].Unit != "bytes" || v.Stacks[0].Targets[0].Target != "pod-1" {
			t.Fatalf("seed %d: %+v %s", seed, v.Targets, v.Sentence)
		}
		g := v.Stacks[0].Targets[0]
		if planted := 120. * (1 << 20); math.Abs(g.PerHour-planted) > 0.15*planted {
			t.Errorf("seed %d: %+.0f bytes per hour, planted %.0f", seed, g.PerHour, planted)
		}
		if !strings.Contains(v.Sentence, "1 of 5 targets leak memory") || !strings.Contains(v.Sentence, "heap at main.f2") {
			t.Error(v.Sentence)
		}
	}
	if v := Judge(heapRecord(1, 40, still, grows), Bounds{PerHour: 10, HeapPerHour: 1 << 30, MinJudged: 0.99}); v.Outcome != leak.Clean {
		t.Errorf("within the bound: %s", v.Sentence)
	}
	noisyOnly := make([]func(*rand.Rand, int) []float64, 200)
	for i := range noisyOnly {
		noisyOnly[i] = noisy
	}
	if v := Judge(heapRecord(7, 40, noisyOnly...), bounds); v.Targets.Leaking != 0 || v.Targets.Undecided > 2 {
		t.Errorf("noise: %+v", v.Targets)
	}
}
