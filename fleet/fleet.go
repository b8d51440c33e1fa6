// Package fleet observes many production processes at once. It reads the goroutines and the sampled heap of each
// process at intervals, sweep after sweep, and reports the stacks on which they grow, and in how many processes.
//
// It has no rounds and no settling, because leakrig does not control the load. It starts and stops nothing. Packages
// cluster and subjects reach processes, package profiles reads profiles, and package checks has the statistics.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/rundir"
)

// Target is one life of one process: a restarted program is another target.
type Target struct {
	// ID is the same for as long as the process is.
	ID string
	// Name is what people call it: "namespace/pod", or its URL without credentials.
	Name string
	// Subject leads to its pprof.
	Subject leak.Target
	// Metrics is the URL of its metrics in Prometheus' text format, "" for none.
	Metrics string
	// Address is set if ID is an address, at which another process may answer later. The counters of the process
	// distinguish them.
	Address bool
}

// Lister lists the current targets.
type Lister interface {
	List(ctx context.Context) ([]Target, error)
}

// Config is one survey of a fleet.
type Config struct {
	Lister Lister
	Poller leak.Poller
	// Heap reads the heap by allocation site in KiB, nil to leave it out.
	Heap leak.Poller
	// Vitals reads the counters of a process whose ID is an address.
	Vitals func(context.Context, leak.Target) (leak.Vitals, error)
	// Every is the time from the start of one sweep to that of the next, For that from the first to the last.
	Every, For time.Duration
	// Timeout bounds the requests to one target in one sweep.
	Timeout time.Duration
	// Concurrency is how many targets are read at once, at most.
	Concurrency int
	// Counter is the metric that counts operations, "" if growth is per hour.
	Counter string
	// Label is set if Counter is a pprof label of goroutines with numbers, which the poller reads.
	Label bool
	// Save keeps the record, after every sweep.
	Save     func(*Record) error
	Progress leak.Progress
}

// Sweeps is how many sweeps there will be.
func (c *Config) Sweeps() int { return int(c.For/c.Every) + 1 }

// Run sweeps until the time is over or ctx ends; then the record says that it was interrupted. An error means
// that the record could not be kept.
func Run(ctx context.Context, c Config) (*Record, error) {
	s := newSurvey(c)
	for n := range c.Sweeps() {
		if !s.wait(ctx, n) {
			break
		}
		s.sweep(ctx, n)
		if s.record.Failure != nil || ctx.Err() != nil {
			break
		}
		if err := c.Save(s.record); err != nil {
			return nil, &rundir.DiskError{Err: err}
		}
	}
	s.record.Interrupted = ctx.Err() != nil
	s.record.Finished = time.Now()
	if err := c.Save(s.record); err != nil {
		return nil, &rundir.DiskError{Err: err}
	}
	return s.record, nil
}

// survey is a Run under way.
type survey struct {
	Config
	start  time.Time
	record *Record
	// alive are the targets of the last list, by ID.
	alive map[string]*Series
	last  []Target
	late  bool
	// unidentified is set once the record has a warning about a target without an identity.
	unidentified bool
	mu           sync.Mutex // guards alive, record and stacks while targets are read
	stacks       *interned
}

func newSurvey(c Config) *survey {
	now := time.Now()
	r := &Record{Schema: RecordSchema, Started: now, Every: leak.Duration(c.Every), For: leak.Duration(c.For), Counter: c.Counter}
	return &survey{Config: c, start: now, record: r, alive: map[string]*Series{}, stacks: newInterned(&r.Stacks)}
}

// wait waits until sweep n is due, and returns false if ctx ends first. A late sweep starts at once, and missed ones
// are skipped.
func (s *survey) wait(ctx context.Context, n int) bool {
	timer := time.NewTimer(time.Until(s.start.Add(time.Duration(n) * s.Every)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// sweep lists the targets and reads each once.
func (s *survey) sweep(ctx context.Context, n int) {
	began := time.Now()
	if n > 0 && began.Sub(s.start) > time.Duration(n+1)*s.Every {
		if !s.late {
			s.late = true
			s.record.warn("sweeps take longer than %s: raise --every, or --concurrency", s.Every)
		}
		return
	}
	targets, err := s.Lister.List(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && n == 0:
		s.record.fail(err)
		return
	case err != nil:
		s.record.warn("sweep %d: the targets of the sweep before were read, since they could not be listed: %v", n+1, err)
		targets = s.last
	}
	if len(targets) == 0 && n == 0 {
		s.record.fail(leak.WithHint(fmt.Errorf("no target"), "does the selector match pods that run, in the namespace that was named?"))
		return
	}
	s.last = targets
	s.meet(targets, n)
	read, failed := s.read(ctx, targets)
	if ctx.Err() != nil {
		return // those that were read stand in the record
	}
	took := time.Since(began)
	s.record.Sweeps = append(s.record.Sweeps, Sweep{
		Seconds: began.Sub(s.start).Seconds(), Took: took.Seconds(), Listed: len(targets), Read: read, Failed: failed,
	})
	if n == 0 && read == 0 {
		err := fmt.Errorf("none of %d targets could be read: %s: %s", len(targets), targets[0].Name, s.alive[targets[0].ID].LastError)
		s.record.fail(leak.WithHint(err, "do they serve net/http/pprof there? --port and --pprof change where it is looked for; --via port-forward reaches a pod's loopback, too"))
		return
	}
	s.Progress.Log("sweep %d of %d: %d of %d targets read in %s", n+1, s.Sweeps(), read, len(targets), round(took))
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// meet notes which targets are new and which are gone.
func (s *survey) meet(targets []Target, n int) {
	here := make(map[string]bool, len(targets))
	for _, t := range targets {
		here[t.ID] = true
		if s.alive[t.ID] == nil {
			s.alive[t.ID] = s.begin(t.ID, t.Name, n)
		}
	}
	for id, series := range s.alive {
		if !here[id] {
			series.end()
			delete(s.alive, id)
		}
	}
}

// begin begins the series of a life. Beyond maxTargets lives are read, and not kept.
func (s *survey) begin(id, name string, sweep int) *Series {
	if len(s.record.Targets) >= maxTargets {
		s.record.Beyond++
		return &Series{Name: name, closed: true}
	}
	return s.record.add(id, name, sweep)
}

// read reads every target once and returns how many answered and how many did not.
func (s *survey) read(ctx context.Context, targets []Target) (read, failed int) {
	work := make(chan Target)
	var wg sync.WaitGroup
	for range min(s.Concurrency, len(targets)) {
		wg.Go(func() {
			for t := range work {
				err := s.one(ctx, t)
				if ctx.Err() != nil {
					continue // what an interruption broke says nothing about the target
				}
				s.mu.Lock()
				if err == nil {
					read++
				} else {
					failed++
					series := s.alive[t.ID]
					series.Failures++
					series.LastError = display.OneLine(err.Error(), maxReason)
				}
				s.mu.Unlock()
			}
		})
	}
	for i, t := range targets {
		select {
		case work <- t:
			if i%100 == 99 {
				s.Progress.Status("%d of %d targets asked", i+1, len(targets))
			}
		case <-ctx.Done():
		}
	}
	close(work)
	wg.Wait()
	return read, failed
}

// one reads a target and adds its goroutines to its series.
func (s *survey) one(ctx context.Context, t Target) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("it did not answer for %s", s.Timeout))
	defer cancel()
	poll, err := s.Poller.Poll(ctx, t.Subject, leak.Poll{})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	var heap *leak.Poll
	noHeap := ""
	if s.Heap != nil {
		read, err := s.Heap.Poll(ctx, t.Subject, leak.Poll{})
		switch {
		case err == nil:
			heap = &read
		case errors.Is(err, profiles.ErrNotServed):
			noHeap = display.OneLine(err.Error(), maxReason)
		default:
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
	var vitals leak.Vitals
	if t.Address {
		if vitals, err = s.Vitals(ctx, t.Subject); err != nil {
			return err
		}
	}
	at := time.Since(s.start).Seconds()
	operations := math.NaN()
	problem := ""
	if s.Counter != "" && !s.Label {
		if operations, err = readCounter(ctx, t, s.Counter); err != nil {
			operations, problem = math.NaN(), display.OneLine(err.Error(), maxReason)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	series := s.alive[t.ID]
	if s.Label {
		if operations = series.largest(poll.Count); operations == 0 {
			problem = "no goroutine carries a number in the pprof label"
		}
	}
	if series.restarted(operations) || vitals.Restarted(series.vitals) != "" {
		fresh := s.begin(t.ID+" restarted", t.Name, len(s.record.Sweeps))
		series.end()
		s.alive[t.ID], series = fresh, fresh
	}
	series.vitals = vitals
	if t.Address && !vitals.Identified() && !s.unidentified {
		s.unidentified = true
		s.record.warn("%s: restarts cannot be detected, since it does not serve /debug/pprof/heap; the same may apply to other targets", t.Name)
	}
	if problem != "" && !s.Label && len(series.Operations) > 0 && series.uncounted < maxUncounted {
		series.uncounted++
		return err // a few that fail are not to take the operations of all other readings
	}
	series.uncounted = 0
	if problem != "" || s.Label {
		series.NoCounter = problem
	}
	series.NoHeap = noHeap
	var sites *reading
	if heap != nil {
		sites = &reading{heap.Total, s.stacks.counts(*heap)}
	}
	series.addBoth(at, operations, reading{poll.Total, s.stacks.counts(poll)}, sites)
	return nil
}

// maxReason limits the length of an error in the record, since it may contain a server's response.
const maxReason = 500

// maxUncounted is how many readings in a row may fail for their counter alone; then the target goes on without.
const maxUncounted = 2

// maxTargets limits the number of lives in a record, for a fleet whose pods crash in a loop.
const maxTargets = 20_000

// maxInterned limits the different stacks of the fleet, maxGroups the stacks of one target that are counted
// separately. The others are counted together.
const (
	maxInterned = 20_000
	maxGroups   = 200
)

// maxStackText bounds the text of the stacks of the fleet, as the record holds it.
const maxStackText = 48 << 20

// Other is the index of the stack for merged stacks.
const Other = -1

// interned are the stacks of the whole fleet, each once, by their identity across binaries: a fleet that is
// rolled out has two.
type interned struct {
	stacks *[]leak.Stack
	byKey  map[string]int
	byID   map[string]int // spares the key of what is seen in every target
	text   int            // how long all of them are as text
}

func newInterned(stacks *[]leak.Stack) *interned {
	return &interned{stacks: stacks, byKey: map[string]int{}, byID: map[string]int{}}
}

func (in *interned) index(id string, s leak.Stack) int {
	if i, ok := in.byID[id]; ok {
		return i
	}
	key := s.Key()
	i, ok := in.byKey[key]
	if !ok {
		text := len(s.State)
		for _, f := range s.Frames {
			text += len(f.Func) + len(f.File)
		}
		if len(*in.stacks) >= maxInterned || in.text+text > maxStackText {
			return Other
		}
		in.text += text
		i = len(*in.stacks)
		*in.stacks = append(*in.stacks, s)
		in.byKey[key] = i
	}
	if len(in.byID) < 4*maxInterned {
		in.byID[id] = i
	}
	return i
}

// count is how many goroutines stand on a stack.
type count struct {
	stack int
	n     int32
}

// counts returns the counts of one reading by stack, largest first. Small ones are counted together if there are too
// many.
func (in *interned) counts(p leak.Poll) []count {
	var list []count
	at := map[int]int{}
	for _, g := range p.Groups {
		i := Other
		if stack, ok := p.Stacks[g.Stack]; ok {
			i = in.index(g.Stack, stack)
		}
		k, ok := at[i]
		if !ok {
			k = len(list)
			at[i] = k
			list = append(list, count{stack: i})
		}
		list[k].n = clip(int64(list[k].n) + g.Count)
	}
	slices.SortStableFunc(list, func(a, b count) int { return int(b.n) - int(a.n) })
	return list
}

// clip keeps a count in 32 bits: no process has two thousand million goroutines.
func clip(n int64) int32 { return int32(max(0, min(n, math.MaxInt32))) }
