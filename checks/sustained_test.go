package checks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// simulated is a run with a time budget against a program whose growth is known: rounds that grow as the runner's
// do, looks after each from the sixth on, and the idling at the end.
type simulated struct {
	unit string
	// at returns the value after this number of operations and seconds. It may be random, and is called once per
	// measurement.
	at func(operations, seconds float64) float64
	// rate is operations a second, budget the time budget in seconds.
	rate, budget float64
	// batch is how many operations one invocation makes, and says how many of them count as one: 500 if an invocation
	// makes 500 and the user does not say so.
	batch, says float64
	// object is the mean size of what grows, in bytes.
	object float64
	// tests share the false-alarm budget.
	tests int
}

// run returns the finding at the end, the operations and the seconds.
func (r simulated) run() (leak.Finding, float64, float64) {
	const overhead, settle, idle = 7., 0.8, 3.
	unit, says := max(r.batch, 1), max(r.says, 1)
	s := series{unit: r.unit}
	s.coarse = map[string]float64{"bytes": 2048, "objects": 32}[r.unit]
	clock := 0.
	for range 3 {
		s.control.values = append(s.control.values, r.at(20, clock))
		s.control.seconds = append(s.control.seconds, clock)
		clock += 1 + settle
	}
	start := clock
	put := func(round int, done float64) {
		s.points = append(s.points, leak.Point{Round: round, Operations: int(done / says), Value: r.at(20+done, clock)})
		s.seconds = append(s.seconds, clock-start)
		switch gain, _ := s.net(); {
		case r.unit == "objects":
			s.objects = max(gain, 0)
		case r.object > 0:
			s.objects = max(gain, 0) / r.object
		}
	}
	put(0, 0)
	e := evidence{leak.Evidence{Check: "x", For: time.Duration(r.budget * 1e9), Alpha: falseAlarmBudget / float64(max(r.tests, 1)*(leak.MaxScaledRounds-leak.FirstScaledLook+1))}}
	done, size, again := 0., unit, 0
	for round := 1; round <= leak.MaxScaledRounds; round++ {
		took := size / r.rate
		if clock+took+settle+idle > r.budget {
			break
		}
		done += size
		clock += took + settle
		put(round, done)
		switch {
		case round == 1:
			size = max(10, unit)
		case round%2 == 0:
		case took < 0.2:
			size *= 4
		default:
			size *= 2.25
		}
		size = math.Ceil(size/unit) * unit
		left := r.budget - clock - idle - settle
		if rest := 10. - float64(round); rest > 1 {
			size = max(min(size, (left-rest*settle)*r.rate/rest), unit)
		} else if size/r.rate > left && size/r.rate < 2*left {
			size = max(math.Floor(left*r.rate/unit), 1) * unit
		}
		if round < leak.FirstScaledLook || round < again {
			continue
		}
		e.Spent = min((clock-start)/r.budget, 1)
		if r.judge(s, e).Outcome == leak.Inconclusive {
			continue
		}
		ended := clock
		for _, wait := range []float64{idle, leak.Linger.Seconds() - (clock + idle - start) + idle} {
			if wait < idle {
				break
			}
			clock += wait
			idled := s
			v := r.at(20+done, clock)
			idled.idle, idled.idled = &leak.Point{Value: v}, clock-ended
			if f := r.judge(idled, e); f.Outcome != leak.Inconclusive {
				return f, done, clock
			}
		}
		again = round + 3
	}
	v := r.at(20+done, clock+idle)
	s.idle, s.idled = &leak.Point{Value: v}, idle
	e.Spent = 1
	return r.judge(s, e), done, clock + idle
}

func (r simulated) judge(s series, e evidence) leak.Finding {
	f := leak.Finding{Unit: r.unit, Series: "x", Unbounded: true, BoundPerOperation: true, Points: s.allPoints()}
	if line, ok := s.fit(); ok {
		f.PerOperation = line.Slope
	}
	judgeSustained(&f, s, e)
	return f
}

// steadily calls f with a function that gives noise of a standard deviation.
func noisy(rng *rand.Rand, sd float64, f func(n, t float64) float64) func(n, t float64) float64 {
	return func(n, t float64) float64 { return 1e5 + f(n, t) + sd*rng.NormFloat64() }
}

// counts is for units that come whole.
func whole(f func(n, t float64) float64) func(n, t float64) float64 {
	return func(n, t float64) float64 { return 30 + math.Floor(f(n, t)) }
}

func linear(perOperation float64) func(n, t float64) float64 {
	return func(n, _ float64) float64 { return perOperation * n }
}

// Poisson events up to n operations: a path that is drawn once.
func events(rng *rand.Rand, perOperation float64) func(n, t float64) float64 {
	at, count := 0., 0.
	next := rng.ExpFloat64() / perOperation
	return func(n, _ float64) float64 {
		for next <= n {
			at, count = next, count+1
			next = at + rng.ExpFloat64()/perOperation
		}
		return count
	}
}

type shape struct {
	name string
	unit string
	rate float64
	make func(rng *rand.Rand) func(n, t float64) float64
}

const (
	halfHit      = "cache that every second operation hits, slow load"
	doublingMap  = "a map of numbers, which doubles"
	growingSlice = "a slice, which grows by a quarter"
)

// objectSize returns the mean size of the program's objects in bytes.
func (s shape) objectSize() float64 {
	switch s.name {
	case halfHit:
		return 4096
	case doublingMap, growingSlice:
		return 1 << 20
	}
	return 64
}

// allowed is how many false alarms there may be: none, but of a maximum that grows with a power of the operations,
// which now and then does so in a straight line, no more than the false-alarm budget.
func (s shape) allowed(runs int) int {
	if s.name == heavyTail {
		return int(falseAlarmBudget * float64(runs))
	}
	return 0
}

const heavyTail = "buffers with a heavier tail"

// mostOpen are the shares of healthy programs that may stay undecided: a cache or pool that does not fill within the
// budget, and buffers whose last step was recent. One in a hundred of the others may.
var mostOpen = map[string]float64{
	"cache, pool or ring of 10 to 5,000, slow load": 0.2,
	halfHit: 0.2,
	"buffers that adapt to the largest request": 0.04,
	heavyTail:                            0.06,
	"several buffers of different users": 0.09,
	"pool that adds a worker now and then, slow load": 0.7,
}

func logUniform(rng *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, rng.Float64())
}

type (
	rngs  = *rand.Rand
	curve = func(n, t float64) float64
)

var (
	leaks = []shape{
		{"bytes, 16 B to 1 MiB", "bytes", 2000, func(g rngs) curve { return noisy(g, 2000, linear(logUniform(g, 16, 1<<20))) }},
		{"bytes behind noise", "bytes", 2000, func(g rngs) curve { return noisy(g, 50e3, linear(logUniform(g, 200, 1<<20))) }},
		{"objects", "objects", 2000, func(g rngs) curve { return noisy(g, 20, linear(logUniform(g, 1, 50))) }},
		{"goroutines, 3 to 1 in 10", "goroutines", 2000, func(g rngs) curve { return whole(linear(logUniform(g, 0.1, 3))) }},
		{"goroutines by chance, 1 to 1 in 200", "goroutines", 2000, func(g rngs) curve { return whole(events(g, logUniform(g, 0.005, 1))) }},
		{"goroutines, slow load", "goroutines", 100, func(g rngs) curve { return whole(linear(logUniform(g, 0.1, 3))) }},
		{"late onset", "bytes", 2000, func(g rngs) curve {
			from, by := logUniform(g, 50, 1000), logUniform(g, 64, 1<<16)
			return noisy(g, 2000, func(n, _ float64) float64 { return by * max(0, n-from) })
		}},
		{"after a cache has filled", "bytes", 2000, func(g rngs) curve {
			size, by := logUniform(g, 10, 2000), logUniform(g, 64, 1<<14)
			return noisy(g, 2000, func(n, _ float64) float64 { return by*n + 2000*min(n, size) })
		}},
		{doublingMap, "bytes", 2000, func(g rngs) curve {
			by := logUniform(g, 0.2, 3)
			return noisy(g, 2000, func(n, _ float64) float64 { return 16 * 896 * math.Exp2(math.Ceil(math.Log2(1+by*n/896))) })
		}},
		{growingSlice, "bytes", 2000, func(g rngs) curve {
			by := logUniform(g, 0.2, 3)
			return noisy(g, 2000, func(n, _ float64) float64 {
				return 16 * 256 * math.Pow(1.25, math.Ceil(math.Log(1+by*n/256)/math.Log(1.25)))
			})
		}},
		{"masked by something that shrinks", "goroutines", 2000, func(g rngs) curve {
			return whole(func(n, _ float64) float64 { return 1000 + n - min(2*n, 1000) })
		}},
	}
	healthy = []shape{
		{"nothing", "bytes", 2000, func(g rngs) curve { return noisy(g, logUniform(g, 100, 100e3), linear(0)) }},
		{"nothing, slow load", "bytes", 50, func(g rngs) curve { return noisy(g, logUniform(g, 100, 100e3), linear(0)) }},
		{"goroutines that come and go", "goroutines", 2000, func(g rngs) curve {
			return whole(func(_, _ float64) float64 { return float64(g.IntN(2 + g.IntN(8))) })
		}},
		{"cache, pool or ring of 10 to 5,000", "bytes", 2000, func(g rngs) curve {
			size, entry := logUniform(g, 10, 5000), logUniform(g, 64, 1<<16)
			return noisy(g, 2000, func(n, _ float64) float64 { return entry * min(n, size) })
		}},
		{"cache, pool or ring of 10 to 5,000, slow load", "bytes", 100, func(g rngs) curve {
			size, entry := logUniform(g, 10, 5000), logUniform(g, 64, 1<<16)
			return noisy(g, 2000, func(n, _ float64) float64 { return entry * min(n, size) })
		}},
		{"cache that every second operation hits", "objects", 2000, func(g rngs) curve {
			size, hits := logUniform(g, 10, 5000), 0.3+0.7*g.Float64()
			return noisy(g, 10, func(n, _ float64) float64 { return 3 * min(hits*n, size) })
		}},
		{halfHit, "bytes", 250, func(g rngs) curve {
			size := logUniform(g, 10, 5000)
			return noisy(g, 2000, func(n, _ float64) float64 { return 4096 * min(n/2, size) })
		}},
		{"pool of goroutines", "goroutines", 2000, func(g rngs) curve {
			size := math.Floor(logUniform(g, 10, 5000))
			return whole(func(n, _ float64) float64 { return min(n, size) })
		}},
		{"pool that adds a worker now and then", "goroutines", 2000, func(g rngs) curve {
			size, every := math.Floor(logUniform(g, 10, 90)), math.Floor(logUniform(g, 10, 200))
			return whole(func(n, _ float64) float64 { return min(n/every, size) })
		}},
		{"pool that adds a worker now and then, slow load", "goroutines", 40, func(g rngs) curve {
			size, every := math.Floor(logUniform(g, 10, 90)), math.Floor(logUniform(g, 10, 100))
			return whole(func(n, _ float64) float64 { return min(n/every, size) })
		}},
		{"map that gets all keys there are", "bytes", 2000, func(g rngs) curve {
			keys, entry := logUniform(g, 10, 5000), logUniform(g, 64, 1<<16)
			return noisy(g, 2000, func(n, _ float64) float64 { return entry * keys * (1 - math.Exp(-n/keys)) })
		}},
		{"buffers that adapt to the largest request", "bytes", 2000, func(g rngs) curve {
			largest, seen := 0., 0.
			return noisy(g, 500, func(n, _ float64) float64 {
				for ; seen < n; seen++ {
					largest = max(largest, g.ExpFloat64()*32e3)
				}
				return largest
			})
		}},
		{heavyTail, "bytes", 2000, func(g rngs) curve {
			largest, seen := 0., 0.
			return noisy(g, 500, func(n, _ float64) float64 {
				for ; seen < n; seen++ {
					largest = max(largest, math.Exp(g.NormFloat64())*8e3)
				}
				return largest
			})
		}},
		{"several buffers of different users", "bytes", 2000, func(g rngs) curve {
			largest, seen := make([]float64, 1+g.IntN(16)), 0.
			return noisy(g, 500, func(n, _ float64) float64 {
				sum := 0.
				for ; seen < n; seen++ {
					i := g.IntN(len(largest))
					largest[i] = max(largest[i], g.ExpFloat64()*8e3)
				}
				for _, l := range largest {
					sum += l
				}
				return sum
			})
		}},
		{"history of entries of any size", "bytes", 2000, func(g rngs) curve {
			size := int(logUniform(g, 10, 1000))
			return func(n, _ float64) float64 {
				sum := 0.
				for range min(int(n), size) {
					sum += g.Float64() * 64e3
				}
				return sum
			}
		}},
		{"reload by the clock", "bytes", 2000, func(g rngs) curve {
			period, height := 1+9*g.Float64(), logUniform(g, 1e4, 1e7)
			return noisy(g, 1000, func(_, t float64) float64 { return height * math.Mod(t, period) / period })
		}},
		{"a backlog, of which the runtime keeps the largest", "bytes", 2000, func(g rngs) curve {
			last, largest := 0., 0.
			return noisy(g, 2000, func(n, _ float64) float64 {
				largest, last = max(largest, n-last), n
				return 440 * largest
			})
		}},
		{"lazy initialisation, late", "bytes", 2000, func(g rngs) curve {
			at, height := logUniform(g, 10, 20000), logUniform(g, 1e4, 1e7)
			return noisy(g, 1000, func(n, _ float64) float64 {
				if n >= at {
					return height
				}
				return 0
			})
		}},
	}
)

func TestSustainedLeaksAndLookAlikes(t *testing.T) {
	for i, list := range [][]shape{leaks, healthy} {
		for k, sh := range list {
			t.Run(sh.name, func(t *testing.T) {
				g := rand.New(rand.NewPCG(uint64(i), uint64(k)))
				runs := trials(100_000 / len(healthy) / 40)
				if share == 1 {
					runs = 100_000 / len(healthy)
				}
				var seen [3]int
				var seconds []float64
				why := map[string]int{}
				for range runs {
					r := simulated{unit: sh.unit, rate: sh.rate, budget: 60, at: sh.make(g), tests: 10, object: sh.objectSize()}
					f, n, took := r.run()
					seen[f.Outcome]++
					seconds = append(seconds, took)
					if want := leak.Leaking; i == 0 && f.Outcome != want || i == 1 && f.Outcome != leak.Clean {
						why[fmt.Sprintf("%v: %.250s", f.Outcome, f.Summary)]++
						if i == 1 && f.Outcome == leak.Leaking && seen[leak.Leaking] > sh.allowed(runs) {
							t.Errorf("called leaking after %.0f operations: %s\n%v\n%+v", n, f.Summary, f.Points, f.Gates)
						}
					}
				}
				if open := max(mostOpen[sh.name], 0.01); i == 1 && float64(seen[leak.Inconclusive])/float64(runs) > open+slack(open, runs, 100_000/len(healthy)) {
					t.Errorf("%d of %d are undecided", seen[leak.Inconclusive], runs)
				}
				slices.Sort(seconds)
				t.Logf("%d runs: inconclusive %d, clean %d, leaking %d; median %.0f s", runs, seen[0], seen[1], seen[2], seconds[len(seconds)/2])
				shown := 0
				for text := range why {
					if shown++; shown > 4 {
						break
					}
					t.Log(text)
				}
			})
		}
	}
}

// A program that a time budget leaves undecided is decided within the budget that the hint names.
func TestHintsDecide(t *testing.T) {
	slow := []shape{
		{"a slow leak", "bytes", 40, func(g rngs) curve { return noisy(g, 2000, linear(logUniform(g, 200, 1<<16))) }},
		{"a slow leak of goroutines", "goroutines", 10, func(g rngs) curve { return whole(linear(logUniform(g, 0.1, 1))) }},
	}
	for i, sh := range append(slow, healthy...) {
		g := rand.New(rand.NewPCG(11, uint64(i)))
		hinted, open, last := 0, 0, ""
		for range trials(300) {
			seed := g.Uint64()
			of := func(budget float64) leak.Finding {
				r := simulated{unit: sh.unit, rate: sh.rate, budget: budget, at: sh.make(rand.New(rand.NewPCG(seed, 2))), tests: 10, object: sh.objectSize()}
				f, _, _ := r.run()
				return f
			}
			before := of(60)
			m := regexp.MustCompile(`--for (\S+) decides`).FindStringSubmatch(before.Summary)
			if m == nil {
				if before.Outcome == leak.Inconclusive {
					t.Errorf("%s: no hint: %s", sh.name, before.Summary)
				}
				continue
			}
			budget, err := time.ParseDuration(m[1])
			if err != nil {
				t.Fatal(err)
			}
			hinted++
			if after := of(budget.Seconds()); after.Outcome == leak.Inconclusive {
				open++
				last = fmt.Sprintf("%s; after %s: %s", before.Summary, budget, after.Summary)
			}
		}
		if open > 2+hinted/20 {
			t.Errorf("%s: %d of %d hints did not decide: %s", sh.name, open, hinted, last)
		}
	}
}

// TestTheUnitDoesNotMatter checks that the same load on the same program has the same outcome for any unit: 500
// invocations of one operation, one invocation of 500, or one that makes 500 and counts as one.
func TestTheUnitDoesNotMatter(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 3))
	for _, tt := range []struct {
		name, unit string
		make       func(float64, *rand.Rand) func(n, t float64) float64
		low, high  float64
		want       leak.Outcome
	}{
		{"goroutines", "goroutines", func(v float64, _ *rand.Rand) func(n, t float64) float64 { return whole(linear(v)) }, 0.5, 3, leak.Leaking},
		{"bytes", "bytes", func(v float64, g *rand.Rand) func(n, t float64) float64 { return noisy(g, 2000, linear(v)) }, 200, 20e3, leak.Leaking},
		{"a cache", "bytes", func(v float64, g *rand.Rand) func(n, t float64) float64 {
			return noisy(g, 2000, func(n, _ float64) float64 { return 1000 * min(n, v) })
		}, 10, 3000, leak.Clean},
		{"a pool", "goroutines", func(v float64, _ *rand.Rand) func(n, t float64) float64 {
			v = math.Floor(v)
			return whole(func(n, _ float64) float64 { return min(n, v) })
		}, 10, 3000, leak.Clean},
		{"nothing", "bytes", func(v float64, g *rand.Rand) func(n, t float64) float64 { return noisy(g, v, linear(0)) }, 10, 50e3, leak.Clean},
	} {
		runs, open := trials(150), 0
		for range runs {
			size := tt.low * math.Pow(tt.high/tt.low, g.Float64())
			seed := g.Uint64()
			for _, unit := range []struct{ batch, says float64 }{{1, 1}, {500, 1}, {500, 500}, {100, 100}} {
				r := simulated{unit: tt.unit, rate: 2000, budget: 60, tests: 10, batch: unit.batch, says: unit.says, object: 64}
				r.at = tt.make(size, rand.New(rand.NewPCG(seed, 1)))
				f, n, _ := r.run()
				if f.Outcome == leak.Inconclusive {
					open++
				} else if f.Outcome != tt.want {
					t.Errorf("%s of %.0f, invocations of %.0f, %.0f of them said to be one: %v after %.0f: %s", tt.name, size, unit.batch, unit.says, f.Outcome, n, f.Summary)
				}
			}
		}
		if open > runs*4/100 { // one in a hundred
			t.Errorf("%s: %d of %d are undecided", tt.name, open, 4*runs)
		}
	}
}

// scaledRecord is a run with a time budget and rounds that double. at returns the goroutines in receive after a
// number of operations.
func scaledRecord(rounds int, idle float64, at func(operations float64) float64) (*leak.Scenario, *leak.Record) {
	s := &leak.Scenario{Spec: leak.Spec{
		For: leak.Duration(time.Minute), Variants: []leak.Variant{{Name: "v", Expect: leak.ExpectClean}},
		Checks: []leak.Block[leak.Check]{
			{Kind: "growth", Name: "goroutines", Value: &Growth{Probe: "goroutine"}},
			{Kind: "stack", Name: "any-stack", Value: &Stack{Probe: "goroutine", Match: ".", Each: true}},
		},
	}}
	start := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	v := variantOf("v", make([]float64, rounds+1)...)
	n := 0
	shots := append(pointersTo(v.Snapshots), v.Idle)
	for i, shot := range shots {
		if i > 0 && i <= rounds {
			shot.Load = []leak.Tally{{Action: "post", Attempted: 10 << i, Succeeded: 10 << i}}
			n += 10 << i
		}
		value := idle
		if i <= rounds {
			value = at(float64(n))
		}
		shot.Operations, shot.Time = n, start.Add(time.Duration(i)*4*time.Second)
		shot.Samples[0].Values["count"] = value + 10
		shot.Samples[0].Groups["dump"] = []leak.Group{{Stack: receiveID, Count: int64(value)}, {Stack: servingID, Count: 10}}
	}
	v.Spent, v.Stopped = true, "its 1m0s are over"
	return s, &leak.Record{
		Plan:    leak.Plan{Rounds: leak.MaxScaledRounds, Variants: []string{"v"}, For: s.Spec.For, Looks: s.Spec.Looks()},
		Metrics: testMetrics(), Variants: []leak.VariantRecord{v},
	}
}

// Without a bound the outcome hangs on whether growth goes on, and failed operations excuse clean alone.
func TestJudgeWithoutABound(t *testing.T) {
	leaks := func(n float64) float64 { return n }
	failing := func(r *leak.Record) {
		for i := range r.Variants[0].Snapshots[1:] {
			load := &r.Variants[0].Snapshots[1+i].Load[0]
			load.Failed = load.Attempted / 10
			load.Succeeded -= load.Failed
			load.Errors = []leak.ErrorCount{{Message: "500 Internal Server Error", Count: load.Failed}}
		}
	}
	for _, tt := range []struct {
		name   string
		rounds int
		idle   float64
		at     func(float64) float64
		change func(*leak.Record)
		want   leak.Outcome
		reason string
	}{
		{"a leak", 10, 20460, leaks, nil, leak.Leaking, "any-stack leaks: +1.00 goroutines per operation, blocked in chan send at watch.(*StreamWatcher).receive, sustained over 20,460 operations"},
		{"growth per day", 10, 20460, leaks, nil, leak.Leaking, "at 100 operations a second, 8,640,000 goroutines a day"},
		{"a leak on an error path", 10, 20460, leaks, failing, leak.Leaking, "2046 of 20460 operations (post) failed: 500 Internal Server Error"},
		{"nothing", 10, 0, func(float64) float64 { return 0 }, nil, leak.Clean, "a leak below 0.00029 goroutines per operation would not have been detected"},
		{"nothing, while operations fail", 10, 0, func(float64) float64 { return 0 }, failing, leak.Inconclusive, "2046 of 20460 operations (post) failed"},
		{"a pool that is full", 10, 300, func(n float64) float64 { return min(n, 300) }, nil, leak.Clean, "the +300 before have stopped"},
		{"one that fills in the last round", 10, 15000, func(n float64) float64 { return min(n, 15000) }, nil, leak.Inconclusive, "it is slowing down"},
		{"ended by a timeout", 10, 1, leaks, nil, leak.Clean, "1.00 goroutines per operation linger for up to 5 s and then go away"},
		{"ended by a timeout, some of it while the last round settled", 10, 1, leaks, func(r *leak.Record) {
			r.Variants[0].Final().Settle.Seconds = 14
		}, leak.Clean, "1.00 goroutines per operation linger for up to 20 s and then go away"},
		{"drains slowly", 10, 15000, leaks, nil, leak.Inconclusive, "so it drains"},
		{"too few rounds", 4, 300, leaks, nil, leak.Inconclusive, "a trend needs 5 rounds"},
	} {
		s, r := scaledRecord(tt.rounds, tt.idle, tt.at)
		if tt.change != nil {
			tt.change(r)
		}
		vv := Judge(s, r).Variants[0]
		if vv.Outcome != tt.want || !strings.Contains(vv.Reason, tt.reason) {
			t.Errorf("%s: %v: %s", tt.name, vv.Outcome, vv.Reason)
		}
	}
}

// Growth within a budget is reported, not hidden.
func TestGrowthWithinTheBudget(t *testing.T) {
	f := judgeValues(4, 0, 20, 40, 60, 80, 100, 120, 140)
	want := "heap.alloc grows 1 B per operation (p = 5.5e-06), within the budget of 4 B; at 100 operations a second, 8.24 MiB a day"
	if f.Outcome != leak.Clean || f.Summary != want {
		t.Errorf("%v: %s", f.Outcome, f.Summary)
	}
	if f := judgeValues(4, 5, 5, 5, 5, 5, 5, 5, 5); strings.Contains(f.Summary, "budget") {
		t.Error(f.Summary)
	}
}

// TestPowerCurve measures the smallest leak that is found in 95 % of runs by time budget, with noise of 2 KiB, for
// docs/judgement.md. It checks that more time finds smaller leaks.
func TestPowerCurve(t *testing.T) {
	found := func(unit string, rate, budget, size float64) float64 {
		runs, n := trials(40), 0
		g := rand.New(rand.NewPCG(8, uint64(budget)))
		for range runs {
			at := noisy(g, 2000, linear(size))
			if unit == "goroutines" {
				at = whole(events(g, size))
			}
			if f, _, _ := (simulated{unit: unit, rate: rate, budget: budget, at: at, tests: 10}).run(); f.Outcome == leak.Leaking {
				n++
			}
		}
		return float64(n) / float64(runs)
	}
	for _, tt := range []struct {
		unit string
		rate float64
		most float64
	}{{"bytes", 2000, 1 << 20}, {"bytes", 200, 1 << 20}, {"goroutines", 2000, 3}, {"goroutines", 100, 3}} {
		before := math.Inf(1)
		text := ""
		for _, budget := range []float64{10, 30, 60, 300} {
			low, high := tt.most/(1<<24), tt.most
			if found(tt.unit, tt.rate, budget, high) < 0.95 {
				text += fmt.Sprintf("  %.0f s: none", budget)
				continue
			}
			for range 8 {
				if middle := math.Sqrt(low * high); found(tt.unit, tt.rate, budget, middle) >= 0.95 {
					high = middle
				} else {
					low = middle
				}
			}
			if high > 1.5*before {
				t.Errorf("%s at %.0f a second: %.3g in %.0f s, %.3g in less", tt.unit, tt.rate, high, budget, before)
			}
			before = high
			text += fmt.Sprintf("  %.0f s: %.3g", budget, high)
		}
		t.Logf("%s at %.0f operations a second:%s", tt.unit, tt.rate, text)
	}
}

// Series in one unit have one floor in a sentence, the highest.
func TestOneFloorPerUnit(t *testing.T) {
	of := func(series, unit string, floor float64) leak.Finding {
		f := leak.Finding{Series: series, Unit: unit, Floor: floor, Outcome: leak.Clean, Unbounded: true, BoundPerOperation: true}
		f.Summary = headline(&f) + fmt.Sprintf(undetected, per(floor, unit))
		return f
	}
	got := summaries([]leak.Finding{of("goroutine.count", "goroutines", 0.008), of("any", "goroutines", 0.01), of("heap.alloc", "bytes", 64), of("heap.stack", "bytes", 128)})
	if want := "Nothing grows; a leak below 0.01 goroutines, 64 B of heap.alloc or 128 B of heap.stack per operation would not have been detected"; got != want {
		t.Error(got)
	}
}

// TestFewOperationsAreNotClean checks that a time budget which went into measuring on a busy machine does not end in
// clean after a few fast operations. Slow operations may be few.
func TestFewOperationsAreNotClean(t *testing.T) {
	for _, tt := range []struct {
		operations int
		each       float64 // seconds
		want       leak.Outcome
	}{{5, 30e-6, leak.Inconclusive}, {5, 1.5, leak.Clean}, {500, 30e-6, leak.Clean}} {
		start := time.Unix(1e9, 0)
		v := leak.VariantRecord{Spent: true}
		for round := range 6 {
			done := round * tt.operations / 5
			shot := leak.Snapshot{
				Round: round, Operations: done, Time: start.Add(time.Duration(round) * 2 * time.Second), Settle: leak.SettleResult{Settled: true},
				Samples: []leak.Sample{{Probe: "heap", Values: map[string]float64{"alloc": 1_120_000 + float64(round%2)*8000}}},
			}
			if round > 0 {
				n := tt.operations / 5
				shot.Load = []leak.Tally{{Action: "operation", Attempted: n, Succeeded: n, Seconds: float64(n) * tt.each}}
			}
			v.Snapshots = append(v.Snapshots, shot)
		}
		idle := v.Snapshots[5]
		idle.Load = nil
		v.Idle = &idle
		e := evidenceOf(v, 5)
		e.For, e.Spent = 10*time.Second, 1
		f := (&Growth{Probe: "heap"}).Check(e)
		if f.Outcome != tt.want {
			t.Errorf("%d operations of %g s: %s: %s", tt.operations, tt.each, f.Outcome, f.Summary)
		}
	}
}
