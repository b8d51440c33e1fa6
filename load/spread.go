package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// spreadable is an action that workers can share. Each worker performs a part of it, which is an action, too.
type spreadable interface {
	leak.Action
	run(ctx context.Context, t leak.Target, first int) (*outcome, error)
	split(first, n int) []part
	limit(parts []part) time.Duration
	take(part)
	// rules returns the permissions that a worker needs in the API server. address returns the address of the subject
	// in the cluster, if the action uses it.
	rules(ctx context.Context, t leak.Target) ([]leak.WorkerRule, error)
	address(ctx context.Context, t leak.Target) (string, error)
	// turns returns the number of replicas that the operations go to in turn, 0 if they do not go to the subject.
	turns(t leak.Target) int
	// clearUp removes the objects that a worker left, given the number of the worker's first operation.
	clearUp(ctx context.Context, t leak.Target, first int) error
}

// part is a worker's share of an action.
type part struct {
	// First is the number of its first operation, Times the number of its operations.
	First       int           `json:"first"`
	Times       int           `json:"times"`
	Concurrency int           `json:"concurrency"`
	Rate        float64       `json:"rate,omitempty"`
	Lag         leak.Duration `json:"lag,omitempty"`
	// Arrival is the share of the operations of an open load that start here, 0 for a closed load. Phase is when the
	// first of them starts, in intervals. Concurrency is then the maximum in flight.
	Arrival float64 `json:"arrival,omitempty"`
	Phase   float64 `json:"phase,omitempty"`
	// Each is the number of operations that one of Times counts for, 0 for one. An invocation of a program may count
	// for many operations.
	Each int `json:"each,omitempty"`
}

// after is how many times the workers before it perform, from that of another part on.
func (p part) after(first part) int { return (p.First - first.First) / max(p.Each, 1) }

// MostWorkers is how many workers there is something to do for.
func (p *pace) MostWorkers() int { return min(p.lanes(), leak.MaxWorkers) }

// split divides the action into the parts of n workers. n is at most MostWorkers. The parts add up to the operations
// and the concurrency of the whole. If the concurrency is the limit, each part has operations in proportion to its
// concurrency. It has a share of the rate in proportion to its operations, so all parts end at the same time. The start
// of each part is delayed so that the first operations are as far apart as those of a single worker.
func (p *pace) split(first, n int) []part {
	parts := make([]part, n)
	if p.Arrival.open() {
		for i := range parts {
			parts[i] = part{First: first, Times: shareOf(p.Times, i, n), Concurrency: shareOf(p.Arrival.inFlight(), i, n), Phase: float64(i) / float64(n)}
			parts[i].Arrival = float64(parts[i].Times) / float64(p.Times)
			first += parts[i].Times
		}
		return parts
	}
	for i := range parts {
		parts[i] = part{First: first, Times: shareOf(p.Times, i, n), Concurrency: shareOf(p.Concurrency, i, n)}
		if p.Times > p.Concurrency {
			before := p.Concurrency * i / n
			parts[i].Times = p.Times*(before+parts[i].Concurrency)/p.Concurrency - p.Times*before/p.Concurrency
		}
		if p.Rate > 0 {
			parts[i].Rate = p.Rate * float64(parts[i].Times) / float64(p.Times)
			parts[i].Lag = leak.Duration(float64(i) / p.Rate * float64(time.Second))
		}
		first += parts[i].Times
	}
	return parts
}

// shareOf is the i-th of n shares of a whole, which differ by one at most.
func shareOf(whole, i, n int) int { return whole*(i+1)/n - whole*i/n }

func (p *pace) take(mine part) {
	p.Arrival, p.Phase = p.Arrival.share(mine.Arrival, mine.Concurrency), mine.Phase
	p.Times, p.Concurrency, p.Rate, p.Lag = mine.Times, mine.Concurrency, mine.Rate, mine.Lag
}

// limit is how long the longest of the parts of an action may take, if every operation takes as long as it may.
func (p *pace) limit(parts []part) time.Duration {
	turns := 0.0
	for _, mine := range parts {
		turns = max(turns, math.Ceil(float64(mine.Times)/float64(mine.Concurrency)))
	}
	most := turns * p.Timeout.D().Seconds()
	if p.Rate > 0 {
		most += float64(p.Times) / p.Rate
	}
	if p.Arrival.open() { // random intervals may add up to more than their mean
		most += 2 * p.Arrival.due(float64(p.Times)).Seconds()
	}
	rest := setupTimeout + podsTimeout + clearTimeout
	return min(seconds(most)+rest, longest)
}

// orderFormat is that of orders and results; the image of workers may be of another version than leakrig.
const orderFormat = 3

// order is the instruction for workers.
type order struct {
	Format int    `json:"format"`
	Kind   string `json:"kind"`
	// Action has the fields of the scenario.
	Action json.RawMessage `json:"action"`
	Parts  []part          `json:"parts"`
	// Targets are the addresses of the load. Of several replicas, the one for the first operation is first.
	Targets  []orderTarget `json:"targets"`
	Replicas bool          `json:"replicas,omitempty"`
}

type orderTarget struct {
	URL       string `json:"url,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Selector  string `json:"selector,omitempty"`
}

// target returns the target of the worker with this part. Its replicas begin with the one for the worker's first
// operation.
func (o *order) target(mine part, kubeconfig string) leak.Target {
	var all []leak.Target
	offset := mine.after(o.Parts[0])
	for i := range o.Targets {
		t := o.Targets[(i+offset)%len(o.Targets)]
		all = append(all, leak.Target{
			URL: t.URL, Kubeconfig: kubeconfig, Namespace: t.Namespace, Selector: t.Selector, Transport: workerTransport,
		})
	}
	target := all[0]
	if o.Replicas {
		target.Replicas = all
	}
	return target
}

// spread performs an action from workers.
func spread(ctx context.Context, kind string, a spreadable, t leak.Target, first, workers int, crew leak.Crew) (leak.Tally, error) {
	parts := a.split(first, workers)
	text, err := newOrder(ctx, kind, a, t, parts)
	if err != nil {
		return leak.Tally{}, err
	}
	rules, err := a.rules(ctx, t)
	if err != nil {
		return leak.Tally{}, err
	}
	work := leak.Work{Workers: workers, Order: text, Rules: rules, Limit: a.limit(parts)}
	if _, ok := a.(leak.ProgramUser); ok {
		for _, mine := range parts {
			work.Programs = max(work.Programs, mine.Concurrency)
		}
	}
	ends, err := crew.RunWorkers(ctx, work)
	if err != nil {
		return leak.Tally{}, err
	}
	tally, err := together(ends, parts, a.turns(t))
	for i, end := range ends {
		if end.Lost != "" {
			err = errors.Join(err, a.clearUp(ctx, t, parts[i].First))
		}
	}
	return tally, err
}

// newOrder encodes the instruction for workers.
func newOrder(ctx context.Context, kind string, a spreadable, t leak.Target, parts []part) ([]byte, error) {
	o := order{Format: orderFormat, Kind: kind, Parts: parts, Replicas: len(t.Replicas) > 0}
	for _, one := range targets(t) {
		address, err := a.address(ctx, one)
		if err != nil {
			return nil, err
		}
		o.Targets = append(o.Targets, orderTarget{address, one.Namespace, one.Selector})
	}
	var err error
	if o.Action, err = json.Marshal(toForm(reflect.ValueOf(a).Elem())); err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err == nil && len(text) > leak.MaxOrder {
		err = leak.WithHint(fmt.Errorf("workers: the instructions have %d KiB, and an object of the API server holds %d", len(text)>>10, leak.MaxOrder>>10),
			"a smaller body, or leave workers out")
	}
	return text, err
}

// readOrder makes of an order the action of one worker, from 0, with its part of the work.
func readOrder(text []byte, worker int) (spreadable, *order, error) {
	var o order
	// The format comes first, because data of another format may not be readable.
	var head struct{ Format int }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, nil, fmt.Errorf("order: %w", err)
	}
	if head.Format != orderFormat {
		return nil, nil, leak.WithHint(fmt.Errorf("order: written in format %d, this leakrig reads %d", head.Format, orderFormat), "the workers' image must be of the same version as leakrig: `leakrig image` makes one")
	}
	if err := strictly(text, &o); err != nil {
		return nil, nil, fmt.Errorf("order: %w", err)
	}
	if worker < 0 || worker >= len(o.Parts) || len(o.Targets) == 0 {
		return nil, nil, fmt.Errorf("order: no worker %d of %d", worker+1, len(o.Parts))
	}
	for _, k := range Kinds() {
		a, ok := k.New().(spreadable)
		if !ok || k.Name != o.Kind {
			continue
		}
		if err := fromForm(o.Action, reflect.ValueOf(a).Elem()); err != nil {
			return nil, nil, fmt.Errorf("order: %s: %w", o.Kind, err)
		}
		a.take(o.Parts[worker])
		return a, &o, nil
	}
	return nil, nil, fmt.Errorf("order: no action %q that workers perform", o.Kind)
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Work performs the share of one worker, counted from 0: it reads the order, waits with begin until all are ready,
// performs its part, and returns its result. If ctx ends, the result covers the operations until then. The result
// contains errors that occur after the order was read.
func Work(ctx context.Context, text []byte, worker int, kubeconfig string, begin func(ctx context.Context) error) ([]byte, error) {
	a, o, err := readOrder(text, worker)
	if err != nil {
		return nil, err
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	mine := o.Parts[worker]
	done, err := a.run(ctx, o.target(mine, kubeconfig), mine.First)
	return json.Marshal(newResult(done, err))
}

// result is the report of a worker at its end.
type result struct {
	Format int            `json:"format"`
	Error  string         `json:"error,omitempty"`
	Hint   string         `json:"hint,omitempty"`
	Took   time.Duration  `json:"tookNanoseconds"`
	All    *sentTallying  `json:"all,omitempty"`
	Shares []sentTallying `json:"shares,omitempty"`
	// Open is how an open load kept to its schedule.
	Open *leak.OpenLoad `json:"open,omitempty"`
}

// sentTallying is a tallying on its way from a worker.
type sentTallying struct {
	Attempted int                         `json:"attempted"`
	Succeeded int                         `json:"succeeded"`
	Failed    int                         `json:"failed"`
	TimedOut  int                         `json:"timedOut,omitempty"`
	Silent    int                         `json:"silent,omitempty"`
	Latencies sentHistogram               `json:"latencies"`
	Errors    map[string]*leak.ErrorCount `json:"errors,omitempty"`
}

func newResult(done *outcome, err error) result {
	r := result{Format: orderFormat}
	if err == nil && done == nil {
		err = errors.New("nothing was done")
	}
	var sent []sentTallying
	if err == nil {
		r.Took, r.Open = done.took, done.open
		for _, t := range append([]*tallying{done.all}, done.shares...) {
			one, failed := t.send()
			err = errors.Join(err, failed)
			sent = append(sent, one)
		}
	}
	if err != nil {
		return result{Format: orderFormat, Error: err.Error(), Hint: leak.Hint(err)}
	}
	r.All, r.Shares = &sent[0], sent[1:]
	return r
}

func (t *tallying) send() (sentTallying, error) {
	latencies, err := t.took.send()
	return sentTallying{t.Attempted, t.Succeeded, t.Failed, t.TimedOut, t.Silent, latencies, t.errs}, err
}

func (s sentTallying) receive() (*tallying, error) {
	took, err := s.Latencies.receive()
	if err != nil {
		return nil, err
	}
	if s.Attempted != s.Succeeded+s.Failed || took.counts.TotalCount() != int64(s.Attempted) {
		return nil, fmt.Errorf("%d operations, of which %d succeeded, %d failed and %d took their time", s.Attempted, s.Succeeded, s.Failed, took.counts.TotalCount())
	}
	for cause, e := range s.Errors {
		if e == nil {
			return nil, fmt.Errorf("a cause without a count: %s", cause)
		}
	}
	return &tallying{
		Tally: leak.Tally{Attempted: s.Attempted, Succeeded: s.Succeeded, Failed: s.Failed, TimedOut: s.TimedOut, Silent: s.Silent},
		took:  took, errs: s.Errors,
	}, nil
}

// merge adds the counts of another tally.
func (t *tallying) merge(other *tallying) error {
	t.Attempted += other.Attempted
	t.Succeeded += other.Succeeded
	t.Failed += other.Failed
	t.TimedOut += other.TimedOut
	t.Silent += other.Silent
	for cause, e := range other.errs {
		if t.errs[cause] == nil {
			t.errs[cause] = &leak.ErrorCount{Message: e.Message}
		}
		t.errs[cause].Count += e.Count
	}
	return t.took.merge(other.took)
}

// lose counts operations that were not reported.
func (t *tallying) lose(n int, why string) {
	if n == 0 {
		return
	}
	t.Attempted += n
	t.Failed += n
	t.lost = append(t.lost, leak.ErrorCount{Message: why, Count: n, Lost: true})
}

// readResult returns the report of a worker, nil if it has none.
func readResult(end leak.WorkerEnd) (*outcome, error) {
	if end.Result == nil {
		return nil, nil
	}
	var r result
	if err := strictly(end.Result, &r); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	switch {
	case r.Format != orderFormat:
		return nil, fmt.Errorf("result: in format %d, not %d", r.Format, orderFormat)
	case r.Error != "" && end.Lost != "":
		return nil, nil // it was stopped before there was anything to tell
	case r.Error != "":
		return nil, leak.WithHint(errors.New(r.Error), "%s", r.Hint)
	case r.All == nil:
		return nil, errors.New("result: without a tally")
	}
	done := &outcome{took: r.Took, open: r.Open}
	var err error
	if done.all, err = r.All.receive(); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	for _, s := range r.Shares {
		share, err := s.receive()
		if err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
		done.shares = append(done.shares, share)
	}
	return done, nil
}

// together makes one tally of what workers did. turns is how many replicas their operations were for in turn.
func together(ends []leak.WorkerEnd, parts []part, turns int) (leak.Tally, error) {
	whole := &outcome{all: newTallying()}
	for range turns {
		whole.shares = append(whole.shares, newTallying())
	}
	var workers []leak.WorkerTally
	for i, end := range ends {
		done, err := readResult(end)
		if err == nil {
			err = whole.add(done, end, parts[i], parts[i].after(parts[0]), fmt.Sprintf("worker %d of %d lost: %s", i+1, len(ends), end.Lost))
		}
		if err != nil {
			return leak.Tally{}, leak.WithHint(fmt.Errorf("worker %d of %d: %w", i+1, len(ends), err), "%s", leak.Hint(err))
		}
		workers = append(workers, workerTally(done, end, parts[i]))
	}
	tally := whole.tally()
	tally.Workers = workers
	return tally, nil
}

// add adds the outcome of a worker, and counts the operations that it did not perform as lost. offset is the number of
// operations of the other workers before its own.
func (o *outcome) add(done *outcome, end leak.WorkerEnd, mine part, offset int, lost string) error {
	if done == nil {
		done = &outcome{all: newTallying()}
	}
	if missing := mine.Times - done.all.Attempted; missing < 0 || missing > 0 && end.Lost == "" {
		return fmt.Errorf("it performed %d operations and should have %d", done.all.Attempted, mine.Times)
	}
	if len(done.shares) > 0 && len(done.shares) != len(o.shares) {
		return fmt.Errorf("it reports %d replicas instead of %d", len(done.shares), len(o.shares))
	}
	o.took = max(o.took, end.Late+done.took)
	o.open = o.open.With(done.open)
	if err := o.all.merge(done.all); err != nil {
		return err
	}
	o.all.lose(mine.Times-done.all.Attempted, lost)
	for i := range o.shares {
		share := o.shares[(i+offset)%len(o.shares)]
		should := (mine.Times + len(o.shares) - 1 - i) / len(o.shares)
		if len(done.shares) > 0 {
			if err := share.merge(done.shares[i]); err != nil {
				return err
			}
			should -= done.shares[i].Attempted
		}
		share.lose(should, lost)
	}
	return nil
}

func workerTally(done *outcome, end leak.WorkerEnd, mine part) leak.WorkerTally {
	w := leak.WorkerTally{
		Pod: end.Pod, Node: end.Node, First: mine.First, Operations: mine.Times, LateSeconds: end.Late.Seconds(), Lost: end.Lost,
	}
	if done != nil {
		w.Attempted, w.Succeeded, w.Seconds, w.Latency = done.all.Attempted, done.all.Succeeded, done.took.Seconds(), done.all.took.latency()
	}
	return w
}
