package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/leakrig/leakrig/leak"
)

// herd is a subject of several replicas, each of which keeps what it was put to.
type herd struct {
	*fakeSubject
	all []leak.Subject
}

func (h *herd) Replicas() []leak.Subject { return h.all }

// herdAction gives each replica its turn.
type herdAction struct {
	mu    *sync.Mutex
	got   map[string]int64
	times int
	// whole is set for load that is for no replica alone.
	whole bool
	// sampling is called when a replica is sampled.
	sampling func(ctx context.Context, url string) error
}

func (a *herdAction) Run(_ context.Context, t leak.Target, _ int) (leak.Tally, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	whole := leak.Tally{Attempted: a.times, Succeeded: a.times}
	for i := range t.Replicas {
		n := a.times / len(t.Replicas)
		if i < a.times%len(t.Replicas) {
			n++
		}
		if a.whole {
			n = a.times
		}
		a.got[t.Replicas[i].URL] += int64(n)
		if !a.whole {
			whole.Shares = append(whole.Shares, leak.Tally{Attempted: n, Succeeded: n})
		}
	}
	return whole, nil
}

type herdGoroutine struct{ *herdAction }

func (p herdGoroutine) Poll(_ context.Context, t leak.Target, _ leak.Poll) (leak.Poll, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return polled("dump", map[string]int64{"stays": 10, "leaks": p.got[t.URL]}), nil
}

func (p herdGoroutine) Sample(ctx context.Context, t leak.Target) (leak.Reading, error) {
	if p.sampling != nil {
		if err := p.sampling(ctx, t.URL); err != nil {
			return leak.Reading{}, err
		}
	}
	poll, err := p.Poll(ctx, t, leak.Poll{})
	return leak.Reading{
		Sample: leak.Sample{Values: map[string]float64{"count": float64(poll.Total)}, Groups: map[string][]leak.Group{"dump": poll.Groups}},
		Stacks: poll.Stacks, Files: []leak.File{{Name: "goroutine.pb.gz", Data: []byte(t.URL)}},
	}, err
}

// newHerd is a lab whose one variant has three replicas, and rounds of four operations.
func newHerd(t *testing.T) (*lab, *herd, *herdAction) {
	l := newLab(t)
	l.Variants = l.Variants[:1]
	a := &herdAction{mu: &sync.Mutex{}, got: map[string]int64{}, times: 4}
	l.Scenario.Spec.Subject.Replicas = 3
	l.Scenario.Spec.Round = []leak.Block[leak.Action]{{Kind: "post", Name: "post", Value: a}}
	l.Scenario.Spec.Probes = []leak.Block[leak.Probe]{{Kind: "goroutine", Name: "goroutine", Value: herdGoroutine{a}}}
	h := &herd{fakeSubject: &fakeSubject{lab: l, name: "leaky", done: make(chan struct{})}}
	for i := range 3 {
		h.all = append(h.all, &fakeSubject{lab: l, name: fmt.Sprintf("leaky%d", i+1), done: make(chan struct{})})
	}
	l.Launcher = herdLauncher{l, h}
	return l, h, a
}

type herdLauncher struct {
	*lab
	herd *herd
}

func (l herdLauncher) Start(_ context.Context, _ leak.Variant, _ leak.Cluster, _ string) (leak.Subject, error) {
	l.opened(1)
	return l.herd, nil
}

// TestReplicas checks that each replica has its own share of the load, snapshots, stacks and files.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, a := newHerd(t)
		l.Scenario.Spec.Control = 1
		record, err := l.run(t, t.Context())
		if err != nil || record.Failure != nil || record.Plan.Replicas != 3 {
			t.Fatalf("%v, %+v", err, record)
		}
		each := record.Variant("leaky").Each()
		if len(each) != 3 {
			t.Fatalf("%d replicas", len(each))
		}
		// 4 of the warm-up and 4 a round, in turn: 1 2 3 1, 2 3 1 2, 3 1 2 3, 1 2 3 1.
		operations := [][]int{{0, 1, 2, 4}, {0, 2, 3, 4}, {0, 1, 3, 4}}
		warm := []int{2, 1, 1}
		for i, v := range each {
			name := fmt.Sprintf("replica-%d", i+1)
			if v.Replica != i+1 || v.Failure != nil || len(v.Snapshots) != 4 || len(v.Control) != 2 || v.Idle == nil || v.Subject.Command[0] != fmt.Sprintf("leaky%d", i+1) {
				t.Fatalf("%s: %+v", name, v)
			}
			if len(v.Warmup) != 1 || v.Warmup[0].Attempted != warm[i] || v.Warmup[0].Action != "post" {
				t.Errorf("%s: warm-up %+v", name, v.Warmup)
			}
			for k, s := range append(slices.Clone(v.Snapshots), *v.Idle) {
				want := operations[i][min(k, 3)]
				if s.Operations != want {
					t.Errorf("%s: snapshot %d: %d operations, want %d", name, k, s.Operations, want)
				}
				if k > 0 && k < 4 && (len(s.Load) != 1 || s.Load[0].Attempted != want-operations[i][k-1] || s.Load[0].Action != "post") {
					t.Errorf("%s: round %d: load %+v", name, k, s.Load)
				}
				g := s.Sample("goroutine")
				if got := g.Values["count"]; got != float64(10+warm[i]+want) {
					t.Errorf("%s: snapshot %d: %v goroutines", name, k, got)
				}
				dir := fmt.Sprintf("leaky/%s/round-%d", name, k)
				if k == 4 {
					dir = "leaky/" + name + "/idle"
				}
				if want := []string{dir + "/goroutine.pb.gz"}; !slices.Equal(g.Files, want) {
					t.Errorf("files %q, want %q", g.Files, want)
				}
				if data, err := os.ReadFile(l.Dir.Path(g.Files[0])); string(data) != fmt.Sprintf("leaky%d", i+1) {
					t.Errorf("%s: raw file %q, %v", name, data, err)
				}
			}
			if len(v.Stacks) != 2 {
				t.Errorf("%s: stacks %v", name, v.Stacks)
			}
		}
		if total := a.got["leaky1"] + a.got["leaky2"] + a.got["leaky3"]; total != 16 {
			t.Errorf("%d operations in all", total)
		}
		if want := "leaky replica 2: round 2/3  post 1/1 ok in 0.00s  goroutine.count 14 (+3)"; !slices.Contains(l.progress, want) {
			t.Errorf("%q is not among\n%s", want, strings.Join(l.progress, "\n"))
		}
	})
}

// Load that is for no replica alone counts for each of them.
func TestReplicasOfSharedLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, a := newHerd(t)
		a.whole = true
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range record.Variant("leaky").Each() {
			if last := v.Final(); last.Operations != 12 || last.Load[0].Attempted != 4 {
				t.Errorf("replica %d: %+v", v.Replica, last)
			}
		}
	})
}

// A replica that dies ends the variant.
func TestReplicaDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h, _ := newHerd(t)
		l.once("check", func() error {
			h.die(errors.New("replica 2: subject died"))
			return nil
		})
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := record.Variant("leaky")
		if v.Failure == nil || !strings.Contains(v.Failure.Message, "after round 1: replica 2: subject died") {
			t.Errorf("%+v", v.Failure)
		}
		if each := v.Each(); len(each) != 3 || each[2].Failure != v.Failure || len(each[2].Snapshots) != 2 {
			t.Errorf("%+v", each)
		}
	})
}
