package checks

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

const (
	// maxPoints bounds the pairs of points that are compared.
	maxPoints = 1000
	// maxValue is far over anything a probe reads and keeps every difference and slope finite.
	maxValue = 1e18
)

// evidence is leak.Evidence with ways to read it.
type evidence struct{ leak.Evidence }

// series is one number over the rounds, baseline first, or over time.
type series struct {
	name, unit string
	// along are the positions of the points on the axis, nil for their operations. per is the unit of the axis, "" for
	// operations.
	along []float64
	per   string
	// grain is how much one reading varies by chance, 0 for settled snapshots. estimated is set if values are estimates
	// from samples of a grain.
	grain     float64
	estimated bool
	// outside is the series whose memory this one does not include.
	outside string
	points  []leak.Point
	idle    *leak.Point
	// idled is how many seconds after the last point that was taken, and settled how long the last point had settled
	// since the load.
	idled, settled float64
	// objects is the growth of heap objects, if a probe counts them.
	objects float64
	// goroutines is how many came with the growth.
	goroutines float64
	// ended is how many of them were gone after idling.
	ended float64
	// coarse is how much the value changes without growth.
	coarse float64
	// signed is set if values can be below zero.
	signed bool
	// unseen is the growth that a sampled profile may not show.
	unseen float64
	// seconds are when the points were taken, since the first.
	seconds []float64
	// control are the points around the rounds without load.
	control struct{ seconds, values []float64 }
	// survived counts the goroutines that appeared in a round and still exist, nil if their numbers are unknown.
	survived *float64
	// soak is set if rounds come at fixed times: only a longer soak adds rounds.
	soak bool
}

// wholeRounds returns the baseline and the rounds after it, without a gap, up to the planned number. Rounds beyond
// the plan are not judged, because looks are fixed in advance. Rounds that were thinned out of a soak are not a gap:
// the next snapshot has their load.
func wholeRounds(v *leak.VariantRecord, planned int) []leak.Snapshot {
	n, next := 0, 0
	for n < len(v.Snapshots) && v.Snapshots[n].Round <= planned && v.Snapshots[n].First() == next && v.Snapshots[n].Merged >= 0 {
		next = v.Snapshots[n].Round + 1
		n++
	}
	return v.Snapshots[:n]
}

// lastRound returns the number of the last of these rounds, -1 for none.
func lastRound(shots []leak.Snapshot) int {
	if len(shots) == 0 {
		return -1
	}
	return shots[len(shots)-1].Round
}

// metricSeries reads probe.metric from every snapshot. A sample that is missing is an error.
func (e evidence) metricSeries(probe, metric string) (series, error) {
	if metric == "" {
		metric = e.defaultMetric(probe)
	}
	if metric == "" {
		return series{name: probe}, fmt.Errorf("the record has no default metric of the probe %s", probe)
	}
	s := series{name: probe + "." + metric}
	m := e.Metrics[s.name]
	s.unit, s.coarse, s.signed = m.Unit, m.Coarse, m.Signed
	s.outside = outside(s.name, e.Metrics[s.name])
	allowed, err := e.withoutAllowed(probe, metric)
	if err != nil {
		return s, err
	}
	s.objects = e.objects(probe)
	err = e.read(&s, func(shot *leak.Snapshot) (float64, error) {
		sample := shot.Sample(probe)
		if sample == nil {
			return 0, fmt.Errorf("no sample of the probe %s", probe)
		}
		v, ok := sample.Values[metric]
		if !ok {
			return 0, fmt.Errorf("the sample has no %s", s.name)
		}
		return max(v-allowed(shot), min(v, 0)), nil // what is sampled may be more than what is
	})
	return s, err
}

// objects returns the growth of heap objects from the baseline to the last round, as counted by the probe or, if it
// counts none, by another probe of the program; 0 if none does.
func (e evidence) objects(probe string) float64 {
	shots := wholeRounds(&e.Variant, e.Rounds)
	if len(shots) == 0 {
		return 0
	}
	first, last := &shots[0], &shots[len(shots)-1]
	for _, sample := range append([]leak.Sample{{Probe: probe}}, last.Samples...) {
		a, b := first.Sample(sample.Probe), last.Sample(sample.Probe)
		if a == nil || b == nil {
			continue
		}
		if after, ok := b.Values["objects"]; ok {
			return max(0, after-a.Values["objects"])
		}
	}
	return 0
}

// newGoroutines is how many goroutines, or descriptors, came from the baseline to the last round, and how many of
// them were gone after idling.
func (e evidence) newGoroutines(shots []leak.Snapshot) (came, ended float64) {
	if len(shots) == 0 {
		return 0, 0
	}
	for _, sample := range shots[len(shots)-1].Samples {
		for name, v := range sample.Values {
			base := shots[0].Sample(sample.Probe)
			unit := e.Metrics[sample.Probe+"."+name].Unit
			if base == nil || unit != "goroutines" && unit != "descriptors" {
				continue
			}
			came = max(came, v-base.Values[name])
			if e.Variant.Idle == nil {
				continue
			}
			if idle := e.Variant.Idle.Sample(sample.Probe); idle != nil {
				ended = max(ended, min(v-idle.Values[name], v-base.Values[name]))
			}
		}
	}
	return came, ended
}

// defaultMetric returns the default metric of a probe, "" if the record has none.
func (e evidence) defaultMetric(probe string) string {
	for key, m := range e.Metrics {
		if p, _, _ := strings.Cut(key, "."); p == probe && m.Default {
			return m.Name
		}
	}
	return ""
}

// read fills the points of s, in order, up to the first that cannot be read.
func (e evidence) read(s *series, value func(*leak.Snapshot) (float64, error)) error {
	shots := wholeRounds(&e.Variant, e.Rounds)
	s.goroutines, s.ended = e.newGoroutines(shots)
	s.soak = e.Variant.Soak != nil
	switch {
	case len(shots) == 0:
		return fmt.Errorf("no baseline was measured")
	case len(shots) > maxPoints:
		return fmt.Errorf("%d rounds are more than can be judged", len(shots)-1)
	}
	for i := range shots {
		p, err := s.point(&shots[i], value)
		if err != nil {
			return fmt.Errorf("%s: %w", roundName(shots[i].Round), err)
		}
		if i > 0 && p.Operations < s.points[i-1].Operations {
			return fmt.Errorf("%s: the operations went back to %d", roundName(shots[i].Round), p.Operations)
		}
		s.points = append(s.points, p)
		s.seconds = append(s.seconds, shots[i].Time.Sub(shots[0].Time).Seconds())
	}
	for i := range e.Variant.Control {
		shot := &e.Variant.Control[i]
		p, err := s.point(shot, value)
		if err != nil {
			return fmt.Errorf("control round %d: %w", i, err)
		}
		s.control.values = append(s.control.values, p.Value)
		s.control.seconds = append(s.control.seconds, shot.Time.Sub(e.Variant.Control[0].Time).Seconds())
	}
	if idle := e.Variant.Idle; idle != nil {
		p, err := s.point(idle, value)
		if err != nil {
			return fmt.Errorf("after idling: %w", err)
		}
		p.Idle = true
		s.idle = &p
		last := shots[len(shots)-1]
		s.idled, s.settled = idle.Time.Sub(last.Time).Seconds(), last.Settle.Seconds
	}
	return nil
}

func (s *series) point(shot *leak.Snapshot, value func(*leak.Snapshot) (float64, error)) (leak.Point, error) {
	v, err := value(shot)
	least := 0.0
	if s.signed {
		least = -maxValue
	}
	if err == nil && !(v >= least && v <= maxValue) { // NaN is neither
		err = fmt.Errorf("%v is not a value that a probe reads", v)
	}
	if err == nil && shot.Operations < 0 {
		err = fmt.Errorf("%d operations", shot.Operations)
	}
	return leak.Point{Round: shot.Round, Operations: shot.Operations, Value: v, Unsettled: !shot.Settle.Settled}, err
}

func roundName(i int) string {
	if i == 0 {
		return "baseline"
	}
	return fmt.Sprintf("round %d", i)
}

func (s series) first() leak.Point { return s.points[0] }
func (s series) last() leak.Point  { return s.points[len(s.points)-1] }

// rounds is how many rounds lie between the first and the last point: more than there are points where some
// were thinned out.
func (s series) rounds() int { return s.last().Round - s.first().Round }

// position returns the position of a point on the axis.
func (s series) position(i int) float64 {
	if s.along != nil {
		return s.along[i]
	}
	return float64(s.points[i].Operations)
}

// net is what the series gained, and over how many operations.
func (s series) net() (gain, operations float64) {
	return s.last().Value - s.first().Value, s.position(len(s.points)-1) - s.position(0)
}

// rate returns the net growth per operation, 0 without operations.
func (s series) rate() float64 {
	gain, operations := s.net()
	if operations <= 0 {
		return 0
	}
	return gain / operations
}

// loaded counts the rounds with operations; the others say nothing about growth.
func (s series) loaded() int {
	n := 0
	for i := 1; i < len(s.points); i++ {
		if s.points[i].Operations > s.points[i-1].Operations {
			n++
		}
	}
	return n
}

// tail is the last n points.
func (s series) tail(n int) series {
	from := max(len(s.points)-n, 0)
	s.points, s.seconds, s.along = s.points[from:], s.seconds[min(from, len(s.seconds)):], s.along[min(from, len(s.along)):]
	return s
}

func (s series) values() []float64 {
	y := make([]float64, len(s.points))
	for i, p := range s.points {
		y[i] = p.Value
	}
	return y
}

// axis returns the positions of the points: the operations attempted up to each, or the time.
func (s series) axis() []float64 {
	x := make([]float64, len(s.points))
	for i := range x {
		x[i] = s.position(i)
	}
	return x
}

// fit returns the Theil–Sen line over the axis, and false if all points are at the same position.
func (s series) fit() (stats.Line, bool) { return stats.TheilSen(s.axis(), s.values()) }

// trend is the p-value of the hypothesis that the series does not rise. The measurement after idling
// belongs to it.
func (s series) trend() float64 {
	y := s.values()
	if s.idle != nil {
		y = append(y, s.idle.Value)
	}
	return stats.MannKendall(y)
}

// background is what a series would have grown by without any load.
type background struct {
	// perOperation is the growth in the time that an operation took on average, most the upper end of its 95 % interval.
	perOperation, most float64
	perMinute          float64
}

// background returns the growth in control rounds; false if there were none, or no operations.
func (s series) background() (background, bool) {
	line, ok := stats.TheilSen(s.control.seconds, s.control.values)
	_, operations := s.net()
	if !ok || operations <= 0 {
		return background{}, false
	}
	each := s.seconds[len(s.seconds)-1] / operations
	return background{line.Slope * each, line.High * each, 60 * line.Slope}, true
}

// floor returns the growth per operation that fluctuations without load can explain: the largest change over a
// control round, divided by the operations of an average round.
func (s series) floor() float64 {
	largest := 0.0
	for i := 1; i < len(s.control.values); i++ {
		largest = max(largest, math.Abs(s.control.values[i]-s.control.values[i-1]))
	}
	_, operations := s.net()
	if operations <= 0 {
		return 0
	}
	return largest * float64(s.rounds()) / operations
}

// rhythm returns the unit of the growth: "operation", "round", "minute", or "" if they cannot be distinguished.
func (s series) rhythm() string {
	rounds := make([]float64, len(s.points))
	for i, p := range s.points {
		rounds[i] = float64(p.Round)
	}
	return rhythm(s.values(), s.axis(), rounds, s.seconds)
}

// onset is the round after which the series began to grow.
func (s series) onset() int { return onset(s.axis(), s.values()) }

// exactly is "2 per operation" or "1 in 10 operations" where the series follows that to the unit; "" where
// it does not, and for bytes, which come in the allocator's sizes.
func (s series) exactly() string {
	r, ok := exactRatio(s.axis(), s.values())
	switch {
	case !ok || s.unit == "bytes":
		return ""
	case r.operations == 1:
		return fmt.Sprintf("%d per operation", r.count)
	}
	return fmt.Sprintf("%d in %d operations", r.count, r.operations)
}

// allPoints is what a finding shows: the rounds and, marked, the measurement after idling.
func (s series) allPoints() []leak.Point {
	points := slices.Clone(s.points)
	if s.idle != nil {
		points = append(points, *s.idle)
	}
	return points
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
