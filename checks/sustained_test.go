package checks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// simulated is a run with a time budget against a program whose growth is known: rounds that grow as the runner's
// do, looks after each from the sixth on, and the idling at the end.
type simulated struct {
	unit string
	// at is what stands after so many operations and seconds; it may draw at random, once for each measurement.
	at func(operations, seconds float64) float64
	// rate is operations a second, budget the time budget in seconds.
	rate, budget float64
	// batch is how many operations one invocation makes, and says how many of them the user counts for one: 500
	// where an invocation makes 500 and nobody says so.
	batch, says float64
	// object is the mean size of what grows, in bytes.
	object float64
	// tests share the false-alarm budget.
	tests int
}

// run is how it ends, after so many operations and seconds.
func (r simulated) run() (leak.Finding, float64, float64) {
	const overhead, settle, idle = 7., 0.8, 3.
	unit, says := max(r.batch, 1), max(r.says, 1)
	s := series{unit: r.unit}
	if r.unit == "bytes" {
		s.coarse = 2048
	}
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
		if gain, _ := s.net(); r.object > 0 {
			s.objects = max(gain, 0) / r.object
		}
	}
	put(0, 0)
	e := evidence{leak.Evidence{Check: "x", For: 60e9, Alpha: falseAlarmBudget / float64(max(r.tests, 1)*(leak.MaxScaledRounds-leak.FirstScaledLook+1))}}
	done, size, again := 0., unit, 0
	for round := 1; round <= leak.MaxScaledRounds; round++ {
		took := size / r.rate
		if clock+took+settle+idle > r.budget {
			break
		}
		done += size
		clock += took + settle
		put(round, done)
		if round == 1 {
			size = max(10, 2*unit)
		} else if took < 0.2 {
			size *= 2
		} else {
			size *= 1.5
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

func TestSustainedLeaksAndLookAlikes(t *testing.T) {
	logUniform := func(rng *rand.Rand, low, high float64) float64 {
		return low * math.Pow(high/low, rng.Float64())
	}
	type rngs = *rand.Rand
	type curve = func(n, t float64) float64
	leaks := []shape{
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
		{"a map of numbers, which doubles", "bytes", 2000, func(g rngs) curve {
			by := logUniform(g, 0.2, 3)
			return noisy(g, 2000, func(n, _ float64) float64 { return 16 * 896 * math.Exp2(math.Ceil(math.Log2(1+by*n/896))) })
		}},
		{"a slice, which grows by a quarter", "bytes", 2000, func(g rngs) curve {
			by := logUniform(g, 0.2, 3)
			return noisy(g, 2000, func(n, _ float64) float64 {
				return 16 * 256 * math.Pow(1.25, math.Ceil(math.Log(1+by*n/256)/math.Log(1.25)))
			})
		}},
		{"masked by something that shrinks", "goroutines", 2000, func(g rngs) curve {
			return whole(func(n, _ float64) float64 { return 1000 + n - min(2*n, 1000) })
		}},
	}
	healthy := []shape{
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
		{"pool of goroutines", "goroutines", 2000, func(g rngs) curve {
			size := math.Floor(logUniform(g, 10, 5000))
			return whole(func(n, _ float64) float64 { return min(n, size) })
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
		{"buffers with a heavier tail", "bytes", 2000, func(g rngs) curve {
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
					r := simulated{unit: sh.unit, rate: sh.rate, budget: 60, at: sh.make(g), tests: 10, object: 64}
					f, n, took := r.run()
					seen[f.Outcome]++
					seconds = append(seconds, took)
					if want := leak.Leaking; i == 0 && f.Outcome != want || i == 1 && f.Outcome != leak.Clean {
						why[fmt.Sprintf("%v: %.250s", f.Outcome, f.Summary)]++
						if i == 1 && f.Outcome == leak.Leaking {
							t.Errorf("called leaking after %.0f operations: %s\n%v\n%+v", n, f.Summary, f.Points, f.Gates)
						}
					}
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

// The same load against the same program has the same outcome, whatever is said to be an operation: 500 invocations
// of one, one invocation of 500, or one that makes 500 and is said to be one.
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
