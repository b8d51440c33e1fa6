package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

// permutations calls f with every order of y, equal values included as often as they occur.
func permutations(y []float64, f func([]float64)) {
	var rec func(int)
	rec = func(k int) {
		if k == len(y) {
			f(y)
			return
		}
		for i := k; i < len(y); i++ {
			y[k], y[i] = y[i], y[k]
			rec(k + 1)
			y[k], y[i] = y[i], y[k]
		}
	}
	rec(0)
}

func falls(y []float64) int {
	n := 0
	for i := range y {
		for j := i + 1; j < len(y); j++ {
			if y[i] > y[j] {
				n++
			}
		}
	}
	return n
}

// Every multiset of up to 7 values against plain enumeration of all its orders.
func TestMannKendallBruteForce(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for ties := range 1 << (n - 1) { // bit i: value i+1 equals value i
			y := make([]float64, n)
			for i := 1; i < n; i++ {
				y[i] = y[i-1] + float64(1-ties>>(i-1)&1)
			}
			counts := make([]int, n*n)
			total := 0
			permutations(slices.Clone(y), func(p []float64) { counts[falls(p)]++; total++ })
			d, sum := newInversions(tieSizes(y)), 0
			for k, c := range counts {
				sum += c
				if want := float64(sum) / float64(total); !near(d.atMost(k), want, 1e-12) {
					t.Fatalf("%v: P(inversions ≤ %d) = %v, enumeration says %v", y, k, d.atMost(k), want)
				}
			}
			rand.New(rand.NewPCG(1, uint64(ties))).Shuffle(n, func(i, j int) { y[i], y[j] = y[j], y[i] })
			if got, want := MannKendall(y), d.atMost(falls(y)); got != want {
				t.Fatalf("%v: p = %v, want %v", y, got, want)
			}
		}
	}
}

// P(S ≥ s) as printed in the tables of Kendall (1948) and of Hollander and Wolfe (table A.30).
func TestKendallTables(t *testing.T) {
	for _, tt := range []struct {
		n, s int
		p    float64
	}{
		{4, 6, .042},
		{5, 6, .117},
		{5, 8, .042},
		{6, 11, .028},
		{6, 13, .0083},
		{8, 16, .031},
		{8, 28, 1. / 40320},
		{10, 21, .036},
		{10, 25, .014},
	} {
		sizes := make([]int, tt.n)
		for i := range sizes {
			sizes[i] = 1
		}
		pairs := tt.n * (tt.n - 1) / 2
		got := newInversions(sizes).atMost((pairs - tt.s) / 2)
		if !near(got, tt.p, tt.p*0.04) { // two digits are printed
			t.Errorf("n=%d: P(S ≥ %d) = %v, the table has %v", tt.n, tt.s, got, tt.p)
		}
	}
}

// The cloud seeding data of Smith (1967), example 9.1 in Hollander and Wolfe: slope −0.056.
func TestTheilSenPublished(t *testing.T) {
	got, ok := TheilSen([]float64{1, 2, 3, 4, 5}, []float64{1.26, 1.27, 1.12, 1.16, 1.03})
	if !ok || !near(got.Slope, -0.056, 5e-4) {
		t.Errorf("slope %v, published −0.056", got.Slope)
	}
	// n = 5 cuts one slope of ten at neither end: P(inversions ≤ 0) = 1/120, P(≤ 1) = 5/120 > 2.5 %.
	if !near(got.Low, -0.15, 1e-9) || !near(got.High, 0.04, 1e-9) {
		t.Errorf("interval %v to %v, want −0.15 to 0.04", got.Low, got.High)
	}
}

func TestTheilSenTable(t *testing.T) {
	for _, tt := range []struct {
		name           string
		x, y           []float64
		slope, lo, hi  float64
		notCalculation bool
	}{
		{name: "an exact line has no width", x: []float64{0, 20, 40, 60}, y: []float64{5, 25, 45, 65}, slope: 1, lo: 1, hi: 1},
		{name: "one outlier in eight does not move it", x: seq(8), y: []float64{0, 1, 2, 900, 4, 5, 6, 7}, slope: 1, lo: 1, hi: 1},
		{name: "pairs with equal x are ignored", x: []float64{0, 0, 1}, y: []float64{1, 3, 4}, slope: 2, lo: 1, hi: 3},
		{name: "no two x differ", x: []float64{3, 3}, y: []float64{1, 2}, notCalculation: true},
		{name: "nothing at all", notCalculation: true},
	} {
		got, ok := TheilSen(tt.x, tt.y)
		if ok == tt.notCalculation || got.Slope != tt.slope {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
		if tt.name[:3] != "one" && (got.Low != tt.lo || got.High != tt.hi) {
			t.Errorf("%s: interval %+v", tt.name, got)
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

// The interval has to hold the true slope in 95 % of samples or more, at every number of points.
func TestTheilSenCoverage(t *testing.T) {
	const repeat = 2000
	rng := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{5, 8, 12, 30, 70} {
		hit := 0
		for range repeat {
			y := make([]float64, n)
			for i := range y {
				y[i] = 3*float64(i) + rng.NormFloat64()
			}
			if f, _ := TheilSen(seq(n), y); f.Low <= 3 && 3 <= f.High {
				hit++
			}
		}
		if share := float64(hit) / float64(repeat); share < 0.94 {
			t.Errorf("%d points: %.3f of the intervals hold the slope", n, share)
		}
	}
}

func TestStatisticsSymmetry(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		n := 2 + rng.IntN(20)
		x, y, minus, shifted := seq(n), make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range y {
			y[i] = float64(rng.IntN(12)) // ties on purpose
			minus[i], shifted[i] = -y[i], 4*y[i]+100
		}
		a, _ := TheilSen(x, y)
		b, _ := TheilSen(x, minus)
		if !near(a.Slope, -b.Slope, 1e-12) || !near(a.Low, -b.High, 1e-12) || !near(a.High, -b.Low, 1e-12) {
			t.Fatalf("%v: %+v mirrored is %+v", y, a, b)
		}
		if c, _ := TheilSen(x, shifted); !near(c.Slope, 4*a.Slope, 1e-9) {
			t.Fatalf("%v: slope %v scaled is %v", y, a.Slope, c.Slope)
		}
		if a.Low > a.Slope || a.Slope > a.High {
			t.Fatalf("%v: %+v is not in its own interval", y, a)
		}
		if MannKendall(y) != MannKendall(shifted) {
			t.Fatalf("%v: the trend depends on the scale", y)
		}
		// Rising and falling p overlap in the probability of the observed count itself, so exceed 1.
		reversed := slices.Clone(y)
		slices.Reverse(reversed)
		if MannKendall(y)+MannKendall(reversed) < 1-1e-12 {
			t.Fatalf("%v: p = %v, reversed %v", y, MannKendall(y), MannKendall(reversed))
		}
	}
}

// TestApproximationMeetsExact checks that the exact and the approximated p agree where the approximation takes over.
func TestApproximationMeetsExact(t *testing.T) {
	for name, sizes := range map[string][]int{
		"no ties":   slices.Repeat([]int{1}, MaxExact),
		"pairs":     slices.Repeat([]int{2}, MaxExact/2),
		"two steps": {20, 20, 20},
	} {
		exact := newInversions(sizes)
		normal := inversions{mean: exact.mean, sd: exact.sd}
		worst := 0.0
		for k := range exact.cdf {
			worst = max(worst, math.Abs(exact.atMost(k)-normal.atMost(k)))
			if p := exact.atMost(k); p < 1e-3 && normal.atMost(k) < p {
				t.Errorf("%s: the normal p of %d inversions, %v, is below the exact %v", name, k, normal.atMost(k), p)
			}
		}
		if worst > 2e-3 {
			t.Errorf("%s: they differ by %v", name, worst)
		}
		if q, r := exact.quantile(0.025), normal.quantile(0.025); q-r > 3 || r-q > 3 {
			t.Errorf("%s: quantiles %d and %d", name, q, r)
		}
	}
}

func TestInversionsSumToOne(t *testing.T) {
	for _, sizes := range [][]int{{1}, {60}, {30, 30}, slices.Repeat([]int{1}, 60), {7, 1, 1, 20, 3}} {
		d := newInversions(sizes)
		if last := d.cdf[len(d.cdf)-1]; !near(last, 1, 1e-9) {
			t.Errorf("%v sums to %v", sizes, last)
		}
	}
	// 1/60! is far below what a difference of large numbers would leave.
	if p := MannKendall(seq(60)); p <= 0 || !near(p*math.Gamma(61), 1, 1e-6) {
		t.Errorf("60 rising points: p·60! = %v", p*math.Gamma(61))
	}
	if p := MannKendall(make([]float64, 500)); p != 1 {
		t.Errorf("500 equal points: p = %v", p)
	}
	if p := MannKendall(seq(300)); p > 1e-30 {
		t.Errorf("300 rising points: p = %v", p)
	}
}

func TestMaxDrawdown(t *testing.T) {
	for _, tt := range []struct {
		y    []float64
		want float64
	}{
		{nil, 0},
		{[]float64{3}, 0},
		{[]float64{1, 2, 3}, 0},
		{[]float64{1, 5, 2, 6, 4}, 3}, // the first fall is the deeper one
		{[]float64{9, 1, 8, 0}, 9},    // over several points
	} {
		if got := MaxDrawdown(tt.y); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.y, got, tt.want)
		}
	}
}

func TestMedian(t *testing.T) {
	y := []float64{9, 1, 5, 3}
	if Median(nil) != 0 || Median(y[:1]) != 9 || Median(y[:3]) != 5 || Median(y) != 4 || y[0] != 9 {
		t.Error(Median(nil), Median(y[:1]), Median(y[:3]), Median(y), y)
	}
}
