package load

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Processes of arrivals.
const (
	processConstant = "constant"
	processPoisson  = "poisson"
)

// Limits of arrivals.
const (
	defaultInFlight = 1000
	maxStages       = 100
	maxStage        = 24 * time.Hour
)

// arrival is the schedule of an open load: operations start when they are due, whether or not earlier ones have ended.
// Its zero value is a closed load.
type arrival struct {
	Rate        float64 `yaml:"rate,omitempty" doc:"operations per second, at the beginning of the first stage if there are stages"`
	Process     string  `yaml:"process,omitempty" doc:"constant: equal intervals between starts; poisson: random, exponentially distributed intervals, the same for every variant (default: constant)"`
	MaxInFlight int     `yaml:"maxInFlight,omitempty" doc:"maximum number of unfinished operations; later ones wait, and their wait counts as latency (default 1000)"`
	Stages      []stage `yaml:"stages,omitempty" doc:"ramps, in order; the last rate is kept until all operations of the round have started"`
}

// stage is a linear change of the rate.
type stage struct {
	Rate float64       `yaml:"rate" doc:"operations per second at the end of the stage"`
	For  leak.Duration `yaml:"for" doc:"duration of the stage; 0s changes the rate at once"`
}

// open reports whether the load has a schedule.
func (a arrival) open() bool { return a.Rate != 0 || len(a.Stages) > 0 }

// unset reports whether the scenario says nothing of arrivals.
func (a arrival) unset() bool { return !a.open() && a.Process == "" && a.MaxInFlight == 0 }

func (a arrival) inFlight() int { return cmp.Or(a.MaxInFlight, defaultInFlight) }

func (a arrival) validate(bad *problems, p pace) {
	if a.unset() {
		return
	}
	inRange := func(rate float64) bool { return rate >= minRate && rate <= maxTimes }
	if !inRange(a.Rate) && !(a.Rate == 0 && len(a.Stages) > 0) {
		bad.add("arrival.rate", "as in {rate: 200}", "must be between %v and %d a second, is %v", minRate, maxTimes, a.Rate)
	}
	if a.Process != "" && a.Process != processConstant && a.Process != processPoisson {
		bad.add("arrival.process", "it is constant or poisson", "unknown process %q", a.Process)
	}
	if a.MaxInFlight < 0 || a.MaxInFlight > maxConcurrency {
		bad.add("arrival.maxInFlight", "", "must be between 1 and %d, is %d", maxConcurrency, a.MaxInFlight)
	}
	if len(a.Stages) > maxStages {
		bad.add("arrival.stages", "", "must be at most %d, are %d", maxStages, len(a.Stages))
	}
	for i, s := range a.Stages {
		if !inRange(s.Rate) && (s.Rate != 0 || i == len(a.Stages)-1) {
			bad.add("arrival.stages", "the last rate is kept until all operations have started, so it is not 0", "a rate must be between %v and %d a second, is %v", minRate, maxTimes, s.Rate)
		}
		if s.For < 0 || s.For.D() > maxStage {
			bad.add("arrival.stages", "as in {rate: 200, for: 30s}", "a stage must last between 0s and %s, lasts %s", maxStage, s.For)
		}
	}
	if p.Concurrency != 1 {
		bad.add("concurrency", "arrival.maxInFlight bounds the unfinished operations", "an open load has no concurrency")
	}
	if p.Rate != 0 {
		bad.add("rate", "leave it out, arrival has the rate", "an open load has its rate in arrival")
	}
}

// due returns when the x-th operation starts after the beginning: the inverse of the integral of the rate.
func (a arrival) due(x float64) time.Duration {
	if x <= 0 {
		return 0
	}
	t, rate := 0.0, a.Rate
	for _, s := range a.Stages {
		d := s.For.D().Seconds()
		if n := (rate + s.Rate) / 2 * d; x > n {
			x, t, rate = x-n, t+d, s.Rate
			continue
		}
		slope := (s.Rate - rate) / d
		return seconds(t + 2*x/(rate+math.Sqrt(max(0, rate*rate+2*slope*x))))
	}
	return seconds(t + x/rate)
}

// longest bounds times that come from a scenario.
const longest = 30 * 24 * time.Hour

func seconds(s float64) time.Duration {
	return time.Duration(min(s, longest.Seconds()) * float64(time.Second))
}

// share returns the schedule of a worker that starts this share of the operations.
func (a arrival) share(of float64, inFlight int) arrival {
	if !a.open() {
		return a
	}
	stages := make([]stage, len(a.Stages))
	for i, s := range a.Stages {
		stages[i] = stage{s.Rate * of, s.For}
	}
	a.Rate, a.Stages, a.MaxInFlight = a.Rate*of, stages, inFlight
	return a
}

// schedule returns a function that returns the start of one operation after another. phase is the part of an interval
// after which the first one of a constant process starts. The same first operation always has the same schedule.
func (a arrival) schedule(first int, phase float64) func() time.Duration {
	x := phase - 1
	if a.Process != processPoisson {
		return func() time.Duration {
			x++
			return a.due(x)
		}
	}
	random := rand.New(rand.NewPCG(uint64(first), 27))
	x = 0
	return func() time.Duration {
		x += random.ExpFloat64()
		return a.due(x)
	}
}

// arrive starts every operation when it is due. It calls perform in a new goroutine for each, and returns how the load
// kept to its schedule when all have ended. If ctx ends, it starts no further operations.
func (p pace) arrive(ctx context.Context, start time.Time, first int, perform func(l lane, op int, intended time.Time)) *leak.OpenLoad {
	next, kept := p.Arrival.schedule(first, p.Phase), &leak.OpenLoad{}
	lanes := newLanes(p.lanes())
	var wg sync.WaitGroup
	blocked := start // until when the maximum was in flight
	for i := range p.Times {
		due := next()
		intended := start.Add(due)
		if !sleepUntil(ctx, intended) {
			break
		}
		index, waited, ok := lanes.take(ctx)
		if !ok {
			break
		}
		now := time.Now()
		if waited {
			blocked = now
		}
		if waited || intended.Before(blocked) {
			kept.Waited++
		} else {
			kept.LateSeconds = max(kept.LateSeconds, now.Sub(intended).Seconds())
		}
		if due > 0 {
			kept.Rate = float64(i) / due.Seconds()
		}
		wg.Go(func() {
			defer lanes.put(index)
			perform(lane{index: index}, first+i, intended)
		})
	}
	wg.Wait()
	kept.InFlight = lanes.most()
	return kept
}

// lanes are the lanes of an open load. The one that was put back last is taken first, so few have a connection.
type lanes struct {
	free  chan struct{} // one for each free lane
	mu    sync.Mutex
	stack []int
	least int
	total int
}

func newLanes(n int) *lanes {
	l := &lanes{free: make(chan struct{}, n), least: n, total: n}
	for i := n - 1; i >= 0; i-- {
		l.stack = append(l.stack, i)
		l.free <- struct{}{}
	}
	return l
}

// take returns a free lane, and whether it had to wait for one. It returns false if ctx ends first.
func (l *lanes) take(ctx context.Context) (index int, waited, ok bool) {
	select {
	case <-l.free:
	default:
		waited = true
		select {
		case <-l.free:
		case <-ctx.Done():
			return 0, true, false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.stack) - 1
	index, l.stack = l.stack[n], l.stack[:n]
	l.least = min(l.least, n)
	return index, waited, true
}

func (l *lanes) put(index int) {
	l.mu.Lock()
	l.stack = append(l.stack, index)
	l.mu.Unlock()
	l.free <- struct{}{}
}

// most is how many were taken at once.
func (l *lanes) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total - l.least
}

// exactly is how long before an operation is due a precise sleep replaces the runtime's timer, which may be a
// millisecond late.
const exactly = 1500 * time.Microsecond

// sleepUntil returns when it is that time, and false if ctx has ended.
func sleepUntil(ctx context.Context, due time.Time) bool {
	if wait := time.Until(due) - exactly; wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	for wait := time.Until(due); wait > 0; wait = time.Until(due) {
		nap(wait)
	}
	return ctx.Err() == nil
}
