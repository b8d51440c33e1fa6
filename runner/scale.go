package runner

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// How rounds grow within a time budget.
const (
	// firstOperations are those of the first round, unless they take too long.
	firstOperations = 10
	// Every other round grows: short ones fourfold, longer ones 2.25-fold. Two rounds of the same size distinguish
	// growth by the operation from growth by the largest round, such as a backlog and the memory that the runtime
	// keeps for it.
	shortRound, shortFactor, longFactor = 200 * time.Millisecond, 4.0, 2.25
	// On a busy machine, the wanted rounds may not fit. Rounds then grow as long as all but one part in cheapLoad of
	// their time goes into measuring: few operations in few rounds would show nothing.
	cheapLoad = 4.0
	// wantedRounds should fit into the budget for any speed of the load: fewer show no trend.
	wantedRounds = 10
	// confirmAgain is how many rounds go by before a decision that idling did not confirm is tried again.
	confirmAgain = 3
	// warmOperations and warmTime end the warm-up, whichever comes first.
	warmOperations, warmTime = 20, time.Second
	controlTime              = 500 * time.Millisecond
	// Growth of at most fewUnits does not linger. Neither does growth of which only one in lingering is left.
	fewUnits, lingering = 5.0, 20
	lingerSlack         = 10 * time.Second
	// calmLooks is the number of measurements in a row without a decline that end the wait for lingering resources.
	calmLooks = 2
)

// bearable limits the growth of a program, by unit: leakrig must not exhaust the machine, a Go process ends at 10,000
// threads, and a dump of more goroutines stops the program for long.
var bearable = map[string]float64{"bytes": 320 << 20, "goroutines": 20_000, "descriptors": 2_000, "threads": 500}

// warmScaled warms up with more and more operations, until a quarter of a minimal load is warm. It returns how
// long a control round should be.
func (m *measurement) warmScaled(ctx context.Context) (time.Duration, error) {
	start, actions := time.Now(), m.Scenario.Spec.Warmup.Round
	if len(actions) == 0 {
		actions = m.Scenario.Spec.Round
	}
	for size := 2; m.next <= warmOperations && time.Since(start) < warmTime; size *= 2 {
		tallies, err := m.loadScaled(ctx, actions, size)
		if err != nil {
			return 0, err
		}
		m.warm(tallies)
	}
	return max(time.Since(start), min(controlTime, m.Scenario.Spec.LingerTime()/10)), nil
}

// loadScaled runs the actions with size times their operations.
func (m *measurement) loadScaled(ctx context.Context, actions []leak.Block[leak.Action], size int) ([]leak.Tally, error) {
	scaled, times := make([]leak.Block[leak.Action], len(actions)), 1
	for i, b := range actions {
		scaled[i] = b
		if s, ok := b.Value.(leak.Scaler); ok {
			scaled[i].Value = s.Scaled(size)
		} else if fault(b) == nil {
			times = size
		}
	}
	if times == 1 {
		return m.load(ctx, scaled)
	}
	var all []leak.Tally
	for range times {
		tallies, err := m.load(ctx, actions)
		if err != nil {
			return nil, err
		}
		all = append(all, tallies...)
	}
	return sumTallies(all), nil
}

// scaled measures rounds that grow geometrically until all is decided, or the time budget is spent.
func (m *measurement) scaled(ctx context.Context) error {
	budget, again := m.Scenario.Spec.For, 0
	why := fmt.Sprintf("its %s are over", budget)
	g := growing{deadline: m.began.Add(budget.D()), idle: (idleFactor + 2) * m.Scenario.Spec.Settle.Quiet.D()}
	round, ripens := 0, time.Duration(0)
	for round < m.Scenario.Spec.MostRounds() {
		size, stop := g.next(round, m.margin(g.operations))
		if size == 0 {
			if stop != "" {
				why, ripens = stop, time.Until(m.record.Snapshots[0].Time.Add(m.Scenario.Spec.LingerTime()))
			}
			break
		}
		round++
		m.size = size
		start, before := time.Now(), m.counted
		if err := m.one(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		g.measured(size, m.counted-before, loadTime(m.record.Final().Load), time.Since(start))
		if round < again || m.enough(round) == "" {
			continue
		}
		if done, err := m.confirm(ctx, round); done || err != nil {
			return err
		}
		again = round + confirmAgain
	}
	m.record.Spent = true
	m.record.Stopped = fmt.Sprintf("%s: %d rounds were measured", why, round)
	m.Progress.Log("%s: %s", m.variant.Name, m.record.Stopped)
	return m.drain(ctx, ripens)
}

// confirm checks again after idling whether everything is decided. If the growth is young enough to end without load,
// it checks once more when the growth is older.
func (m *measurement) confirm(ctx context.Context, round int) (done bool, err error) {
	old := m.record.Snapshots[0].Time.Add(m.Scenario.Spec.LingerTime())
	for _, wait := range []time.Duration{0, time.Until(old)} {
		if wait < 0 {
			break
		}
		if err := m.drain(ctx, wait); err != nil {
			return false, err
		}
		if why := m.enough(round); why != "" {
			m.stopped(round, why)
			return true, nil
		}
	}
	for _, one := range m.each() {
		one.record.Idle = nil
	}
	return false, nil
}

// drain measures after idling. It waits for at least atLeast, and longer while grown resources still decline, at most
// as long as a timeout may take.
func (m *measurement) drain(ctx context.Context, atLeast time.Duration) error {
	began := time.Now()
	if atLeast > 0 {
		m.watch("idling")
		if err := sleep(ctx, atLeast); err != nil {
			return fmt.Errorf("idle: %w", err)
		}
	}
	before := make([]*leak.Snapshot, len(m.each()))
	for i, one := range m.each() {
		before[i] = one.record.Final()
	}
	for calm := 1; ; calm++ {
		if err := m.idle(ctx); err != nil {
			return err
		}
		goes := false
		for i, one := range m.each() {
			goes = goes || m.goesAway(&one.record.Snapshots[0], one.record.Final(), before[i], one.record.Idle)
			before[i] = one.record.Idle
		}
		if goes {
			calm = 1 - calmLooks // between two rounds nothing came that could go now
		}
		if calm > 0 || time.Since(began) > m.Scenario.Spec.LingerTime()+lingerSlack {
			return nil
		}
	}
}

// goesAway reports whether countable resources, of which more than a few appeared since the baseline, declined
// between two measurements and are not yet all gone.
func (m *measurement) goesAway(base, last, before, now *leak.Snapshot) bool {
	for _, sample := range now.Samples {
		a, b, c := base.Sample(sample.Probe), last.Sample(sample.Probe), before.Sample(sample.Probe)
		for _, metric := range m.Metrics[sample.Probe] {
			if limit, ok := bearable[metric.Unit]; !ok || limit > 1e6 || a == nil || b == nil || c == nil {
				continue // bytes are given back for other reasons, too
			}
			v := func(s *leak.Sample) float64 { return s.Values[metric.Name] }
			few := max(fewUnits, (v(b)-v(a))/lingering)
			if v(b)-v(a) > few && v(c)-v(&sample) > few/2 && v(&sample)-v(a) > few {
				return true
			}
		}
	}
	return false
}

// loadTime is how long the actions of a round took, one after another.
func loadTime(tallies []leak.Tally) time.Duration {
	seconds := 0.0
	for _, t := range tallies {
		if t.Fault == "" { // faults act at the same time
			seconds += t.Seconds
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// growing plans rounds.
type growing struct {
	deadline time.Time
	idle     time.Duration
	// Of the last round: its size and operations, the time per unit of size, and the time of the round beyond its
	// load.
	size, operations int
	each, overhead   time.Duration
	// took is the time of the last round that its operations cost: the load, and measuring a program that has grown.
	took time.Duration
	// least is the smallest overhead so far.
	least time.Duration
}

func (g *growing) measured(size, operations int, load, whole time.Duration) {
	g.size, g.operations = size, operations
	g.each, g.overhead = load/time.Duration(size), whole-load
	if g.least == 0 || g.overhead < g.least {
		g.least = g.overhead
	}
	g.took = load + g.overhead - g.least
}

// next returns the size of the next round. It returns 0 if the time is over, and 0 with a reason if the program has
// grown enough. margin is the number of further operations that the program can bear, +Inf if it does not grow.
func (g *growing) next(done int, margin float64) (size int, stop string) {
	if g.size == 0 {
		return 1, ""
	}
	rest := max(wantedRounds-done, 1)
	left := time.Until(g.deadline) - g.idle - time.Duration(rest)*g.overhead
	fits := float64(left) / float64(max(g.each, time.Microsecond))
	wish := float64(g.size)
	switch {
	case done == 1:
		wish = max(wish, float64(firstOperations*g.size)/float64(max(g.operations, 1)))
	case done%2 == 0:
	case g.took < shortRound:
		wish *= shortFactor
	default:
		wish *= longFactor
	}
	if !math.IsInf(margin, 1) && g.operations > 0 {
		bears := margin * float64(g.size) / float64(g.operations)
		if bears < 1 {
			return 0, "more load would endanger the program, it has grown so much"
		}
		wish = min(wish, max(bears/float64(min(rest, 3)), 1))
	}
	cheap := min(wish, float64(g.overhead)/cheapLoad/float64(max(g.each, time.Microsecond)))
	if rest > 1 {
		wish = min(wish, max(fits/float64(rest), 1))
	}
	switch {
	case fits < 1 || fits < float64(g.size)/2:
		if one := g.overhead + time.Duration(g.size)*g.each; time.Until(g.deadline)-g.idle > one {
			return max(g.size, int(cheap)), "" // the rounds to come do not all fit, but this one does
		}
		return 0, ""
	case fits < wish:
		wish = fits
	}
	return int(math.Ceil(wish)), ""
}

// margin returns the number of further operations that the program can bear, from its growth over the last round. It is
// the smallest number for all series, and +Inf if nothing grows.
func (m *measurement) margin(operations int) float64 {
	least := math.Inf(1)
	for _, one := range m.each() {
		shots := one.record.Snapshots
		if len(shots) < 2 || operations <= 0 {
			continue
		}
		first, before, last := &shots[0], &shots[len(shots)-2], &shots[len(shots)-1]
		for _, sample := range last.Samples {
			a, b := first.Sample(sample.Probe), before.Sample(sample.Probe)
			for _, metric := range m.Metrics[sample.Probe] {
				limit, ok := bearable[metric.Unit]
				if !ok || a == nil || b == nil {
					continue
				}
				v := sample.Values[metric.Name]
				if each := (v - b.Values[metric.Name]) / float64(operations); each > 0 {
					least = min(least, max(limit-(v-a.Values[metric.Name]), 0)/each)
				}
			}
		}
	}
	return least
}
