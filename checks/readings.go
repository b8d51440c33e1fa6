package checks

import (
	"cmp"
	"math"

	"github.com/leakrig/leakrig/leak"
)

// FalseAlarmBudget is the probability that a look at software in which nothing grows calls it leaking by chance, all its
// tests together.
const FalseAlarmBudget = falseAlarmBudget

const (
	// minRises is how often readings must reach a new height. A resource that is created once and kept, such as two more
	// members of a pool, is a perfect trend but not a leak.
	minRises = 5
	// MoreThanElsewhere is how many times a gain must be what others lose on the same stack.
	MoreThanElsewhere = 1.5
)

// FewestGained is the smallest number of goroutines that readings of a leak gain.
const FewestGained = max(minRises, ComeAndGo+1)

// Readings is a number that was read by the clock, from a process under the load that it has. There are no rounds, and
// nothing has settled.
type Readings struct {
	// Unit is what is counted, and Axis is what X counts: "hour" or "operation".
	Unit, Axis string
	X, Y       []float64
	// Grain is how much a reading varies by chance: one goroutine, or one sample of the heap. Estimated is set if the
	// readings are estimates from samples of a grain.
	Grain     float64
	Estimated bool
}

// Judge decides on growth above a bound per unit of the axis. It returns nil for clean. alpha is the share of these readings
// in the false-alarm budget, and alone the share that they would have if their process was the only one. elsewhere
// returns what others lost on the same stack.
//
// Readings leak if
//
//   - they gained more than [ComeAndGo], and their Theil–Sen slope exceeds the bound, over all points and at the lower
//     end of its 95 % interval;
//   - the trend is sustained: the exact one-sided Mann–Kendall p-value is within alpha;
//   - they reached a new height at least minRises times, and fell in between by at most a quarter of their growth,
//     without odd readings;
//   - they gained far more than the same stack lost elsewhere. Readings of long-lived goroutines are not exchangeable,
//     and the p-value is invalid: the number of workers fluctuates. Then it falls in some processes as it rises in
//     others. A leak has no such mirror image. Only many processes can show this;
//   - they have not slowed down: the last half has half the slope, and the last quarter two thirds, within the one
//     goroutine by which a count can be off.
//
// They are undecided if the trend is sustained and another condition fails, or if only the trend fails and would be
// sustained enough with a single process. Everything else is clean: many processes have thousands of fluctuating series,
// and ruling out growth in each would decide none.
//
// The finding's rates are per unit of the axis. Its first gate that is undecided prevented the decision.
func (r Readings) Judge(bound, alpha, alone float64, elsewhere func() float64) *leak.Finding {
	if len(r.Y) < minRounds+1 || r.Y[len(r.Y)-1]-r.Y[0] <= ComeAndGo*r.Grain || !rising(r.Y) {
		return nil
	}
	s := r.series()
	gain, _ := s.net()
	all, ok := s.fit()
	end, okTail := s.lastHalf().fit()
	if !ok || !okTail || all.Slope <= bound || end.Slope <= bound {
		return nil // it never grew that much, or it has stopped
	}
	p := s.trend()
	if p > max(alone, alpha) {
		return nil
	}
	gates := []leak.Gate{
		s.growthGate(all, bound),
		s.tailGate(end, bound),
		s.lowerGate(all, bound),
		s.trendGate(p, alpha),
		compare("rises", float64(rises(r.Y, r.Grain)), "≥", minRises, "", "how often it reached a new height; leaking needs it"),
		s.drawdownGate(),
		compare("elsewhere", gain, ">", MoreThanElsewhere*elsewhere(), s.unit, "growth, against one and a half times the steady loss of the same stack in other targets (the 99th percentile); leaking needs it"),
		s.saturationGate(all, end),
		s.lastGate(all),
	}
	f := leak.Finding{
		Outcome: leak.Leaking, Unit: r.Unit, Bound: bound, PerOperation: all.Slope, Low: all.Low, High: all.High,
	}
	steady := true
	for _, g := range gates {
		need := holds
		if g.Name == gateTail {
			need = fails
		}
		recorded := gate{Gate: g, clean: excluded, leaking: need}.recorded()
		f.Gates = append(f.Gates, recorded)
		if recorded.Supports == leak.Undecides {
			f.Outcome = leak.Inconclusive
			steady = steady && g.Name == gateTrend
		}
	}
	if p > alpha && !steady {
		return nil // neither
	}
	return &f
}

func (r Readings) series() series {
	s := series{unit: r.Unit, per: r.Axis, along: r.X, grain: r.Grain, estimated: r.Estimated, points: make([]leak.Point, len(r.Y))}
	for i, y := range r.Y {
		s.points[i] = leak.Point{Round: i, Value: y}
	}
	return s
}

// SteadyLoss returns the loss of readings that fell as steadily as growth must rise to be considered. Rapidly fluctuating
// readings are lower at the end only by chance, which is not the mirror image of a leak.
func SteadyLoss(y []float64) float64 {
	lost := y[0] - y[len(y)-1]
	if lost <= 0 {
		return 0
	}
	mirrored := make([]float64, len(y))
	for i, v := range y {
		mirrored[i] = -v
	}
	if !rising(mirrored) {
		return 0
	}
	return lost
}

// rising is a cheap test that spares nearly all readings the exact one: Kendall's S over its deviation, which is never
// more significant in the tails.
func rising(y []float64) bool {
	s := 0
	sizes := map[float64]float64{} // how often each value occurs
	for i := range y {
		sizes[y[i]]++
		for _, later := range y[i+1:] {
			s += cmp.Compare(later, y[i])
		}
	}
	n, ties := float64(len(y)), 0.0
	for _, m := range sizes {
		ties += m * (m - 1) * (2*m + 5)
	}
	deviation := math.Sqrt((n*(n-1)*(2*n+5) - ties) / 18)
	return float64(s) > 1.64*deviation // 5 %; no share of the budget is near that
}

// rises counts how often y is higher than ever before, by at least half of what chance adds.
func rises(y []float64, grain float64) int {
	n, highest := 0, y[0]
	for _, v := range y {
		if v >= highest+grain/2 {
			n, highest = n+1, v
		}
	}
	return n
}
