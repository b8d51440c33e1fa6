package checks

import (
	"math"

	"github.com/leakrig/leakrig/stats"
)

// Parameters of the curves below.
const (
	minSteps       = 4       // rounds that are larger than all before
	minOthers      = 3       // rounds that are not
	overNoise      = 200     // growth by the largest round over the noise
	maxStepSpread  = 1.2     // largest over smallest growth per operation by which a round was larger
	offTheLargest  = 1. / 50 // distance from a line over the largest round, over the growth
	octaves        = 4       // doublings of the operations over which fading growth is compared
	maxLastOctave  = 1.8     // growth in the last octave over the median of the three before; 4 for a leak, 2 beside one large step
	doublingSpread = 2       // largest over smallest growth per operation since the baseline, for a map that doubles
	doublingShare  = 16      // since this part of the operations: the logarithm's spread is over 8
	minRepeated    = 1. / 8  // growth in rounds that are not larger than all before, over all growth
)

// largest returns the size of the largest round up to each point.
func (s series) largest() []float64 {
	largest := make([]float64, len(s.points))
	for i := 1; i < len(s.points); i++ {
		largest[i] = max(largest[i-1], float64(s.points[i].Operations-s.points[i-1].Operations))
	}
	return largest
}

// grown reports whether the round that ends at point i was larger than all before it.
func grown(largest []float64, i int) bool { return largest[i] > largest[i-1]*1.01 }

// repeats returns what the series gained in rounds that were no larger than one before, their operations, and their
// number.
func (s series) repeats() (gain, operations float64, rounds int) {
	largest := s.largest()
	for i := 1; i < len(s.points); i++ {
		if grown(largest, i) {
			continue
		}
		gain += s.points[i].Value - s.points[i-1].Value
		operations += float64(s.points[i].Operations - s.points[i-1].Operations)
		rounds++
	}
	return gain, operations, rounds
}

// byLargest reports whether the values follow the size of the largest round so far, and returns their distances from
// that line. A backlog grows with the round, and the runtime keeps the memory of the largest one. Growth by the
// operation continues in rounds of at most that size.
func (s series) byLargest(noise float64) (off []float64, ok bool) {
	gain, _ := s.net()
	_, _, others := s.repeats()
	if gain <= overNoise*noise || others < minOthers || !s.stepsByLargest(noise) {
		return nil, false
	}
	largest := s.largest()
	line, ok := stats.TheilSen(largest, s.values())
	if !ok || line.Slope <= 0 {
		return nil, false
	}
	for i, p := range s.points {
		off = append(off, p.Value-line.Slope*largest[i])
	}
	middle := stats.Median(off)
	for i := range off {
		off[i] = math.Abs(off[i] - middle)
		ok = ok && off[i] <= offTheLargest*gain+paceError*noise
	}
	return off, ok
}

// stepsByLargest reports whether the last rounds that were larger than all before added in proportion to how much
// larger they were. A map that doubled in just these rounds did not.
func (s series) stepsByLargest(noise float64) bool {
	largest := s.largest()
	low, high, steps := math.Inf(1), 0.0, 0
	for i := len(s.points) - 1; i > 0 && steps < minSteps; i-- {
		if !grown(largest, i) {
			continue
		}
		step, larger := s.points[i].Value-s.points[i-1].Value, largest[i]-largest[i-1]
		low, high = min(low, (step+paceError*noise)/larger), max(high, (step-paceError*noise)/larger)
		steps++
	}
	return steps == minSteps && high <= maxStepSpread*low
}

// value interpolates the series.
func (s series) value(operations float64) float64 {
	i := s.at(operations)
	a, b := s.points[i], s.points[i+1]
	if b.Operations == a.Operations {
		return b.Value
	}
	part := (operations - float64(a.Operations)) / float64(b.Operations-a.Operations)
	return a.Value + min(max(part, 0), 1)*(b.Value-a.Value)
}

// fading returns the growth over the last octave (the last half of the operations) and the most that fading growth
// may have there. A leak doubles with each octave. What grows with the logarithm of the operations, such as the
// largest request so far, grows by as much in each.
func (s series) fading() (last, most float64) {
	total := float64(s.last().Operations)
	var before []float64
	for k := octaves; k > 1; k-- {
		before = append(before, s.value(math.Ldexp(total, 1-k))-s.value(math.Ldexp(total, -k)))
	}
	return s.last().Value - s.value(total/2), maxLastOctave * stats.Median(before)
}

// doubling reports whether the series is proportional to the operations but for steps of up to a factor of two, as
// a map or slice that takes in an entry per operation and makes room by doubling. The growth must not be that of
// the largest round.
func (s series) doubling(noise float64) bool {
	total, base := float64(s.last().Operations), s.first().Value
	low, high := math.Inf(1), 0.0
	for _, p := range s.points {
		if n := float64(p.Operations); n >= total/doublingShare {
			low = min(low, (p.Value-base+noise)/n)
			high = max(high, (p.Value-base-noise)/n)
		}
	}
	gain, _ := s.net()
	repeated, _, _ := s.repeats()
	_, backlog := s.byLargest(noise)
	return low > 0 && high <= doublingSpread*low && repeated >= minRepeated*gain && !backlog && s.value(total/doublingShare)-base > 2*noise
}
