package stats

import (
	"math"
	"slices"
)

// Change is a point of a series from which on it has another level.
type Change struct {
	// At is the index of the first value of the new level.
	At int
	// Before and After are the medians of the values between the neighbouring changes.
	Before, After float64
	// P bounds the probability of such a change in a series with one level.
	P float64
}

const (
	// changeSegment is the least number of values of a level. One or two outliers are not a level.
	changeSegment = 3
	// changeAlpha is the largest P of a change. A series is tested again with every new value.
	changeAlpha = 5e-5
	// changeStep is the least change, as a share of the larger level. Nobody acts on a smaller one.
	changeStep = 0.02
	// changeLeast is the least noise, as a share of the level: series of exact numbers have none.
	changeLeast = 1e-3
	// changeClip limits residuals to this number of standard deviations, so that an outlier does not hide a change.
	changeClip = 3
)

// Changes returns the points at which the level of a series changes by at least least, with E-divisive means (Matteson
// and James, A nonparametric approach for multiple change point analysis, 2014): the point that separates a segment
// best by the energy distance of both sides splits it, as long as it is significant. A level that returns to the one
// before has no such point. The interval that differs most from the rest of its segment then splits it (circular binary
// segmentation; Olshen and others, 2004). As in Hunter (Fleming and others, 2023), a t-test replaces the permutation
// test, which cannot reach small probabilities three values after a change. The test clips outliers and corrects for the
// number of candidates.
func Changes(y []float64, least float64) []Change {
	var at []int
	p := map[int]float64{}
	todo := [][2]int{{0, len(y)}}
	for len(todo) > 0 {
		from, to := todo[0][0], todo[0][1]
		todo = todo[1:]
		for _, candidates := range [][]int{energySplit(y[from:to]), oddInterval(y[from:to])} {
			q := differ(y[from:to], candidates, least)
			if q > changeAlpha {
				continue
			}
			left := from
			for _, c := range candidates {
				at = append(at, from+c)
				p[from+c] = q
				todo = append(todo, [2]int{left, from + c})
				left = from + c
			}
			todo = append(todo, [2]int{left, to})
			break
		}
	}
	slices.Sort(at)
	var out []Change
	for i, a := range at {
		from, to := 0, len(y)
		if i > 0 {
			from = at[i-1]
		}
		if i+1 < len(at) {
			to = at[i+1]
		}
		out = append(out, Change{a, Median(y[from:a]), Median(y[a:to]), p[a]})
	}
	return out
}

// differ tests whether the values from the first split to the second, or to the end, have another level than the rest.
// It is 1 if the level differs by less than least, or if no split is given.
func differ(y []float64, splits []int, least float64) (p float64) {
	if len(splits) == 0 {
		return 1
	}
	n, end, tests := len(y), len(y), float64(len(y))
	if len(splits) == 2 {
		end, tests = splits[1], float64(n*n)/2
	}
	in, out := y[splits[0]:end], slices.Concat(y[:splits[0]], y[end:])
	level := [2]float64{Median(out), Median(in)}
	step := min(math.Abs(level[1]-level[0]), math.Abs(mean(in)-mean(out)))
	if step == 0 || step < max(least, changeStep*max(math.Abs(level[0]), math.Abs(level[1]))) {
		return 1
	}
	var residuals []float64
	for k, side := range [][]float64{out, in} {
		for _, v := range side {
			residuals = append(residuals, v-level[k])
			// All values of a short level are closer to it than to the other.
			if len(side) == changeSegment && math.Abs(v-level[k]) > math.Abs(v-level[1-k]) {
				return 1
			}
		}
	}
	noise := max(clippedDeviation(residuals, n-2), changeLeast*max(math.Abs(level[0]), math.Abs(level[1])))
	t := step / (noise * math.Sqrt(1/float64(len(in))+1/float64(len(out))))
	return min(1, studentTail(t, n-2)*tests)
}

// oddInterval returns the interval whose mean differs most from that of the other values, with at least changeSegment
// values inside, before and after; nil if there are too few.
func oddInterval(y []float64) []int {
	n := len(y)
	sums := make([]float64, n+1)
	for i, v := range y {
		sums[i+1] = sums[i] + v
	}
	var best []int
	most := -1.0
	for i := changeSegment; i <= n-2*changeSegment; i++ {
		for j := i + changeSegment; j <= n-changeSegment; j++ {
			in, out := float64(j-i), float64(n-j+i)
			inside := sums[j] - sums[i]
			if q := math.Abs(inside/in-(sums[n]-inside)/out) * math.Sqrt(in*out); q > most {
				best, most = []int{i, j}, q
			}
		}
	}
	return best
}

// energySplit returns the point with the largest energy distance between both sides, weighted by their sizes. Both have
// at least changeSegment values. It returns nil if there are too few.
func energySplit(y []float64) []int {
	n := len(y)
	if n < 2*changeSegment {
		return nil
	}
	// between is the sum of distances between both sides, within those inside of each.
	var between, left, right float64
	for i := range n {
		for k := range i {
			right += math.Abs(y[i] - y[k])
		}
	}
	best, most := changeSegment, math.Inf(-1)
	for at := 1; at <= n-changeSegment; at++ {
		// y[at-1] moves from the right side to the left.
		var toLeft, toRight float64
		for i, v := range y {
			if d := math.Abs(v - y[at-1]); i < at {
				toLeft += d
			} else {
				toRight += d
			}
		}
		between += toRight - toLeft
		left += toLeft
		right -= toRight
		if at < changeSegment {
			continue
		}
		a, b := float64(at), float64(n-at)
		q := a * b / (a + b) * (2*between/(a*b) - 2*left/(a*(a-1)) - 2*right/(b*(b-1)))
		if q > most {
			best, most = at, q
		}
	}
	return []int{best}
}

// clippedDeviation is the standard deviation of residuals with this number of degrees of freedom. It limits outliers
// to changeClip deviations by the median.
func clippedDeviation(residuals []float64, freedom int) float64 {
	sizes := make([]float64, len(residuals))
	for i, r := range residuals {
		sizes[i] = math.Abs(r)
	}
	limit := changeClip * 1.4826 * Median(sizes)
	sum := 0.0
	for _, r := range sizes {
		if limit > 0 {
			r = min(r, limit)
		}
		sum += r * r
	}
	return math.Sqrt(sum / float64(max(freedom, 1)))
}

func mean(y []float64) float64 {
	sum := 0.0
	for _, v := range y {
		sum += v
	}
	return sum / float64(max(len(y), 1))
}

// studentTail is the two-sided probability of a t statistic with n degrees of freedom (Abramowitz and Stegun 26.7.3
// and 26.7.4).
func studentTail(t float64, n int) float64 {
	angle := math.Atan(t / math.Sqrt(float64(n)))
	sin, cos := math.Sincos(angle)
	var sum float64
	if n%2 == 1 {
		term := cos
		for k := 1; k <= n-2; k += 2 {
			sum += term
			term *= cos * cos * float64(k+1) / float64(k+2)
		}
		return max(0, 1-2/math.Pi*(angle+sin*sum))
	}
	term := 1.0
	for k := 0; k <= n-2; k += 2 {
		sum += term
		term *= cos * cos * float64(k+1) / float64(k+2)
	}
	return max(0, 1-sin*sum)
}

// Detectable is the least change of the level of y that Changes finds three values later, without the noise of these
// three. It is the noise floor of the series, +Inf for fewer than changeSegment values.
func Detectable(y []float64, least float64) float64 {
	n := len(y) + changeSegment
	if len(y) < changeSegment {
		return math.Inf(1)
	}
	level := Median(y)
	residuals := make([]float64, len(y))
	for i, v := range y {
		residuals[i] = v - level
	}
	noise := max(clippedDeviation(residuals, len(y)-1), changeLeast*math.Abs(level))
	low, high := 0.0, 1e6
	for range 100 {
		t := (low + high) / 2
		if studentTail(t, n-2)*float64(n) > changeAlpha {
			low = t
		} else {
			high = t
		}
	}
	// The level itself may be the larger one.
	return max(high*noise*math.Sqrt(1/float64(changeSegment)+1/float64(len(y))), least, changeStep*math.Abs(level)/(1-changeStep))
}
