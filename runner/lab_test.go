package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// lab is a run in memory: a launcher, subjects, a cluster, an action and probes that write down what is
// done with them. It runs within synctest, whose clock makes every wait exact and free.
type lab struct {
	Config
	mu     sync.Mutex
	events []string
	// at is called at every event, to let something happen there; the step fails with its error.
	at       func(event string) error
	progress []string
	// open is how many subjects and clusters run.
	open int
	// subject is the one that was started last, subjects are all by name.
	subject  *fakeSubject
	subjects map[string]*fakeSubject
	// polls makes what polls read, of a count that the operations so far account for.
	polls func(count int64) leak.Poll
}

// newLab is a scenario of two variants with one warm-up round and three measured ones of four
// operations each.
func newLab(t *testing.T) *lab {
	l := &lab{at: func(string) error { return nil }}
	l.polls = func(n int64) leak.Poll { return polled("dump", map[string]int64{"stays": 10, "leaks": n}) }
	s := &leak.Scenario{Metadata: leak.Metadata{Name: "test"}, Spec: leak.Spec{
		Warmup: leak.Warmup{Rounds: 1}, Rounds: 3, Settle: settleSpec,
		Round: []leak.Block[leak.Action]{{Kind: "post", Name: "post", Value: &fakeAction{l, "load", 4}}},
		Probes: []leak.Block[leak.Probe]{
			{Kind: "heap", Name: "heap", Value: &fakeHeap{l}}, // first, and yet not the one that is polled
			{Kind: "goroutine", Name: "goroutine", Value: &fakeGoroutine{l}},
		},
	}}
	l.Config = Config{
		Scenario: s, Variants: []leak.Variant{{Name: "leaky"}, {Name: "fixed"}}, Dir: rundir.Dir(t.TempDir()), Launcher: l, Progress: l, Version: "v1", CheckEvery: time.Hour,
		Boot: func(context.Context, leak.Variant) (leak.Cluster, error) {
			if err := l.event("boot"); err != nil {
				return nil, err
			}
			l.opened(1)
			return l, nil
		},
		Metrics: map[string][]leak.Metric{
			"goroutine": {{Name: "count", Unit: "goroutines"}}, "heap": {{Name: "alloc", Unit: "bytes"}, {Name: "objects", Unit: "objects"}},
		},
	}
	return l
}

// run runs within a bubble, and checks what holds for every run: nothing that was started is left,
// and the record on disk is the one that was returned.
func (l *lab) run(t *testing.T, ctx context.Context) (record *leak.Record, err error) {
	t.Helper()
	record, err = Run(ctx, l.Config)
	if left := l.open; l.Shared && left == 1 {
		// the cluster
	} else if left != 0 {
		t.Errorf("%d subjects and clusters are left", left)
	}
	if err != nil {
		return record, err
	}
	onDisk, readErr := l.Dir.ReadRecord()
	if readErr != nil {
		t.Fatal(readErr)
	}
	a, errA := json.Marshal(onDisk)
	b, errB := json.Marshal(record)
	if errA != nil || errB != nil || !bytes.Equal(a, b) || onDisk.Finished.IsZero() {
		t.Errorf("on disk:\n%s\nreturned:\n%s", a, b)
	}
	return record, nil
}

func (l *lab) event(format string, args ...any) error {
	e := fmt.Sprintf(format, args...)
	l.mu.Lock()
	l.events = append(l.events, e)
	l.mu.Unlock()
	return l.at(e)
}

func (l *lab) opened(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
}

// once makes at call f at the one event.
func (l *lab) once(event string, f func() error) {
	l.at = func(e string) error {
		if e == event {
			return f()
		}
		return nil
	}
}

func (l *lab) Log(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress = append(l.progress, fmt.Sprintf(format, args...))
}
func (l *lab) Status(string, ...any) {}

// The cluster.

func (l *lab) Info() leak.ClusterInfo {
	return leak.ClusterInfo{Provider: "fake", Kubernetes: "v1.99.0", BootTime: 1.5}
}
func (l *lab) Kubeconfig() string { return "/kubeconfig" }
func (l *lab) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.event("check")
}

func (l *lab) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.New("closed with a context that has ended")
	}
	l.opened(-1)
	return l.event("close")
}

// on returns the subject that a target is.
func (l *lab) on(t leak.Target) *fakeSubject {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subjects[t.URL]
}

// The launcher.

func (l *lab) Build(_ context.Context, v leak.Variant) error { return l.event("build %s", v.Name) }

func (l *lab) Start(_ context.Context, v leak.Variant, c leak.Cluster, log string) (leak.Subject, error) {
	kubeconfig := ""
	if c != nil {
		kubeconfig = c.Kubeconfig()
	}
	if _, err := os.Stat(log); err != nil {
		return nil, err
	}
	if err := l.event("start %s %s", v.Name, kubeconfig); err != nil {
		return nil, err
	}
	l.opened(1)
	s := &fakeSubject{lab: l, name: v.Name, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subjects == nil {
		l.subjects = map[string]*fakeSubject{}
	}
	l.subject, l.subjects[v.Name] = s, s
	return s, nil
}

type fakeSubject struct {
	lab  *lab
	name string
	end  sync.Once
	done chan struct{}
	err  error
	// operations it was put to.
	operations int64
}

func (s *fakeSubject) Target() leak.Target    { return leak.Target{URL: s.name, Pprof: s.name} }
func (s *fakeSubject) Info() leak.SubjectInfo { return leak.SubjectInfo{Command: []string{s.name}} }
func (s *fakeSubject) Done() <-chan struct{}  { return s.done }
func (s *fakeSubject) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

func (s *fakeSubject) die(err error) { s.end.Do(func() { s.err = err; close(s.done) }) }

func (s *fakeSubject) Stop(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.New("stopped with a context that has ended")
	}
	s.die(nil)
	s.lab.opened(-1)
	return s.lab.event("stop %s", s.name)
}

// fakeAction performs its operations at once, and none when the context has ended.
type fakeAction struct {
	lab   *lab
	word  string
	times int
}

func (a *fakeAction) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	if ctx.Err() != nil {
		return leak.Tally{}, nil
	}
	if err := a.lab.event("%s %s %d", t.URL, a.word, first); err != nil {
		return leak.Tally{}, err
	}
	a.lab.on(t).operations += int64(a.times)
	return leak.Tally{Attempted: a.times, Succeeded: a.times, Seconds: 0.25}, nil
}

// fakeGoroutine polls what the lab says, and samples some more, as a single reading does.
type fakeGoroutine struct{ lab *lab }

func (p *fakeGoroutine) Poll(ctx context.Context, t leak.Target, _ leak.Poll) (leak.Poll, error) {
	return p.lab.polls(p.lab.on(t).operations), ctx.Err()
}

func (p *fakeGoroutine) Sample(ctx context.Context, t leak.Target) (leak.Reading, error) {
	if ctx.Err() != nil {
		return leak.Reading{}, ctx.Err() // as net/http does, without the cause
	}
	if err := p.lab.event("%s goroutine", t.URL); err != nil {
		return leak.Reading{}, err
	}
	dump := polled("dump", map[string]int64{"stays": 10, "leaks": p.lab.on(t).operations, "passes": 7})
	profile := polled("profile", map[string]int64{"coarse": dump.Total})
	stacks := dump.Stacks
	stacks["coarse"], stacks["unused"] = profile.Stacks["coarse"], leak.Stack{}
	return leak.Reading{
		Sample: leak.Sample{
			Probe: "goroutine", Values: map[string]float64{"count": float64(dump.Total)},
			Groups: map[string][]leak.Group{"dump": dump.Groups, "profile": profile.Groups},
		},
		Stacks: stacks, Files: []leak.File{{Name: "goroutine.pb.gz", Data: []byte(t.URL)}},
	}, nil
}

type fakeHeap struct{ lab *lab }

func (p *fakeHeap) Sample(ctx context.Context, t leak.Target) (leak.Reading, error) {
	if ctx.Err() != nil {
		return leak.Reading{}, ctx.Err()
	}
	if err := p.lab.event("%s heap", t.URL); err != nil {
		return leak.Reading{}, err
	}
	return leak.Reading{Sample: leak.Sample{Probe: "heap", Values: map[string]float64{"alloc": 2048, "objects": 3}}}, nil
}

// bubble runs f within synctest.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// usual is what happens in a run without mishap.
var usual = slices.Concat(
	[]string{"build leaky", "build fixed", "boot"},
	usualOf("leaky"), usualOf("fixed"),
	[]string{"close"},
)

func usualOf(v string) []string {
	e := []string{"start " + v + " /kubeconfig", v + " load 1", v + " heap", v + " goroutine"}
	for _, first := range []string{"5", "9", "13"} {
		e = append(e, v+" load "+first, v+" heap", v+" goroutine", "check")
	}
	return append(e, v+" heap", v+" goroutine", "stop "+v, "check")
}

func sameEvents(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
