package checks

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// The gates of a trend above a bound. They are the same for rounds and for readings by the clock.

// Thresholds of these gates.
const (
	minRounds   = 5
	minTail     = 4       // points
	maxFallen   = 0.25    // of the net growth
	minSlowdown = 0.5     // tail against all points
	minLast     = 2. / 3. // last rounds against all points
)

// PointsNeeded returns how many points a perfect trend needs to be significant, at least one baseline and minRounds. Its
// p-value is 1/n! for n points.
func PointsNeeded(alpha float64) int {
	n := minRounds + 1
	for 1/math.Gamma(float64(n)+1) > alpha {
		n++
	}
	return n
}

// lastHalf returns the last half of the points, at least minTail.
func (s series) lastHalf() series { return s.tail(max(minTail, (len(s.points)+1)/2)) }

// lastQuarter returns the last quarter of the steps between points, at least two.
func (s series) lastQuarter() series { return s.tail(max(2, (len(s.points)+2)/4) + 1) }

// axisUnit is what a rate is per.
func (s series) axisUnit() string { return cmp.Or(s.per, "operation") }

// rateUnit is the unit of a gate on rates. Gates on growth per operation show it without the operation.
func (s series) rateUnit() string {
	if s.per == "" {
		return s.unit
	}
	return s.unit + " per " + s.per
}

func (s series) growthGate(all stats.Line, bound float64) leak.Gate {
	return compare("growth", all.Slope, ">", bound, s.rateUnit(),
		fmt.Sprintf("Theil–Sen slope per %s over all points; leaking needs it", s.axisUnit()))
}

func (s series) tailGate(end stats.Line, bound float64) leak.Gate {
	return compare(gateTail, end.Slope, "≤", bound, s.rateUnit(),
		fmt.Sprintf("Theil–Sen slope per %s over the last half of the points: within the bound, growth has stopped", s.axisUnit()))
}

// Gates that rules tell apart.
const (
	gateTail  = "tail growth"
	gateTrend = "trend"
)

func (s series) lowerGate(all stats.Line, bound float64) leak.Gate {
	return compare("lower limit", all.Low, ">", bound, s.rateUnit(),
		fmt.Sprintf("growth per %s that is certain: lower end of the 95 %% interval over all points; leaking needs it", s.axisUnit()))
}

func (s series) trendGate(p, alpha float64) leak.Gate {
	idle := ""
	if s.idle != nil {
		idle = ", the one after idling included"
	}
	return compare(gateTrend, p, "≤", alpha, "",
		fmt.Sprintf("exact one-sided Mann–Kendall p-value over all measurements%s, against its share of the false-alarm budget; leaking needs it", idle))
}

func (s series) drawdownGate() leak.Gate {
	gain, _ := s.net()
	limit, odd := maxFallen*gain, ""
	if s.grain > 0 {
		limit, odd = max(s.grain, limit), ", without single odd readings"
	}
	return compare("drawdown", stats.MaxDrawdown(s.smoothed().values()), "≤", limit, s.unit,
		fmt.Sprintf("largest fall between two points%s, against a quarter of the net growth; leaking needs it", odd))
}

func (s series) saturationGate(all, end stats.Line) leak.Gate {
	return compare("saturation", end.Slope, "≥", minSlowdown*all.Slope, s.rateUnit(),
		"slope of the last half of the points against half the slope of all points: below, growth is slowing down; leaking needs it")
}

func (s series) lastGate(all stats.Line) leak.Gate {
	name, points := "last rounds", "rounds"
	if s.grain > 0 {
		name, points = "last quarter", "points, and what a reading can be off by,"
	}
	last := s.smoothed().lastQuarter()
	rate := last.rate()
	if _, n := last.net(); n > 0 {
		rate += s.slack() / n
	}
	return compare(name, rate, "≥", minLast*all.Slope, s.rateUnit(),
		fmt.Sprintf("net growth per %s over the last quarter of the %s against two thirds of the slope of all points: below, it may just have stopped; leaking needs it", s.axisUnit(), points))
}

// slack is by how much the last value can be off: one goroutine, or the standard deviation of the number of samples.
func (s series) slack() float64 {
	if !s.estimated {
		return s.grain
	}
	return max(s.grain, math.Sqrt(s.last().Value*s.grain))
}

// smoothed returns readings with every point but the ends replaced by the median of itself and its neighbours. Settled
// snapshots stay as they are.
func (s series) smoothed() series {
	if s.grain == 0 {
		return s
	}
	y := s.values()
	s.points = slices.Clone(s.points)
	for i := 1; i < len(y)-1; i++ {
		s.points[i].Value = max(min(y[i-1], y[i]), min(max(y[i-1], y[i]), y[i+1]))
	}
	return s
}
