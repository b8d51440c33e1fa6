package load

import (
	"context"
	"errors"
	"fmt"
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

// Bounds of one round, so that a slip of the pen does not become an attack.
const (
	maxTimes       = 1_000_000
	maxConcurrency = 10_000
	minRate        = 0.001
)

// pace says how the operations of a round are started. It is part of every action's configuration.
type pace struct {
	Times       int           `yaml:"times,omitempty" doc:"operations a round"`
	Concurrency int           `yaml:"concurrency,omitempty" doc:"operations under way at once, at most"`
	Rate        float64       `yaml:"rate,omitempty" doc:"operations started a second, at most (default: as fast as concurrency allows)"`
	Timeout     leak.Duration `yaml:"timeout,omitempty" doc:"an operation that takes longer has failed"`
}

func defaultPace() pace {
	return pace{Times: 1, Concurrency: 1, Timeout: leak.Duration(30 * time.Second)}
}

// problems collects what is wrong with the fields of a configuration.
type problems []error

func (p *problems) add(field, hint, problem string, args ...any) {
	*p = append(*p, &leak.FieldError{Field: field, Problem: fmt.Sprintf(problem, args...), Hint: hint})
}

// template adds a problem where text is no template of an operation.
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
}

// operate runs p.Times operations, numbered from first, and tallies them. It returns when all have
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
	for range min(p.Concurrency, p.Times) {
		wg.Go(func() {
			for op := range next {
				if ctx.Err() != nil {
					continue // it was handed over, but is not attempted
				}
				began := time.Now()
				timedOut, err := within(ctx, p.Timeout.D(), op, one)
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
	for i := range p.Times {
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
	if p.Rate <= 0 {
		return ctx.Err() == nil
	}
	due := start.Add(time.Duration(float64(i) / p.Rate * float64(time.Second)))
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
