package load

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// maxErrors bounds how many distinct messages a tally keeps.
const maxErrors = 5

// pace says how the operations of a round are started.
type pace struct {
	times, concurrency int
	// rate is operations started a second, 0 for as fast as concurrency allows.
	rate float64
	// timeout bounds one operation.
	timeout time.Duration
}

// operate runs pace.times operations, numbered from first, and tallies them. It returns when all have
// ended; when ctx ends, those not yet started are not attempted.
func operate(ctx context.Context, p pace, first int, one func(ctx context.Context, op int) error) leak.Tally {
	var (
		mu    sync.Mutex
		tally leak.Tally
		took  []time.Duration
		errs  = map[string]*leak.ErrorCount{}
		wg    sync.WaitGroup
	)
	start := time.Now()
	next := make(chan int)
	for range min(p.concurrency, p.times) {
		wg.Go(func() {
			for op := range next {
				if ctx.Err() != nil {
					continue // it was handed over, but is not attempted
				}
				began := time.Now()
				timedOut, err := within(ctx, p.timeout, op, one)
				d := time.Since(began)
				mu.Lock()
				tally.Attempted++
				took = append(took, d)
				if err == nil {
					tally.Succeeded++
				} else {
					tally.Failed++
					count(errs, err)
					if timedOut {
						tally.TimedOut++
					}
					if errors.Is(err, errSilent) {
						tally.Silent++
					}
				}
				mu.Unlock()
			}
		})
	}
	for i := range p.times {
		if !p.waitFor(ctx, start, i) {
			break
		}
		next <- first + i
	}
	close(next)
	wg.Wait()
	tally.Seconds = time.Since(start).Seconds()
	tally.Latency = latency(took)
	tally.Errors = mostFrequent(errs)
	return tally
}

// errSilent is wrapped by the error of an operation that seemed to succeed, without its output.
var errSilent = errors.New("returned without its output")

// within performs one operation and tells whether it failed because its time was up.
func within(ctx context.Context, timeout time.Duration, op int, one func(context.Context, int) error) (timedOut bool, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = one(limited, op)
	return err != nil && limited.Err() == context.DeadlineExceeded && ctx.Err() == nil, err
}

// waitFor blocks until operation i is due by the schedule, which does not slip when one is late. It
// returns false when ctx has ended.
func (p pace) waitFor(ctx context.Context, start time.Time, i int) bool {
	if p.rate <= 0 {
		return ctx.Err() == nil
	}
	due := start.Add(time.Duration(float64(i) / p.rate * float64(time.Second)))
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// latency summarises by nearest rank.
func latency(took []time.Duration) leak.Latency {
	if len(took) == 0 {
		return leak.Latency{}
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		i := int(math.Ceil(q*float64(len(took)))) - 1
		return took[max(i, 0)].Seconds()
	}
	return leak.Latency{P50: at(0.50), P90: at(0.90), P99: at(0.99), Max: at(1)}
}

// failure is the error of an operation whose detail may differ from one operation to the next: those of
// one cause are counted together, under the message of the first.
type failure struct{ cause, detail string }

func (f *failure) Error() string { return strings.TrimSuffix(f.cause+": "+f.detail, ": ") }

func count(errs map[string]*leak.ErrorCount, err error) {
	cause := err.Error()
	var f *failure
	if errors.As(err, &f) {
		cause = f.cause
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
