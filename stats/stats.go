// Package stats holds the statistics that growth is judged and drawn by: pure functions over numbers, each
// with its source.
package stats

import (
	"math"
	"slices"
)

// Line is a slope, in units of y per unit of x, with the ends of its 95 % interval.
type Line struct{ Slope, Low, High float64 }

// TheilSen is the median of the slopes between all pairs of points. Up to 29 % of the points may be
// outliers before it is carried away. The interval inverts Kendall's test: it holds every slope that,
// when taken out of y, leaves no significant trend (two-sided, 5 %). Four points or fewer cannot reach
// 5 %; the interval is then the range of the slopes (92 % for four).
//
// P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968) 1379–1389.
//
// It is false where no two points differ in x.
func TheilSen(x, y []float64) (Line, bool) {
	var slopes []float64
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			if x[i] != x[j] {
				slopes = append(slopes, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	if len(slopes) == 0 {
		return Line{}, false
	}
	slices.Sort(slopes)
	last := len(slopes) - 1
	// A line steeper than fewer slopes than cut, or than more on the other side, leaves a significant trend.
	cut := min(max(newInversions(tieSizes(x)).quantile(0.025), 0), last/2)
	return Line{(slopes[last/2] + slopes[(last+1)/2]) / 2, slopes[cut], slopes[last-cut]}, true
}

// MannKendall is the one-sided p-value of the hypothesis that y does not rise: the share of all orders
// of the same values that have as few inversions as y, or fewer.
//
// H. B. Mann, Nonparametric tests against trend, Econometrica 13 (1945) 245–259.
func MannKendall(y []float64) float64 {
	falls := 0
	for i := range y {
		for _, later := range y[i+1:] {
			if y[i] > later {
				falls++
			}
		}
	}
	return newInversions(tieSizes(y)).atMost(falls)
}

// tieSizes counts how often each value occurs.
func tieSizes(y []float64) []int {
	sorted := slices.Sorted(slices.Values(y))
	var sizes []int
	for i, v := range sorted {
		if i == 0 || v != sorted[i-1] {
			sizes = append(sizes, 0)
		}
		sizes[len(sizes)-1]++
	}
	return sizes
}

// MaxExact is the number of points up to which the distribution is computed and not approximated. At
// that size the two differ by 1e-3 at most, and in the tails the normal one has the larger p: the
// takeover never makes a leak out of anything.
const MaxExact = 60

// inversions is the distribution of the number of inversions (pairs out of order) when the values of
// a multiset are put in random order.
type inversions struct {
	cdf []float64 // exact; nil where n > MaxExact
	// Mean and standard deviation, for the normal approximation.
	mean, sd float64
}

// newInversions takes how often each value occurs. The generating function is the q-multinomial coefficient, a
// product of Gaussian binomials (P. A. MacMahon, Combinatory Analysis, 1916): inserting m equal values into a row of
// t smaller ones produces the same number of inversions as a partition within a t×m box has cells. The variance with
// its correction for ties is from M. G. Kendall (Rank Correlation Methods, 1948).
func newInversions(sizes []int) inversions {
	n, pairs, variance := 0, 0, 0.0
	for _, m := range sizes {
		pairs += n * m
		n += m
		variance -= float64(m) * float64(m-1) * float64(2*m+5)
	}
	variance += float64(n) * float64(n-1) * float64(2*n+5)
	d := inversions{mean: float64(pairs) / 2, sd: math.Sqrt(variance / 72)}
	if n > MaxExact {
		return d
	}
	p, before := []float64{1}, 0
	for _, m := range sizes {
		p = convolve(p, gaussianBinomial(before, m))
		before += m
	}
	sum := 0.0
	for _, v := range p {
		sum += v
		d.cdf = append(d.cdf, sum)
	}
	return d
}

// atMost is P(inversions ≤ k).
func (d inversions) atMost(k int) float64 {
	switch {
	case k < 0:
		return 0
	case d.cdf != nil:
		return min(d.cdf[min(k, len(d.cdf)-1)], 1)
	case d.sd == 0:
		return 1
	}
	// Half an inversion is the continuity correction.
	return math.Erfc(-(float64(k)+0.5-d.mean)/d.sd/math.Sqrt2) / 2
}

// quantile is the largest k with P(inversions ≤ k) ≤ p, -1 where there is none.
func (d inversions) quantile(p float64) int {
	k := -1
	for k+1 <= int(2*d.mean) && d.atMost(k+1) <= p {
		k++
	}
	return k
}

// gaussianBinomial is the Gaussian binomial coefficient [a+b choose b] in q, divided by its value at
// q = 1: the distribution of the Mann–Whitney U of samples of a and b values. The recurrence
// [a+b, b] = [a+b−1, b−1] + q^b [a+b−1, b] adds only what is positive, so no digits are lost.
func gaussianBinomial(a, b int) []float64 {
	if b == 1 { // one value has each place among the others with the same chance
		uniform := make([]float64, a+1)
		for u := range uniform {
			uniform[u] = 1 / float64(a+1)
		}
		return uniform
	}
	row := make([][]float64, b+1) // row[j] is the distribution for i and j values
	for j := range row {
		row[j] = []float64{1}
	}
	for i := 1; i <= a; i++ {
		for j := 1; j <= b; j++ {
			next := make([]float64, i*j+1)
			for u, p := range row[j-1] {
				next[u] += p * float64(j) / float64(i+j)
			}
			for u, p := range row[j] {
				next[u+j] += p * float64(i) / float64(i+j)
			}
			row[j] = next
		}
	}
	return row[b]
}

func convolve(a, b []float64) []float64 {
	c := make([]float64, len(a)+len(b)-1)
	for i, p := range a {
		for j, q := range b {
			c[i+j] += p * q
		}
	}
	return c
}

// MaxDrawdown is the largest fall from any value to a later one, 0 where none falls.
//
// M. Magdon-Ismail, A. Atiya, Maximum drawdown, Risk 17 (2004) 99–102.
func MaxDrawdown(y []float64) float64 {
	worst, peak := 0.0, math.Inf(-1)
	for _, v := range y {
		peak = max(peak, v)
		worst = max(worst, peak-v)
	}
	return worst
}

// Median returns the middle of the sorted values, or the mean of the two in the middle; 0 for none. It does not
// change y.
func Median(y []float64) float64 {
	if len(y) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(y))
	last := len(sorted) - 1
	return (sorted[last/2] + sorted[(last+1)/2]) / 2
}
