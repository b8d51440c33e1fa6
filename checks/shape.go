package checks

import (
	"math"
	"slices"

	"github.com/leakrig/leakrig/stats"
)

// onset returns the index of the last point before y began to grow, 0 if it grew from the start, so that earlier
// rounds do not dilute a leak that starts in round 4. The points up to there are fitted by a level, later ones by a
// line. onset is the cut with the smallest residual, if that is at most half of the residual of a single line. It
// uses least absolute deviations, so that one odd round does not decide.
//
// D. M. Hawkins, Fitting multiple change-point models to data, Computational Statistics & Data Analysis 37 (2001)
// 323–341, for the segmented fit; the factor of a half is ours.
func onset(x, y []float64) int {
	const minFlat, minGrowing = 3, 4 // points; the cut itself belongs to both
	whole, ok := stats.TheilSen(x, y)
	if !ok {
		return 0
	}
	best, least := 0, deviation(x, y, whole.Slope)/2
	for cut := minFlat - 1; cut <= len(y)-minGrowing; cut++ {
		line, ok := stats.TheilSen(x[cut:], y[cut:])
		if !ok || line.Slope <= whole.Slope {
			continue
		}
		if left := deviation(x[:cut+1], y[:cut+1], 0) + deviation(x[cut:], y[cut:], line.Slope); left < least {
			best, least = cut, left
		}
	}
	return best
}

// deviation is what a line of that slope leaves of y, in absolute terms, at its best height.
func deviation(x, y []float64, slope float64) float64 {
	rest := make([]float64, len(y))
	for i := range y {
		rest[i] = y[i] - slope*x[i]
	}
	slices.Sort(rest)
	middle, sum := rest[len(rest)/2], 0.0
	for _, r := range rest {
		sum += math.Abs(r - middle)
	}
	return sum
}

// ratio is count per number of operations.
type ratio struct{ count, operations int }

// exactRatio finds k such that y grew by k in every operation, or by 1 in every k operations, exactly: such counts
// stay within 1 of each other around their line, for any phase. It returns false if several rules fit, because too
// few operations were seen, and if none does.
//
// Fuite (N. Lawson, 2021) distinguishes leaks from noise by growth in exact multiples of the load. Goroutine counts
// are exact, so nothing has to be estimated.
func exactRatio(x, y []float64) (ratio, bool) {
	low, high := 0.0, math.Inf(1)
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			if x[j] > x[i] {
				low = max(low, (y[j]-y[i]-1)/(x[j]-x[i]))
				high = min(high, (y[j]-y[i]+1)/(x[j]-x[i]))
			}
		}
	}
	const most = 1 << 30
	if low >= high || low <= 0 || high > most || low < 1./most {
		return ratio{}, false
	}
	// The whole numbers and the whole periods between the two, both ends excluded.
	many := ratio{int(math.Floor(low)) + 1, 1}
	last := ratio{int(math.Ceil(high)) - 1, 1}
	rare := ratio{1, int(math.Floor(1/high)) + 1}
	rarest := ratio{1, int(math.Ceil(1/low)) - 1}
	switch {
	case many == last && (rare.operations > rarest.operations || rare == many && rarest == many):
		return many, true
	case rare == rarest && many.count > last.count:
		return rare, true
	}
	return ratio{}, false
}

// lull measures the end of a series of steps: the x since its last rise, and the longest x between two earlier rises.
// Only rises of at least half the largest rise count, so noise does not. gap is 0 if there were fewer than two rises.
func lull(x, y []float64) (since, gap float64) { return lullBeyond(x, y, 0) }

// lullBeyond is lull with only rises that are larger than chance makes them.
func lullBeyond(x, y []float64, chance float64) (since, gap float64) {
	largest := 2 * chance
	for i := 1; i < len(y); i++ {
		largest = max(largest, y[i]-y[i-1])
	}
	last := -1
	for i := 1; i < len(y) && largest > 0; i++ {
		if y[i]-y[i-1] < largest/2 {
			continue
		}
		if last >= 0 {
			gap = max(gap, x[i]-x[last])
		}
		last = i
	}
	if last < 0 {
		return 0, 0
	}
	return x[len(x)-1] - x[last], gap
}

// rhythm returns what y grows with: operations, rounds of any size, or minutes. The residual of the answer is at most
// half of that of each other candidate. It returns "" if the rounds are too similar.
func rhythm(y, operations, rounds, seconds []float64) string {
	names := []string{"operation", "round", "minute"}
	left := make([]float64, len(names))
	for i := range names {
		steps := make([]float64, 0, len(y))
		weights := make([]float64, 0, len(y))
		for k := 1; k < len(y); k++ {
			weight := 0.0
			switch names[i] {
			case "operation":
				weight = operations[k] - operations[k-1]
			case "round":
				weight = rounds[k] - rounds[k-1]
			case "minute":
				weight = seconds[k] - seconds[k-1]
			}
			if weight <= 0 {
				return ""
			}
			steps, weights = append(steps, y[k]-y[k-1]), append(weights, weight)
		}
		left[i] = multiples(steps, weights)
	}
	for i, name := range names {
		best := len(y) > 4
		for k := range names {
			best = best && (k == i || left[i] < left[k]/2)
		}
		if best {
			return name
		}
	}
	return ""
}

// multiples is what the best multiple of the weights leaves of the steps, in absolute terms.
func multiples(steps, weights []float64) float64 {
	rates := make([]float64, len(steps))
	for i := range steps {
		rates[i] = steps[i] / weights[i]
	}
	slices.Sort(rates)
	rate, sum := 0.0, 0.0
	if len(rates) > 0 {
		rate = rates[len(rates)/2]
	}
	for i := range steps {
		sum += math.Abs(steps[i] - rate*weights[i])
	}
	return sum
}
