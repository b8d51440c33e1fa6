package checks

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOnset checks that a bend is found at its place, and none in a straight line, for any noise.
func TestOnset(t *testing.T) {
	for _, tt := range []struct {
		name string
		y    []float64
		want int
	}{
		{"from the start", []float64{0, 20, 40, 60, 80, 100, 120, 140}, 0},
		{"from round 4", []float64{7, 7, 7, 7, 27, 47, 67, 87, 107}, 3},
		{"in the middle of round 4", []float64{0, 0, 0, 0, 10, 30, 50, 70, 90}, 3},
		{"later than four points can show", []float64{0, 0, 0, 0, 0, 0, 20, 40}, 4},
		{"flat", []float64{3, 3, 3, 3, 3, 3, 3, 3}, 0},
		{"a filled cache has no onset", []float64{0, 20, 40, 60, 60, 60, 60, 60}, 0},
		{"a point out of line does not bend it", []float64{0, 20, 40, 90, 80, 100, 120, 140, 160}, 0},
		{"two points", []float64{0, 1}, 0},
		{"none", nil, 0},
	} {
		x := seq(len(tt.y))
		if got := onset(x, tt.y); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 500 {
		n := 12 + rng.IntN(10)
		bend := 3 + rng.IntN(n-8)
		x, straight, bent := seq(n), make([]float64, n), make([]float64, n)
		for i := range n {
			noise := rng.NormFloat64()
			straight[i] = 100*x[i] + 10*noise
			bent[i] = 100*max(0, x[i]-x[bend]) + 5*noise
		}
		if got := onset(x, straight); got != 0 {
			t.Fatalf("a straight line bends at %d: %.0f", got, straight)
		}
		if got := onset(x, bent); got < bend-1 || got > bend+1 {
			t.Fatalf("bent at %d, found %d: %.0f", bend, got, bent)
		}
	}
}

// TestExactRatio checks that every rule from 4 per operation to 1 in 100, at every phase and round size, is found
// exactly or, if too little leaked, not claimed, and that no other rule is claimed.
func TestExactRatio(t *testing.T) {
	for _, planted := range []ratio{{4, 1}, {2, 1}, {1, 1}, {1, 2}, {1, 7}, {1, 10}, {1, 50}, {1, 100}} {
		for _, size := range []int{10, 20, 33, 1000} {
			for phase := 0; phase < planted.operations; phase += 1 + planted.operations/7 {
				x, y := make([]float64, 11), make([]float64, 11)
				for i := range x {
					x[i] = float64(i * size)
					y[i] = float64((i*size + phase) / planted.operations * planted.count)
				}
				got, ok := exactRatio(x, y)
				leaked := 10 * size * planted.count / planted.operations
				if ok && got != planted || !ok && leaked > 2*planted.operations {
					t.Errorf("planted %v, rounds of %d, phase %d: %v, %v of %v", planted, size, phase, got, ok, y)
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(4, 4))
	claimed := 0
	for range 1000 { // half of the operations leak, by chance: no rule
		x, y, sum := make([]float64, 9), make([]float64, 9), 0.0
		for i := range x {
			x[i], y[i] = float64(i*50), sum
			for range 50 {
				sum += float64(rng.IntN(2))
			}
		}
		if _, ok := exactRatio(x, y); ok {
			claimed++
		}
	}
	if claimed > 0 {
		t.Errorf("a rule is claimed for %d of 1000 series that follow none", claimed)
	}
	for name, y := range map[string][]float64{
		"nothing":          {5, 5, 5, 5},
		"falling":          {9, 6, 3, 0},
		"one in too many":  {0, 0, 0, 1},
		"enormous":         {0, 1e18, 2e18, 3e18},
		"not proportional": {0, 10, 30, 60},
		"a single point":   {3},
	} {
		if got, ok := exactRatio(seq(len(y)), y); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLull(t *testing.T) {
	for _, tt := range []struct {
		name       string
		y          []float64
		since, gap float64
	}{
		{"never rose", []float64{3, 3, 2, 2}, 0, 0},
		{"rose once, without a gap to compare with", []float64{0, 0, 9, 9, 9}, 2, 0},
		{"every other round", []float64{0, 1, 1, 2, 2, 3, 3}, 1, 2},
		{"the longest gap counts", []float64{0, 1, 2, 2, 2, 3, 3}, 1, 3},
		{"noise does not rise", []float64{0, 1000, 1001, 2000, 2001, 2000, 2002}, 3, 2},
		{"a point", []float64{1}, 0, 0},
		{"none", nil, 0, 0},
	} {
		if since, gap := lull(seq(len(tt.y)), tt.y); since != tt.since || gap != tt.gap {
			t.Errorf("%s: %v and %v, want %v and %v", tt.name, since, gap, tt.since, tt.gap)
		}
	}
}

// TestRhythm checks that growth by the operation, the round and the minute are distinguished, with noise, if rounds
// have different sizes and lengths; otherwise nothing is claimed.
func TestRhythm(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	sizes := []float64{20, 40, 20, 60, 20, 40, 20, 60}
	lengths := []float64{9, 4, 7, 5, 8, 3, 6, 9}
	for _, tt := range []struct {
		name  string
		step  func(i int) float64
		alike bool
		want  string
	}{
		{"operation", func(i int) float64 { return sizes[i] }, false, "operation"},
		{"round", func(int) float64 { return 30 }, false, "round"},
		{"minute", func(i int) float64 { return 6 * lengths[i] }, false, "minute"},
		{"rounds that are alike", func(int) float64 { return 30 }, true, ""},
		{"neither", func(int) float64 { return 60 * rng.Float64() }, false, ""},
	} {
		for range 100 {
			y, ops, rounds, seconds := []float64{0}, []float64{0}, []float64{0}, []float64{0}
			for i := range sizes {
				size, length := sizes[i], lengths[i]
				if tt.alike {
					size, length = 20, 5
				}
				y = append(y, y[i]+tt.step(i)+rng.NormFloat64())
				ops, rounds, seconds = append(ops, ops[i]+size), append(rounds, rounds[i]+1), append(seconds, seconds[i]+length)
			}
			if got := rhythm(y, ops, rounds, seconds); got != tt.want {
				t.Fatalf("%s: %q: %.0f", tt.name, got, y)
			}
		}
	}
	for name, y := range map[string][]float64{"nothing": nil, "too few": {0, 20, 60}} {
		if got := rhythm(y, []float64{0, 20, 60}, []float64{0, 1, 2}, []float64{0, 1, 2}); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestShapesAreInvariant checks that the three are finite for any values and independent of scale and height.
func TestShapesAreInvariant(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 500 {
		n := rng.IntN(15)
		x, y, z := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			if i > 0 {
				x[i] = x[i-1] + float64(rng.IntN(3)*10)
			}
			y[i] = float64(rng.IntN(6))
			z[i] = 1024*y[i] + 1<<20
		}
		if a, b := onset(x, y), onset(x, z); a != b {
			t.Fatalf("%v over %v: onset %d, scaled %d", y, x, a, b)
		}
		s1, g1 := lull(x, y)
		s2, g2 := lull(x, z)
		if s1 != s2 || g1 != g2 || s1 < 0 || g1 < 0 || math.IsNaN(s1+g1) {
			t.Fatalf("%v over %v: lull %v %v, scaled %v %v", y, x, s1, g1, s2, g2)
		}
	}
}

func seq(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}
