package checks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

const opsPerRound = 20

var (
	receive = leak.Stack{
		State: "chan send",
		Frames: []leak.Frame{
			{Func: "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive", File: "k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go", Line: 125},
			{Func: "runtime.goexit"},
		},
		Creator: &leak.Frame{Func: "k8s.io/apimachinery/pkg/watch.NewStreamWatcher"},
	}
	serving = leak.Stack{
		State:  "IO wait",
		Frames: []leak.Frame{{Func: "internal/poll.(*pollDesc).wait"}, {Func: "net/http.(*conn).serve", File: "net/http/server.go", Line: 2102}},
	}
	receiveID, servingID = receive.ID(), serving.ID()

	modules = []leak.Module{
		{Path: "example.com/subject", Version: "(devel)"},
		{Path: "k8s.io/api", Version: "v0.18.8"},
		{Path: "k8s.io/apimachinery", Version: "v0.18.8"},
	}
)

// snapshot has v of everything: goroutines, heap bytes, goroutines in receive, in addition to 10 that serve.
func snapshot(round int, v float64) leak.Snapshot {
	return leak.Snapshot{
		Round: round, Operations: round * opsPerRound,
		Load:   []leak.Tally{{Action: "post", Attempted: opsPerRound, Succeeded: opsPerRound}},
		Settle: leak.SettleResult{Settled: true},
		Samples: []leak.Sample{
			{
				Probe:  "goroutine",
				Values: map[string]float64{"count": v},
				Groups: map[string][]leak.Group{
					"dump":    {{Stack: receiveID, Count: int64(v)}, {Stack: servingID, Count: 10}},
					"profile": {{Stack: receiveID, Count: int64(v)}, {Stack: servingID, Count: 10}},
				},
			},
			{
				Probe:  "heap",
				Values: map[string]float64{"alloc": v, "objects": v},
				Groups: map[string][]leak.Group{"heap": {{Stack: receiveID, Count: 1, Bytes: int64(v)}}},
			},
		},
	}
}

// variantOf records one value a snapshot, baseline first, and the last one again after idling.
func variantOf(name string, values ...float64) leak.VariantRecord {
	v := leak.VariantRecord{
		Name: name, Subject: leak.SubjectInfo{Modules: modules},
		Stacks: map[string]leak.Stack{receiveID: receive, servingID: serving},
	}
	for i, x := range values {
		v.Snapshots = append(v.Snapshots, snapshot(i, x))
	}
	if n := len(values); n > 0 {
		idle := snapshot(n-1, values[n-1])
		v.Idle = &idle
	}
	return v
}

func quantity(v float64) *leak.Quantity {
	q := leak.Quantity(v)
	return &q
}

// judgeValues runs the growth check on one series. Alpha is what each of 40 series gets of the budget; a
// perfect trend over 7 rounds, p = 1/8! = 2.48e-5, just reaches it.
func judgeValues(bound float64, values ...float64) leak.Finding {
	c := &Growth{Probe: "heap", MaxPerOp: quantity(bound)}
	return c.Check(leak.Evidence{Check: "heap", Variant: variantOf("v", values...), Rounds: len(values) - 1, Alpha: 2.5e-5, Metrics: testMetrics()})
}

// never is a set of outcomes that a shape must not have.
type never []leak.Outcome

var (
	neverLeaking = never{leak.Leaking}
	neverClean   = never{leak.Clean}
	alwaysClean  = never{leak.Leaking, leak.Inconclusive}
	alwaysLeak   = never{leak.Clean, leak.Inconclusive}
	alwaysOpen   = never{leak.Clean, leak.Leaking}
)

// The bound is 1 per operation, 20 a round; each shape is a function of the round with noise on top.
func TestGrowthShapes(t *testing.T) {
	type rng = *rand.Rand
	linear := func(perOp float64) func(float64, rng) float64 {
		return func(r float64, _ rng) float64 { return perOp * opsPerRound * r }
	}
	stepAt := func(round, height float64) func(float64, rng) float64 {
		return func(r float64, _ rng) float64 {
			if r >= round {
				return height
			}
			return 0
		}
	}
	fill := func(perOp, rounds float64) func(float64, rng) float64 {
		return func(r float64, _ rng) float64 { return perOp * opsPerRound * min(r, rounds) }
	}
	every := func(period, phase, perOp float64) func(float64, rng) float64 {
		return func(r float64, _ rng) float64 { return perOp * opsPerRound * period * math.Floor((r+phase)/period) }
	}
	type shape struct {
		name   string
		at     func(round float64, rng rng) float64
		rounds int
		noise  float64 // standard deviation
		not    never
	}
	shapes := []shape{
		{"leak of 10 times the bound", linear(10), 7, 5, alwaysLeak},
		{"leak of 10 times the bound, exact", linear(10), 7, 0, alwaysLeak},
		{"leak of 10 times the bound, more rounds", linear(10), 14, 20, alwaysLeak},
		{"leak of 10 times the bound, beyond the exact test", linear(10), 70, 20, alwaysLeak},
		{"leak of twice the bound, little noise", linear(2), 7, 1, alwaysLeak},
		{"leak of twice the bound, noise of half a round", linear(2), 7, 10, neverClean},
		{"5 rounds are too few for this alpha", linear(10), 5, 0, alwaysOpen},
		{"4 rounds are too few for anything", linear(0), 4, 0, alwaysOpen},

		{"nothing", linear(0), 7, 0, alwaysClean},
		{"noise within the bound", linear(0), 7, 3, alwaysClean},
		{"noise over the bound", linear(0), 7, 100, neverLeaking},
		{"noise far over the bound, many rounds", linear(0), 30, 300, neverLeaking},
		{"noise beyond the exact test", linear(0), 70, 300, neverLeaking},
		{"drift of half the bound", linear(0.5), 7, 1, alwaysClean},
		{"drift of half the bound, noise", linear(0.5), 7, 40, neverLeaking},
		{"drift of 0.9 of the bound, noise", linear(0.9), 14, 10, neverLeaking},
		{"shrinking", linear(-3), 7, 5, alwaysClean},

		{"decelerating, filled with a time constant of 1 round", func(r float64, _ rng) float64 { return 1000 * (1 - math.Exp(-r)) }, 7, 0, neverLeaking},
		{"decelerating, 2 rounds", func(r float64, _ rng) float64 { return 1000 * (1 - math.Exp(-r/2)) }, 7, 3, neverLeaking},
		{"decelerating, 4 rounds", func(r float64, _ rng) float64 { return 1000 * (1 - math.Exp(-r/4)) }, 7, 3, neverLeaking},
		{"decelerating, 4 of 14 rounds", func(r float64, _ rng) float64 { return 1000 * (1 - math.Exp(-r/4)) }, 14, 3, neverLeaking},

		{"sawtooth of a collector, no leak", func(r float64, g rng) float64 { return 200 * math.Mod(r+g.Float64()/4, 3) }, 7, 10, neverLeaking},
		{"sawtooth of a collector, period of 4", func(r float64, g rng) float64 { return 200 * math.Mod(r+float64(g.IntN(2)), 4) }, 14, 10, neverLeaking},
		{"sawtooth over a leak", func(r float64, _ rng) float64 { return 200*math.Mod(r, 3) + 100*r }, 14, 5, neverClean},

		{"late onset after round 3", func(r float64, _ rng) float64 { return 200 * max(0, r-3) }, 7, 3, neverClean},
		{"late onset after round 5", func(r float64, _ rng) float64 { return 200 * max(0, r-5) }, 7, 3, neverClean},
		{"late onset after the last but one", func(r float64, _ rng) float64 { return 200 * max(0, r-6) }, 7, 0, neverClean},
		{"late onset, seen long enough", func(r float64, _ rng) float64 { return 200 * max(0, r-3) }, 14, 3, alwaysLeak},
		{"accelerating", func(r float64, _ rng) float64 { return 20 * r * r }, 7, 2, neverClean},
	}
	for round := 1.; round <= 7; round++ {
		not := neverLeaking
		if round <= 4 {
			not = alwaysClean // the tail, three rounds, is flat
		}
		shapes = append(shapes,
			shape{fmt.Sprintf("lazy initialisation in round %v", round), stepAt(round, 1000), 7, 0, not},
			shape{fmt.Sprintf("lazy initialisation in round %v, noise", round), stepAt(round, 1000), 7, 10, neverLeaking},
			shape{fmt.Sprintf("lazy initialisation in round %v, many rounds", round), stepAt(round, 1000), 20, 2, alwaysClean},
		)
		if round <= 6 { // a cap that is reached in the last round cannot be seen
			shapes = append(shapes,
				shape{fmt.Sprintf("pool that fills for %v rounds", round), fill(5, round), 7, 0, neverLeaking},
				shape{fmt.Sprintf("pool that fills for %v rounds, noise", round), fill(5, round), 7, 3, neverLeaking},
				shape{fmt.Sprintf("pool that fills for %v rounds, many rounds", round), fill(5, round), 20, 2, alwaysClean},
			)
		}
	}
	for phase := range 3 {
		shapes = append(shapes,
			shape{fmt.Sprintf("one step in 2 rounds, phase %d", phase), every(2, float64(phase), 5), 7, 0, neverClean},
			shape{fmt.Sprintf("one step in 3 rounds, phase %d", phase), every(3, float64(phase), 5), 7, 0, neverClean},
			shape{fmt.Sprintf("one step in 3 rounds, phase %d, noise", phase), every(3, float64(phase), 5), 7, 5, neverClean},
			shape{fmt.Sprintf("one step in 3 rounds, phase %d, many rounds", phase), every(3, float64(phase), 5), 30, 5, alwaysLeak},
		)
	}
	for i, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			g := rand.New(rand.NewPCG(42, uint64(i)))
			repeat := trials(300)
			if s.rounds > 20 {
				repeat = trials(60)
			}
			var seen [3]int
			for range repeat {
				values := make([]float64, s.rounds+1)
				for r := range values {
					values[r] = 1e5 + s.at(float64(r), g) + s.noise*g.NormFloat64()
				}
				f := judgeValues(1, values...)
				for _, o := range s.not {
					if f.Outcome == o {
						t.Fatalf("%.0f is %v: %s\n%+v", values, f.Outcome, f.Summary, f.Gates)
					}
				}
				seen[f.Outcome]++
			}
			t.Logf("inconclusive %d, clean %d, leaking %d", seen[0], seen[1], seen[2])
		})
	}
}

// Near the bound chance decides, and has to be as rare as is claimed: at the bound itself 2.5 % leaking
// and 5 % clean (the interval of the tail is one of 92 %), and quickly less away from it. Growth and
// noise are in bounds per round.
func TestGrowthCalibration(t *testing.T) {
	for _, tt := range []struct {
		rounds                   int
		growth, noise            float64
		maxClean, maxLeak, least float64 // least: share that is decided rightly
	}{
		{7, 0, 0.5, 1, 1e-3, 0.99},
		{7, 0, 4, 1, 1e-3, 0},
		{14, 0, 4, 1, 1e-3, 0.7},
		{7, 0.9, 1, 1, 0.01, 0},
		{7, 1, 0.5, 0.07, 0.025, 0},
		{7, 1, 2, 0.07, 0.025, 0},
		{14, 1, 1, 0.05, 0.03, 0},
		{7, 1.2, 1, 0.04, 1, 0},
		{7, 2, 1, 0.005, 1, 0.3},
		{14, 2, 1, 0.002, 1, 0.9},
		{7, 5, 0.5, 0, 1, 0.95},
		{14, 5, 2, 0, 1, 0.95},
	} {
		const full = 2000
		n := trials(full)
		g := rand.New(rand.NewPCG(9, uint64(tt.rounds)))
		var seen [3]float64
		for range n {
			values := make([]float64, tt.rounds+1)
			for r := range values {
				values[r] = 1e5 + opsPerRound*(tt.growth*float64(r)+tt.noise*g.NormFloat64())
			}
			seen[judgeValues(1, values...).Outcome]++
		}
		for o := range seen {
			seen[o] /= float64(n)
		}
		right := seen[leak.Clean]
		if tt.growth > 1 {
			right = seen[leak.Leaking]
		}
		if seen[leak.Clean] > tt.maxClean+slack(tt.maxClean, n, full) || seen[leak.Leaking] > tt.maxLeak+slack(tt.maxLeak, n, full) || right < tt.least-slack(tt.least, n, full) {
			t.Errorf("%+v: inconclusive %.4f, clean %.4f, leaking %.4f", tt, seen[0], seen[1], seen[2])
		}
	}
}

// Counts have no noise but come whole: 1 in 10 operations, on a bound of 0.01 per operation.
func TestStackShapes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		perOp  float64
		random bool
		rounds int
		not    never
	}{
		{"one per operation", 1, false, 7, alwaysLeak},
		{"four per operation", 4, false, 7, alwaysLeak},
		{"one in ten", 0.1, false, 7, alwaysLeak},
		{"nine in ten, by chance", 0.9, true, 7, alwaysLeak},
		{"half, by chance", 0.5, true, 7, neverClean},
		{"half, by chance, more rounds", 0.5, true, 14, alwaysLeak},
		{"one in five, by chance", 0.2, true, 14, neverClean},
		{"one in twenty, by chance, many rounds", 0.05, true, 30, neverClean},
		{"none", 0, false, 7, alwaysClean},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := rand.New(rand.NewPCG(5, 5))
			var seen [3]int
			for range trials(300) {
				values := make([]float64, tt.rounds+1)
				sum := 0.0
				for r := 1; r <= tt.rounds; r++ {
					for range opsPerRound {
						if tt.random && g.Float64() < tt.perOp {
							sum++
						}
					}
					values[r] = sum
					if !tt.random {
						values[r] = math.Floor(tt.perOp * float64(r*opsPerRound))
					}
				}
				f := stackCheck().Check(leak.Evidence{Check: "receive", Variant: variantOf("v", values...), Rounds: tt.rounds, Alpha: 2.5e-4, Metrics: testMetrics()})
				for _, o := range tt.not {
					if f.Outcome == o {
						t.Fatalf("%v is %v: %s", values, o, f.Summary)
					}
				}
				seen[f.Outcome]++
			}
			t.Logf("inconclusive %d, clean %d, leaking %d", seen[0], seen[1], seen[2])
		})
	}
}

func stackCheck() *Stack {
	return &Stack{Probe: "goroutine", Match: `StreamWatcher\).receive`, State: "chan send", MaxPerOp: quantity(0.01)}
}
