package checks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/stats"
)

// Parameters of the rule without a bound. None is a size of growth; docs/decisions/0019 has the reasons.
const (
	// Windows, as fractions of all operations. Rounds that grow geometrically put enough points into each.
	recentShare = 2  // last half: decides clean
	steadyShare = 8  // since the first eighth: the shape of the growth
	trendShare  = 64 // since the first 64th: the trend, without the start

	// Shape of a leak.
	minKeptPace    = 0.5     // late rate over early rate, lower end of the interval
	fullPace       = 0.9     // late rate over early rate, upper end of the interval
	paceError      = 2       // half width of the interval, in standard errors
	maxCrooked     = 0.125   // distance from a straight line, over the growth in the steady window
	veryStraight   = 1. / 30 // distance below which no more is asked of the shape
	multiplied     = 3       // growth in the steady window over growth in the window before it
	maxBackground  = 0.5     // growth without load over all growth
	earlierRounds  = 2       // rounds before the last after which growth had the same shape
	lastMemoryPace = 0.8     // rate of the last quarter over the rate of the steady window, for memory
	maxDrained     = 0.05    // loss while idling over all growth

	// Noise: standard deviations of the scatter that a change may reach by chance, at a look and at the last one.
	noiseFactor, lastNoiseFactor = 4.5, 6.
	unitsOfChance                = 2. // goroutines, descriptors and threads that are transient
	chanceEvents                 = 3. // rule of three: 3 expected events are missed with a probability of 5 %
	fallenRate                   = 0.01

	// Lingering growth, and what the runtime keeps of an ended goroutine.
	minLingering                                               = 10.
	bytesPerGoroutine, objectsPerGoroutine, coarsePerGoroutine = 1024., 2, 256

	// Floors that are low enough to decide clean early.
	floorBytes, floorObjects, floorUnits = 8, 0.1, 0.002

	// Entries that the largest plausible cache, pool or ring holds, and how many a leak must exceed early in the
	// time budget and later on.
	largestPool   = 5000
	manyEntries   = 4 * largestPool
	enoughEntries = 6 * largestPool / 5
	// Slow loads need fewer entries: a pool that adds a worker in every one of 1,000 sequential operations, and
	// reuses none, is implausible.
	slowUnits, fewUnits, exactUnits = 1000, 300, 50
	// A pool may also add a worker or connection now and then under any load, up to a limit such as the 100 idle
	// connections of net/http.
	sparePool = 100
	slowShare = 1. / 3 // of the time budget
	// Fewer than leastOperations show nothing, unless they took leastLoaded of the time.
	leastOperations, leastLoaded = 20, 1. / 2
	objectsPerEntry              = 16
	// A cache that more than half of the operations hit is not considered. Fewer new objects per operation than
	// inlineObjects are noise.
	fewestEntries, inlineObjects = 0.5, 0.02
	largestBytes                 = 256 << 20
)

// madOfNormal is the standard deviation of a normal distribution over its median absolute deviation.
const madOfNormal = 1.4826

// counted reports whether the unit counts resources: goroutines, descriptors or threads.
func counted(unit string) bool { return unit != "bytes" && unit != "objects" }

// sustained holds the statistics of a series that the rule without a bound compares.
type sustained struct {
	s series
	// recent, steady and longer are the windows since 1/2, 1/8 and 1/64 of the operations.
	recent, steady, longer series
	// scatter and rough estimate the standard deviation of one measurement: robustly, and by the mean square.
	scatter, rough float64
	// chance is the largest change that chance explains, returned the largest fall that was observed, control the
	// largest change over a round without load.
	chance, returned, control float64
	// operations and gain are those of the recent window.
	operations, gain  float64
	early, late       float64 // rates
	earlyErr, lateErr float64
	lastRate          float64
	rate              float64 // of the steady window
	entries, needed   float64
	// quiet is the standard deviation of a measurement without load.
	quiet float64
	// backlog, doubled and fades name growth with another curve than a straight line (curve.go).
	backlog, doubled, fades bool
}

// judgeSustained decides without a bound: leaking, clean or inconclusive. It asks whether growth continues while the
// operations multiply, not how large it is. Rounds should grow geometrically (spec.for), since every window is a
// fraction of all operations.
//
// Leaking, if the growth is
//
//   - significant: Mann–Kendall over all measurements, or over those since the first 64th of the operations, within
//     the check's share of the false-alarm budget;
//   - above the noise floor: more, over the last half of the operations, than the scatter of the rounds, the control
//     rounds and the largest fall leave to chance;
//   - steady: the late rate is certainly more than half of the early one, and possibly nine tenths of it, and the
//     last rounds keep up. A cache that fills at random slows down; one that fills at a constant rate stops;
//   - kept after idling, by the same goroutines if they are known, and not due to time alone;
//   - long enough for a cache, pool or ring to have filled.
//
// Clean, if the last half of the operations added no more than chance explains, and earlier growth stopped long
// enough ago. The floor, the smallest leak that would have been detected, is part of the verdict. Clean needs a low
// floor, or the number of operations that a leak needs.
func judgeSustained(f *leak.Finding, s series, e evidence) {
	switch _, n := s.net(); {
	case n <= 0:
		f.Summary = "no operations were attempted"
		return
	case len(s.points) < 3:
		f.Summary = "only one round was measured in the time budget; it has to be larger"
		return
	}
	u := newSustained(s, e, f)
	f.Floor = u.floor()
	if u.lingered(f) {
		return
	}
	gates := u.gates(e, f)
	for _, g := range gates {
		f.Gates = append(f.Gates, g.recorded())
	}
	outcome, stopped := decide(gates, gateRecent)
	f.Outcome = outcome
	switch outcome {
	case leak.Leaking:
		onset := s.onset()
		f.Onset = s.points[onset].Round
		late := s.tail(len(s.points) - onset)
		measured := late
		if !u.doubled && len(u.steady.points) < len(late.points) {
			measured = u.steady // without caches and pools that fill first
		}
		if line, ok := measured.fit(); ok {
			f.PerOperation, f.Low, f.High = line.Slope, line.Low, line.High
		}
		f.Exactly, f.Rhythm = late.exactly(), late.rhythm()
		f.Summary = u.leakingText(f)
	case leak.Clean:
		before, _ := s.net()
		f.PerOperation = u.gain / u.operations
		if line, ok := u.recent.fit(); ok && !u.backlog {
			f.PerOperation, f.Low, f.High = line.Slope, line.Low, line.High
		}
		if math.Abs(f.PerOperation) <= f.Floor {
			f.PerOperation = 0 // it cannot be told from nothing
		}
		f.Summary = headline(f)
		switch {
		case u.backlog:
			f.Summary += fmt.Sprintf(": the %s follow the largest round, not the operations", display.Delta(before, f.Unit))
		case u.fades && u.gain > u.chance:
			last, _ := s.fading()
			f.Summary += fmt.Sprintf(": it grows more slowly with every doubling of the operations, by %s over the last", display.Delta(last, f.Unit))
		case before > 2*u.chance:
			f.Summary += fmt.Sprintf(": the %s before have stopped", display.Delta(before, f.Unit))
		}
		f.Summary += fmt.Sprintf(undetected, per(f.Floor, f.Unit))
	default:
		f.Summary = fmt.Sprintf("%s%s, but %s", headline(f), blockedAt(f), stopped.stop)
	}
}

const (
	gateRecent = "recent growth"
	undetected = "; a leak below %s would not have been detected"
)

// flat reports whether a finding says only that nothing grows, above its floor.
func flat(f *leak.Finding) bool {
	return f.Outcome == leak.Clean && f.Unbounded && f.PerOperation == 0 &&
		f.Summary == headline(f)+fmt.Sprintf(undetected, per(f.Floor, f.Unit))
}

// lingered decides clean if nearly all growth went away while idling, and reports whether it did. The summary says
// for how long the growth lingered.
func (u *sustained) lingered(f *leak.Finding) bool {
	s := u.s
	gain, n := s.net()
	few := max(u.control, s.coarse, gain/50)
	switch {
	case counted(s.unit):
		few = max(few, unitsOfChance)
	case s.unit == "objects":
		few += objectsPerGoroutine * s.ended
	default: // the runtime keeps what describes a goroutine, and the kernel its stack
		few += max(bytesPerGoroutine, s.coarse/coarsePerGoroutine) * s.ended
	}
	if s.idle == nil || gain < max(4*few, minLingering) && s.ended < minLingering || gain <= min(u.chance, few) || s.first().Unsettled {
		return false // or nothing grew that could linger
	}
	left := s.idle.Value - s.first().Value
	g := compare("gone after idling", left, "≤", few, s.unit, "growth that is still there after idling: where next to nothing is, it lingered and did not leak; clean needs no more")
	if !g.Holds {
		return false
	}
	f.Gates, f.Outcome = append(f.Gates, bounded(g)), leak.Clean
	f.Floor = few / n
	if counted(s.unit) {
		f.Floor = (few + chanceEvents) / n
	}
	f.PerOperation, f.Low, f.High = 0, 0, 0
	f.Summary = fmt.Sprintf("%s: %s linger for up to %.0f s and then go away; a leak below %s would not have been detected",
		headline(f), per(max(u.longer.rate(), u.early), f.Unit), math.Ceil((s.idled+s.settled)/5)*5, per(f.Floor, f.Unit))
	return true
}

// timed reports whether a timer may end the growth: goroutines in a wait state with a timeout, and resources that
// such goroutines may hold.
func (u *sustained) timed(f *leak.Finding) bool {
	if u.s.unit != "goroutines" {
		return u.s.goroutines > minLingering || u.s.unit == "descriptors"
	}
	return len(f.Stacks) == 0 || !slices.Contains(forever, f.Stacks[0].Stack.State)
}

// Idle workers of a pool do not have stuckStates. No timer ends the states in forever.
var (
	stuckStates = []string{"chan send", "chan send (nil chan)", "chan receive (nil chan)", "select (no cases)", "sync.Mutex.Lock", "sync.RWMutex.Lock", "sync.RWMutex.RLock", "sync.WaitGroup.Wait"}
	forever     = append(slices.Clip(stuckStates), "sync.Cond.Wait", "semacquire")
)

func newSustained(s series, e evidence, f *leak.Finding) *sustained {
	n := s.axis()
	total := n[len(n)-1]
	u := &sustained{
		s: s, recent: s.since(total / recentShare), steady: s.since(total / steadyShare), longer: s.since(total / trendShare),
	}
	u.scatter, u.rough = s.scatter()
	factor := noiseFactor
	if e.Spent >= 1 { // no later look makes up for a scatter that was underestimated
		factor = lastNoiseFactor
	}
	squares := 0.0
	for i := 1; i < len(s.control.values); i++ {
		step := math.Abs(s.control.values[i] - s.control.values[i-1])
		u.control = max(u.control, step)
		squares += step * step / 2 / float64(len(s.control.values)-1)
	}
	u.quiet = math.Sqrt(squares)
	u.returned = max(u.control, stats.MaxDrawdown(u.longer.values()))
	switch {
	case counted(s.unit):
		if !u.longer.flat() {
			u.returned = max(u.returned, unitsOfChance)
		}
		u.rough = max(u.rough, 0.5)
	default:
		u.returned = max(u.returned, s.coarse, s.unseen)
	}
	all, _ := s.net()
	u.chance = max(factor*u.scatter, u.returned, fallenRate*all)
	u.gain, u.operations = u.recent.net()
	if line, ok := u.recent.fit(); ok {
		u.gain = max(u.gain, line.Slope*u.operations) // one odd point at either end hides no growth
	}
	u.rate = u.steady.rate()
	middle := u.steady.at(total / 2)
	early, late := u.steady, u.steady
	early.points, late.points = u.steady.points[:middle+1], u.steady.points[middle:]
	u.early, u.earlyErr = early.rateWithError(u.rough)
	u.late, u.lateErr = late.rateWithError(u.rough)
	u.lastRate = u.steady.since(total * 3 / 4).rate()

	if !counted(s.unit) {
		u.bend(e, factor)
	}
	u.entries, u.needed = u.grownEntries(e), u.neededEntries(e, f)
	return u
}

// bend looks for curves that are neither flat nor straight.
func (u *sustained) bend(e evidence, factor float64) {
	off, ok := u.longer.byLargest(max(u.quiet, u.s.coarse))
	if ok {
		gain, operations, rounds := u.steady.repeats()
		all, _ := u.s.net()
		u.backlog, u.gain, u.operations = true, gain, operations
		u.scatter = madOfNormal * stats.Median(off)
		u.chance = max(factor*u.scatter*math.Sqrt(float64(rounds)/2), u.returned, fallenRate*all)
		return
	}
	if u.doubled = !u.straight() && u.s.doubling(max(u.quiet, u.s.coarse)); u.doubled {
		u.gain, u.operations = u.steady.net() // the last step may be older than half of the operations
		return
	}
	last, most := u.s.fading()
	u.fades = e.Spent >= 1 && most > 0 && last <= most
}

// crooked returns the largest distance of a point in the steady window from the line between its ends.
func (u *sustained) crooked() float64 {
	first, most := u.steady.first(), 0.0
	for _, p := range u.steady.points {
		line := first.Value + u.rate*float64(p.Operations-first.Operations)
		most = max(most, math.Abs(p.Value-line))
	}
	return most
}

// steadily reports whether the growth has the shape of a leak.
func (u *sustained) steadily() bool {
	gain, _ := u.steady.net()
	return u.doubled || gain > 0 && u.late-paceError*u.lateErr >= minKeptPace*(u.early+paceError*u.earlyErr) &&
		u.late+paceError*u.lateErr >= fullPace*(u.early-paceError*u.earlyErr) &&
		u.straight() && gain >= u.before()
}

// lastPace returns the share of the rate that the last quarter of the operations needs. A cache that fills in the last
// round slows that down; counts are too few for a narrow bound.
func (u *sustained) lastPace() float64 {
	if counted(u.s.unit) {
		return minLast
	}
	return lastMemoryPace
}

// straight reports whether the growth in the steady window follows a line.
func (u *sustained) straight() bool {
	gain, _ := u.steady.net()
	return u.crooked() <= maxCrooked*gain+paceError*u.scatter
}

// before returns the growth that the steady window needs, from the growth in the window before it; 0 if the growth
// is straight.
func (u *sustained) before() float64 {
	gain, _ := u.steady.net()
	if u.crooked() <= veryStraight*gain+paceError*u.quiet {
		return 0
	}
	all, _ := u.longer.net()
	return multiplied * (all - gain)
}

// at returns the index of the last point with at most that many operations, but never of the very last point.
func (s series) at(operations float64) int {
	i := 0
	for k, p := range s.points {
		if float64(p.Operations) <= operations {
			i = k
		}
	}
	return min(i, len(s.points)-2)
}

// since returns the series from that point on.
func (s series) since(operations float64) series { return s.tail(len(s.points) - s.at(operations)) }

// rateWithError returns the growth per operation between both ends and its standard error.
func (s series) rateWithError(scatter float64) (rate, err float64) {
	_, n := s.net()
	if n <= 0 {
		return 0, 0
	}
	return s.rate(), scatter * math.Sqrt2 / n
}

// scatter estimates the standard deviation of one measurement from the distance of each point to the line between
// its neighbours: robustly by the median, which a knee does not change, and by the mean square since the first
// 64th of the operations.
func (s series) scatter() (robust, rough float64) {
	var all []float64
	x, y := s.axis(), s.values()
	from, squares, n := s.at(x[len(x)-1]/trendShare), 0.0, 0
	for i := 1; i < len(x)-1; i++ {
		if x[i+1] <= x[i-1] {
			continue
		}
		w := (x[i] - x[i-1]) / (x[i+1] - x[i-1])
		off := (y[i] - (1-w)*y[i-1] - w*y[i+1]) / math.Sqrt(1+w*w+(1-w)*(1-w))
		all = append(all, math.Abs(off))
		if i > from {
			squares, n = squares+off*off, n+1
		}
	}
	for i := 1; i < len(s.control.values); i++ {
		all = append(all, math.Abs(s.control.values[i]-s.control.values[i-1])/math.Sqrt2)
	}
	if n > 0 {
		rough = math.Sqrt(squares / float64(n))
	}
	return madOfNormal * stats.Median(all), rough
}

// floor returns the growth per operation that chance would hide.
func (u *sustained) floor() float64 {
	chance := u.chance
	if counted(u.s.unit) {
		chance += chanceEvents
	}
	if u.fades {
		chance += max(u.gain, 0)
	}
	return chance / u.operations
}

// flat reports whether all values are equal.
func (s series) flat() bool {
	y := s.values()
	return slices.Max(y) == slices.Min(y)
}

// grownEntries returns how many entries a cache, pool or ring would hold by now: one per operation since the onset,
// fewer if the operations add fewer objects, or more if the series itself shows more. So 500 requests may be counted as 500 operations or as one. Heap objects
// count only at the end of a run with few operations, since one entry may have hundreds of objects.
func (u *sustained) grownEntries(e evidence) float64 {
	late := u.s.tail(len(u.s.points) - u.s.onset())
	gain, n := late.net()
	switch {
	case counted(u.s.unit):
		return max(n, gain)
	case gain >= largestBytes && e.Spent >= 1: // the runner does not make a program grow further
		return max(n, manyEntries)
	case e.Spent < 1 || e.For <= 0 || n >= slowUnits:
		return n * u.entriesPerOperation()
	}
	return max(n, u.s.objects/objectsPerEntry)
}

// entriesPerOperation estimates how many entries an operation adds to a cache, between fewestEntries and one: an entry
// has at least one object of the heap, unless entries are stored in one large object, which adds none.
func (u *sustained) entriesPerOperation() float64 {
	_, n := u.s.net()
	if perOperation := u.s.objects / n; perOperation >= inlineObjects {
		return min(max(perOperation, fewestEntries), 1)
	}
	return 1
}

// neededEntries returns how many entries rule out a cache, pool or ring that is still filling. Fewer are needed as
// the time budget runs out, but for memory never fewer than the largest plausible cache holds. Counts need the
// fewest: rounds that the user fixed are enough, and goroutines in a state that no idle worker has need few.
func (u *sustained) neededEntries(e evidence, f *leak.Finding) float64 {
	stuck := u.stuck(f)
	switch {
	case u.doubled: // a cache whose last half of the operations was flat looks the same
		return 2 * manyEntries
	case stuck && e.Spent < 1:
		return slowUnits
	case e.Spent < slowShare:
		return manyEntries
	case !counted(u.s.unit) || e.Spent < 1:
		return enoughEntries
	case e.For <= 0:
		return 0
	case u.s.exactly() != "" && (stuck || u.s.unit != "goroutines"):
		return exactUnits
	case u.s.exactly() == "" && u.s.unit == "goroutines" && !stuck:
		return slowUnits
	}
	return fewUnits
}

// stuck reports whether the growth is goroutines in a state that no idle worker has.
func (u *sustained) stuck(f *leak.Finding) bool {
	return u.s.unit == "goroutines" && len(f.Stacks) > 0 && slices.Contains(stuckStates, f.Stacks[0].Stack.State)
}

// grown returns the growth since it began.
func (u *sustained) grown() float64 {
	gain, _ := u.s.tail(len(u.s.points) - u.s.onset()).net()
	return gain
}

// target returns the floor that is low enough to decide clean early.
func target(unit string) float64 {
	switch unit {
	case "bytes":
		return floorBytes
	case "objects":
		return floorObjects
	}
	return floorUnits
}

// hardlyLoaded reports whether a time budget went into measuring on a busy machine, instead of operations. What few fast
// operations leave behind shows nothing. Slow operations may be few.
func (e evidence) hardlyLoaded(operations float64) bool {
	shots := e.Variant.Snapshots
	if e.For == 0 || operations >= leastOperations || len(shots) == 0 {
		return false
	}
	loaded := 0.0
	for i := range shots {
		for _, t := range shots[i].Load {
			loaded += t.Seconds
		}
	}
	return loaded < leastLoaded*shots[len(shots)-1].Time.Sub(shots[0].Time).Seconds()
}

func (u *sustained) gates(e evidence, f *leak.Finding) []gate {
	s, unit := u.s, u.s.unit
	p := min(s.trend(), u.longer.trend(), 0.5) * 2 // two windows
	gain, _ := u.steady.net()
	floor := u.floor()
	decidable := max(target(unit), 0)
	_, all := s.net()
	ripe := e.Spent >= 1 && !e.hardlyLoaded(all) || all >= manyEntries || e.Spent >= slowShare && all >= slowUnits
	if ripe || u.chance <= s.coarse && all >= slowUnits { // it cannot be finer than it is
		decidable = floor
	}
	more := u.more(e)
	gates := []gate{
		{
			compare("rounds", float64(s.loaded()), "≥", minRounds, "", "rounds with operations after the baseline; fewer show no trend"),
			holds, holds, fmt.Sprintf("a trend needs %d rounds with operations; %s", minRounds, more),
		},
		{settledGate("unsettled baseline", s.first()), holds, holds, "the baseline was still falling when the settle timeout ended, so it is too high; more warm-up (--warmup of observe, warmup.rounds of a scenario) lets it settle"},
		u.recentGate(e),
		{
			compare("floor", floor, "≤", decidable, unit, "the smallest leak per operation that would have been detected, against one that is low enough to stop early; clean needs it until the load has been multiplied as often as a leak needs"),
			holds, either, fmt.Sprintf("a leak below %s would not have been detected yet; %s", per(floor, unit), more),
		},
		{
			compare("trend", p, "≤", e.Alpha, "", "exact one-sided Mann–Kendall p-value over all measurements, the one after idling included, or over those since the first 64th of the operations, the smaller one twice, against this check's share of the false-alarm budget; leaking needs it"),
			either, holds, fmt.Sprintf("the trend is not sustained enough (p = %.2g, needed %.2g); %s", p, e.Alpha, more),
		},
		{
			compare("drawdown", stats.MaxDrawdown(u.steady.values()), "≤", maxFallen*gain, unit, "largest fall between two snapshots since the first eighth of the operations, against a quarter of the growth since; leaking needs it"),
			either, holds, "it rises and falls; " + more,
		},
		{
			compare("entries", u.entries, "≥", u.needed, "", "entries that a cache, pool or ring would have received since the growth began, one per operation, or more if the growth shows more, against the largest plausible one; leaking needs it"),
			either, holds, u.filling(e),
		},
	}
	if counted(unit) && e.For > 0 && !u.stuck(f) {
		grown := u.grown()
		gates = append(gates, gate{
			compare("grown", grown, "≥", sparePool, unit, "growth since it began, against the size of a pool that adds a worker or connection now and then: goroutines in a state that no idle worker has need no more; leaking needs it"),
			either, holds, fmt.Sprintf("whether it goes on is open: a pool that adds one now and then may hold more than %s; %s", display.Value(grown, unit), more),
		})
	}
	gates = append(gates, u.shapeGates(e, f, gain, more)...)
	if s.idle != nil {
		kept := s.idle.Value - u.steady.first().Value
		gates = append(gates, gate{
			compare("left after idling", kept, "≥", minKept*gain, unit, "growth since the first eighth of the operations that is still there after the load has stopped for a while, against four fifths of it; leaking needs it"),
			either, holds, fmt.Sprintf("only %s of %s were left after idling, so it drains", display.Delta(max(kept, 0), unit), display.Delta(gain, unit)),
		})
	}
	if s.idle != nil {
		fallen := s.last().Value - s.idle.Value
		gates = append(gates, gate{
			compare("fallen while idling", fallen, "≤", max(u.chance, gain*maxDrained), unit, "how much it fell while idling, against a twentieth of the growth since the first eighth of the operations; leaking needs it"),
			either, holds, fmt.Sprintf("%s went away in %.0f s of idling, so it drains; %s", display.Value(fallen, unit), s.idled, more),
		})
	}
	if s.idle != nil && e.For > 0 && u.timed(f) {
		age := s.seconds[len(s.seconds)-1] - s.seconds[0] + s.idled
		gates = append(gates, gate{
			compare("age", age, "≥", cmp.Or(e.Linger, leak.Linger).Seconds(), "", "seconds from the baseline to the measurement after idling: timeouts, usually 30 s, have expired by then; leaking needs it"),
			either, holds, fmt.Sprintf("it is %.0f s old, and a timeout may yet end it; %s", age, more),
		})
	}
	if alone, ok := u.background(); ok {
		gates = append(gates, gate{
			compare("by time alone", alone, "≤", maxBackground*gain, unit, "growth in the same time without load, the smaller estimate of the control rounds and of idling, against half of the growth; leaking needs it"),
			either, holds, fmt.Sprintf("it also grows without load: time alone explains %s of the %s", display.Delta(alone, unit), display.Delta(gain, unit)),
		})
	}
	if s.survived != nil {
		all, _ := s.net()
		gates = append(gates, gate{
			compare("survivors", *s.survived, "≥", minKept*all, unit, "goroutines, by their numbers, that appeared in a round and were still there in the last measurement, against four fifths of the growth: a backlog that turns over has none; leaking needs it"),
			either, holds, fmt.Sprintf("only %.0f of the goroutines that appeared in the rounds still exist: the others are new, so goroutines are transient", *s.survived),
		})
	}
	if since, gap := lullBeyond(s.axis(), s.values(), 2*u.returned); gap > 0 && !u.backlog && !u.fades {
		gates = append(gates, gate{
			compare("lull", since, "≥", ruleOfThree*gap, "", "operations since the last large rise, against three times the largest number between two rises; fewer do not show that the growth stopped; clean needs it"),
			holds, either, fmt.Sprintf("it grew in steps up to %.0f operations apart, and %.0f operations without a step do not show that it stopped; %s", gap, since, more),
		})
	}
	return append(gates, gate{settledGate("unsettled last round", s.last()), either, holds, "the last round was still falling when the settle timeout ended; " + more})
}

// recentGate distinguishes clean from leaking by the growth over the last half of the operations.
func (u *sustained) recentGate(e evidence) gate {
	unit := u.s.unit
	if u.fades && u.gain > u.chance {
		last, most := u.s.fading()
		return gate{
			compare(gateRecent, last, "≤", most, unit, "growth over the last half of the operations, against one and a half times the median of what the three doublings of the operations before added: a leak doubles each time; clean needs it"),
			holds, fails, u.filling(e),
		}
	}
	if u.backlog {
		return gate{
			compare(gateRecent, u.gain, "≤", u.chance, unit, "growth over the rounds since the first eighth of the operations that were no larger than one before, against what the scatter leaves to chance: the growth follows the largest round; within it, nothing grows by the operation"),
			holds, fails, u.filling(e),
		}
	}
	return gate{
		compare(gateRecent, u.gain, "≤", u.chance, unit, "growth over the last half of the operations, against what the scatter of the rounds, the control rounds and the largest fall leave to chance: within it, nothing grows; beyond it, something does"),
		holds, fails, u.filling(e),
	}
}

// shapeGates compare the shape of the growth with that of a leak: a straight line, or the steps of a map that makes
// room by doubling.
func (u *sustained) shapeGates(e evidence, f *leak.Finding, gain float64, more string) []gate {
	s, unit := u.s, u.s.unit
	if u.doubled {
		return nil // the curve is proportional to the operations over a 16th of them and more
	}
	gates := []gate{
		{
			compare("late rate, at least", u.late-paceError*u.lateErr, "≥", minKeptPace*(u.early+paceError*u.earlyErr), unit, "growth per operation over the last half of the operations less two standard errors, against half of that from an eighth to a half of them plus two: below, it may be slowing down; leaking needs it"),
			either, holds, u.slowing(more),
		},
		{
			compare("late rate, at most", u.late+paceError*u.lateErr, "≥", fullPace*(u.early-paceError*u.earlyErr), unit, "the same plus two standard errors, against nine tenths of the early rate less two: below, it is certainly slowing down; leaking needs it"),
			either, holds, u.slowing(more),
		},
		{
			compare("straightness", u.crooked(), "≤", maxCrooked*gain+paceError*u.scatter, unit, "how far growth since the first eighth of the operations lies off a straight line at most, against an eighth of it and two standard deviations of the scatter: what grows with the logarithm of the operations, such as the largest request so far, is off by a quarter; leaking needs it"),
			either, holds, "it does not grow by the operation; " + more,
		},
		{
			compare("multiplied", gain, "≥", u.before(), unit, "growth since the first eighth of the operations against three times that from a 64th to an eighth of them, which a leak exceeds eightfold and a logarithm does not; nothing is asked where it is straight within a thirtieth, as a leak after a cache has filled; leaking needs it"),
			either, holds, "it does not grow as the operations multiply; " + more,
		},
		{
			compare("last rounds", u.lastRate, "≥", u.lastPace()*u.rate, unit, "growth per operation over the last quarter of the operations, against two thirds (memory: four fifths) of the rate since the first eighth: below, it may just have stopped; leaking needs it"),
			either, holds, u.slowing(more),
		},
	}
	if e.For > 0 && len(s.points) > minRounds+earlierRounds {
		held, needed := 0.0, float64(earlierRounds)
		if counted(unit) {
			needed = 1 // few events; and no count follows the largest request
		}
		for before := s; held < needed; held++ {
			before.points, before.seconds = before.points[:len(before.points)-1], before.seconds[:len(before.seconds)-1]
			if !newSustained(before, e, f).steadily() {
				break
			}
		}
		gates = append(gates, gate{
			compare("rounds before", held, "≥", needed, "", "how many of the last rounds can be omitted while the rates, the straightness and the multiplication still hold; once may be chance; leaking needs it"),
			either, holds, "it has not been steady for long; " + more,
		})
	}
	return gates
}

// background returns the growth without load, extrapolated to the length of the steady window; false if nothing
// measured it. It is the smaller one of control rounds and idling, since both are short and chance is multiplied.
func (u *sustained) background() (float64, bool) {
	s, alone := u.s, math.Inf(1)
	took := u.steady.seconds[len(u.steady.seconds)-1] - u.steady.seconds[0]
	if n := len(s.control.values); n > 1 && s.control.seconds[n-1] > 0 {
		alone = (s.control.values[n-1] - s.control.values[0]) / s.control.seconds[n-1] * took
	}
	if s.idle != nil && s.idled > 0 {
		alone = min(alone, (s.idle.Value-s.last().Value)/s.idled*took)
	}
	return max(alone, 0), !math.IsInf(alone, 1)
}

// more returns the flag that adds operations.
func (u *sustained) more(e evidence) string {
	switch {
	case u.s.soak:
		return "a longer soak (--for) decides"
	case e.For > 0:
		return fmt.Sprintf("--for %s decides", u.longerFor(e))
	}
	return "--for 1m, instead of a fixed number of rounds, decides"
}

// longerFor returns a time budget that adds the missing entries, at least twice the one that was spent.
func (u *sustained) longerFor(e evidence) string {
	factor := 2.0
	if needed := min(u.needed, enoughEntries); u.entries > 0 && u.entries < needed {
		factor = max(factor, 1.5*needed/u.entries)
	}
	if grown := u.grown(); counted(u.s.unit) && grown > 0 {
		factor = max(factor, 1.5*sparePool/grown)
	}
	d := time.Duration(factor * float64(e.For))
	if d > 3*time.Minute {
		d = d.Round(time.Minute)
	}
	text := d.Round(10 * time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// filling returns the reason for growth that may still be a cache, pool or ring.
func (u *sustained) filling(e evidence) string {
	_, n := u.s.tail(len(u.s.points) - u.s.onset()).net()
	return fmt.Sprintf("whether it goes on is open: it grew over %s operations, and a cache, pool or ring would have to hold more than %s entries; %s",
		thousands(n), thousands(u.entries), u.more(e))
}

func (u *sustained) slowing(more string) string {
	return fmt.Sprintf("it is slowing down, from %s per operation to %s and %s in the last rounds; %s",
		display.Rate(u.early, u.s.unit), display.Rate(u.late, u.s.unit), display.Rate(u.lastRate, u.s.unit), more)
}

// leakingText is "heap.alloc +83 B per operation, sustained over 24,000 operations (p = 2.8e-07); at 100
// operations a second, 684 MiB a day".
func (u *sustained) leakingText(f *leak.Finding) string {
	_, n := u.s.net()
	text := fmt.Sprintf("%s%s, sustained over %s operations (p = %.2g); %s", headline(f), blockedAt(f), thousands(n), min(u.s.trend(), u.longer.trend()), aDay(f.PerOperation, f.Unit))
	if f.Exactly != "" {
		text += "; exactly " + f.Exactly
	}
	if f.Rhythm != "" && f.Rhythm != "operation" {
		text += "; it grows by the " + f.Rhythm + ", not by the operation"
	}
	if f.Onset > 0 {
		text += fmt.Sprintf("; since round %d", f.Onset+1)
	}
	if u.s.idle == nil {
		text += "; not measured again after idling"
	}
	return text
}

// aDay returns the growth of a day at 100 operations a second.
func aDay(perOperation float64, unit string) string {
	const operations = 100
	day := perOperation * operations * (24 * time.Hour).Seconds()
	amount := display.Value(day, unit)
	if unit != "bytes" {
		amount = thousands(day) + " " + unit
	}
	return fmt.Sprintf("at %d operations a second, %s a day", operations, amount)
}

// per formats a rate without its sign: "40 B per operation".
func per(rate float64, unit string) string {
	text := strings.TrimPrefix(display.Rate(rate, unit), "+")
	switch {
	case unit == "bytes" && rate < 1:
		text = "1 B"
	case unit != "bytes" && rate < 0.01:
		text = strconv.FormatFloat(rate, 'g', 2, 64)
	}
	if unit != "bytes" {
		text += " " + unit
	}
	return text + rateSuffix
}

// thousands formats a whole number with commas.
func thousands(v float64) string {
	if math.IsInf(v, 0) || math.Abs(v) >= 1e15 {
		return display.Value(v, "")
	}
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	var parts []string
	for len(digits) > 3 && digits[len(digits)-4] != '-' {
		parts = append(parts, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	slices.Reverse(parts)
	return strings.Join(append([]string{digits}, parts...), ",")
}
