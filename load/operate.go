package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// maxErrors bounds how many distinct messages a tally keeps.
const maxErrors = 5

// Bounds of one round, so that a slip of the pen does not become an attack.
const (
	maxTimes       = 1_000_000
	maxConcurrency = 10_000
	minRate        = 0.001
)

// pace says how the operations of a round are started. It is part of every action's configuration.
type pace struct {
	Times       int           `yaml:"times,omitempty" doc:"operations per round"`
	Concurrency int           `yaml:"concurrency,omitempty" doc:"maximum number of concurrent operations"`
	Rate        float64       `yaml:"rate,omitempty" doc:"maximum number of operations started per second (default: limited by concurrency)"`
	Arrival     arrival       `yaml:"arrival,omitempty" doc:"open load instead of concurrency and rate: operations start when they are due, and latency counts from then"`
	Timeout     leak.Duration `yaml:"timeout,omitempty" doc:"maximum duration of an operation; longer ones fail"`
	// Lag is how much later the first operation is due than the load begins. Only workers have one: those of a
	// rate would all begin with an operation at once.
	Lag leak.Duration `yaml:"-"`
	// Phase is the same for an open load, as a part of the interval between two operations of the worker.
	Phase float64 `yaml:"-"`
}

func defaultPace() pace {
	return pace{Times: 1, Concurrency: 1, Timeout: leak.Duration(30 * time.Second)}
}

// scaled is the pace with factor times the operations.
func (p pace) scaled(factor int) pace {
	p.Times = min(p.Times, maxTimes/max(factor, 1)) * max(factor, 1)
	return p
}

// problems collects errors in the fields of a configuration.
type problems []error

func (p *problems) add(field, hint, problem string, args ...any) {
	*p = append(*p, &leak.FieldError{Field: field, Problem: fmt.Sprintf(problem, args...), Hint: hint})
}

// template adds a problem if text is not a valid template.
func (p *problems) template(field, text string) {
	if _, err := parseTemplate(text); err != nil {
		p.add(field, templateHint, "%v", err)
	}
}

func (p pace) validate(bad *problems) {
	if p.Times < 1 || p.Times > maxTimes {
		bad.add("times", "", "must be between 1 and %d, is %d", maxTimes, p.Times)
	}
	if p.Concurrency < 1 || p.Concurrency > maxConcurrency {
		bad.add("concurrency", "", "must be between 1 and %d, is %d", maxConcurrency, p.Concurrency)
	}
	if p.Rate != 0 && !(p.Rate >= minRate && p.Rate <= maxTimes) {
		bad.add("rate", "leave it out for as fast as concurrency allows", "must be between %v and %d a second, is %v", minRate, maxTimes, p.Rate)
	}
	if p.Timeout <= 0 {
		bad.add("timeout", "as in 30s", "must be more than zero")
	}
	p.Arrival.validate(bad, p)
}

// lanes is the maximum number of operations that are under way at once.
func (p pace) lanes() int {
	if p.Arrival.open() {
		return min(p.Arrival.inFlight(), p.Times)
	}
	return min(p.Concurrency, p.Times)
}

// perform runs p.Times operations, numbered from first, and returns when all have ended. If ctx ends, it starts no
// further operations. It also counts per replica if in is not nil.
func perform(ctx context.Context, p pace, first int, in *turns, one func(ctx context.Context, op int) error) *outcome {
	return performInLanes(ctx, p, first, in, func(ctx context.Context, _ lane, op int) error { return one(ctx, op) })
}

// lane is a sequence of operations, one lane per concurrent operation. Before the last operation of a lane, last is
// set, and the operation closes the connection of the lane. An open load does not know which operation is the last.
type lane struct {
	index int
	last  bool
}

// performInLanes is perform for operations that share something with those before them in their lane.
func performInLanes(ctx context.Context, p pace, first int, in *turns, one func(ctx context.Context, l lane, op int) error) *outcome {
	var mu sync.Mutex
	done := &outcome{all: newTallying()}
	for range in.count() {
		done.shares = append(done.shares, newTallying())
	}
	// perform performs one operation, which takes the time since began.
	perform := func(l lane, op int, began time.Time) {
		timedOut, err := within(ctx, p.Timeout.D(), func(ctx context.Context) error { return one(ctx, l, op) })
		d := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		done.all.add(d, timedOut, err)
		if len(done.shares) > 0 {
			done.shares[in.of(op)].add(d, timedOut, err)
		}
	}
	start := time.Now()
	if p.Arrival.open() {
		done.open = p.arrive(ctx, start, first, perform)
	} else {
		p.loop(ctx, start, first, perform)
	}
	done.took = time.Since(start)
	return done
}

// loop is a closed load: each lane starts an operation when its previous one has ended.
func (p pace) loop(ctx context.Context, start time.Time, first int, perform func(l lane, op int, began time.Time)) {
	var taken atomic.Int64
	var wg sync.WaitGroup
	lanes := p.lanes()
	for l := range lanes {
		wg.Go(func() {
			for at := (lane{index: l}); !at.last; {
				i := int(taken.Add(1)) - 1
				if !p.waitFor(ctx, start, i) {
					return
				}
				at.last = i >= p.Times-lanes
				perform(at, first+i, time.Now())
			}
		})
	}
	wg.Wait()
}

// outcome is all that is known of the operations of an action.
type outcome struct {
	all    *tallying
	shares []*tallying // by replica
	took   time.Duration
	open   *leak.OpenLoad // nil of a closed load
}

func (o *outcome) tally() leak.Tally {
	tally := o.all.sum(o.took)
	tally.Open = o.open
	for _, share := range o.shares {
		tally.Shares = append(tally.Shares, share.sum(o.took))
	}
	return tally
}

// summed returns the tally of an outcome, which may be nil.
func summed(o *outcome, err error) (leak.Tally, error) {
	if o == nil {
		return leak.Tally{}, err
	}
	return o.tally(), err
}

// turns says which replica an operation is for: each in turn, the first of the list first.
type turns struct {
	replicas []leak.Target
	first    int
}

// inTurn returns the turns of the replicas of a target, from operation first. It returns nil for a single replica.
func inTurn(t leak.Target, first int) *turns {
	if len(t.Replicas) == 0 {
		return nil
	}
	return &turns{t.Replicas, first}
}

func (t *turns) count() int {
	if t == nil {
		return 0
	}
	return len(t.replicas)
}

// of is the replica of an operation, from 0.
func (t *turns) of(op int) int {
	if t == nil {
		return 0
	}
	return (op - t.first) % len(t.replicas)
}

// targets returns the replicas of a target, or the target itself if it has none.
func targets(t leak.Target) []leak.Target {
	if len(t.Replicas) == 0 {
		return []leak.Target{t}
	}
	return t.Replicas
}

// tallying counts operations as they end.
type tallying struct {
	leak.Tally
	took *histogram
	errs map[string]*leak.ErrorCount // by cause
	lost []leak.ErrorCount           // operations that no worker tells of
}

func newTallying() *tallying {
	return &tallying{took: newHistogram(), errs: map[string]*leak.ErrorCount{}}
}

func (t *tallying) add(took time.Duration, timedOut bool, err error) {
	t.Attempted++
	t.took.add(took)
	if err == nil {
		t.Succeeded++
		return
	}
	t.Failed++
	count(t.errs, err)
	if timedOut {
		t.TimedOut++
	}
	if errors.Is(err, errSilent) {
		t.Silent++
	}
}

// sum is the tally, of an action that took so long.
func (t *tallying) sum(took time.Duration) leak.Tally {
	t.Seconds, t.Latency, t.Errors = took.Seconds(), t.took.latency(), append(slices.Clip(t.lost), mostFrequent(t.errs)...)
	return t.Tally
}

// errSilent is wrapped by the error of an operation that seemed to succeed, without its output.
var errSilent = errors.New("returned without its output")

// within performs one operation and reports whether it exceeded its timeout.
func within(ctx context.Context, timeout time.Duration, one func(context.Context) error) (timedOut bool, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = one(limited)
	return err != nil && limited.Err() == context.DeadlineExceeded && ctx.Err() == nil, err
}

// waitFor blocks until operation i is due by the schedule, which does not slip when one is late. It
// returns false when ctx has ended.
func (p pace) waitFor(ctx context.Context, start time.Time, i int) bool {
	if p.Rate <= 0 {
		return ctx.Err() == nil
	}
	due := start.Add(p.Lag.D() + time.Duration(float64(i)/p.Rate*float64(time.Second)))
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// failure is the error of an operation whose detail may differ from one operation to the next: those of
// one cause are counted together, under the message of the first.
type failure struct {
	cause  error
	detail string
}

func (f *failure) Error() string { return strings.TrimSuffix(f.cause.Error()+": "+f.detail, ": ") }
func (f *failure) Unwrap() error { return f.cause }

func count(errs map[string]*leak.ErrorCount, err error) {
	cause := err.Error()
	var f *failure
	if errors.As(err, &f) {
		cause = f.cause.Error()
	}
	if errs[cause] == nil {
		errs[cause] = &leak.ErrorCount{Message: err.Error()}
	}
	errs[cause].Count++
}

func mostFrequent(errs map[string]*leak.ErrorCount) []leak.ErrorCount {
	var list []leak.ErrorCount
	for _, e := range errs {
		list = append(list, *e)
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].Count != list[j].Count {
			return list[i].Count > list[j].Count
		}
		return list[i].Message < list[j].Message
	})
	return list[:min(len(list), maxErrors)]
}
