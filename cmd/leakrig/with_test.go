package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/bisect"
	"github.com/leakrig/leakrig/leak"
)

// TestRepinned checks that a module is assigned to the node's command that contains it, or that it is, and that the
// scenario's own pins stay.
func TestRepinned(t *testing.T) {
	const ttrpc, containerd, runc = "github.com/containerd/ttrpc", "github.com/containerd/containerd", "github.com/opencontainers/runc"
	v := leak.Variant{Name: "leaky", Node: []leak.NodePin{
		{Command: "containerd", Version: "v1.6.36", Modules: map[string]string{ttrpc: "v1.0.2"}},
		{Command: "runc", Version: "v1.1.0"},
	}}
	got, err := repinned(v, []leak.Module{{Path: ttrpc, Version: "v1.1.0"}, {Path: runc, Version: "v1.2.0"}})
	if err != nil || got.Node[0].Modules[ttrpc] != "v1.1.0" || got.Node[0].Version != "v1.6.36" || got.Node[1].Version != "v1.2.0" {
		t.Errorf("%+v %v", got.Node, err)
	}
	if v.Node[0].Modules[ttrpc] != "v1.0.2" || v.Node[1].Version != "v1.1.0" {
		t.Errorf("the scenario's own variant has changed: %+v", v.Node)
	}
	if got, err := repinned(v, []leak.Module{{Path: containerd, Version: "v1.7.35"}}); err != nil || got.Node[0].Version != "v1.7.35" || got.Node[0].Modules[ttrpc] != "v1.0.2" {
		t.Errorf("%+v %v", got.Node, err)
	}
	if _, err := repinned(v, []leak.Module{{Path: "example.com/x", Version: "v1.0.0"}}); err == nil || !strings.Contains(err.Error(), "which command of the node") {
		t.Error(err)
	}
	one := leak.Variant{Node: []leak.NodePin{{Command: "containerd", Version: "v1.6.36"}}}
	if got, err := repinned(one, []leak.Module{{Path: ttrpc, Version: "v1.0.2"}}); err != nil || got.Node[0].Modules[ttrpc] != "v1.0.2" || one.Node[0].Modules != nil {
		t.Errorf("%+v %v", got.Node, err)
	}
}

// parallel-exec is searched in its node's commands, watch-then-delete in its build.
func TestWhatIsSearched(t *testing.T) {
	for _, test := range []struct{ scenario, module, variant, kind string }{
		{"parallel-exec", "github.com/containerd/ttrpc", "leaky", bisect.OfNode},
		{"watch-then-delete", "k8s.io/apimachinery", "leaky", bisect.OfModule},
		{"simulator-scheduler", "k8s.io/kubernetes", "as-found", bisect.OfModule},
	} {
		_, s, err := open(test.scenario, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &bisection{}
		b.question.Module = test.module
		if err := b.choose(s); err != nil || b.question.Variant != test.variant || b.question.Kind != test.kind {
			t.Errorf("%s: %+v %v", test.scenario, b.question, err)
		}
	}
}

func TestWorstOfBisect(t *testing.T) {
	for want, codes := range map[int][]int{0: {0, 0}, 1: {0, 125, 1}, 125: {0, 125}, 130: {1, 130}} {
		if got := worstOfBisect(codes); got != want {
			t.Errorf("%v: %d", codes, got)
		}
	}
	for _, test := range []struct {
		args string
		code int
		want int
	}{
		{"run x --exit-code=bisect", 2, 128},
		{"run x --exit-code bisect", 3, 128},
		{"run x --exit-code=bisect", 130, 130},
		{"run x", 2, 2},
		{"run x --exit-code", 2, 2},
	} {
		if got := forGitBisect(strings.Fields(test.args), test.code); got != test.want {
			t.Errorf("%s: %d", test.args, got)
		}
	}
}

// slowBuilds are builds for a aheadBuilder, and take until they are let go.
type slowBuilds struct {
	mu      sync.Mutex
	running int
	most    int
	built   []string
	behind  map[string]bool
	let     map[string]chan struct{}
}

func (b *slowBuilds) build(ctx context.Context, c bisect.Candidate, behind bool) (*made, error) {
	b.mu.Lock()
	b.running++
	b.most = max(b.most, b.running)
	b.behind[c.Version] = behind
	let := b.let[c.Version]
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
	}()
	if let != nil {
		select {
		case <-let:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.built = append(b.built, c.Version)
	if c.Version == "broken" {
		return nil, errors.New("does not compile")
	}
	return &made{}, nil
}

// TestAheadBuilder checks that builds run one at a time, that a version is not built twice, that a needed build stops
// another one, and that a stopped build can run later.
func TestAheadBuilder(t *testing.T) {
	b := &slowBuilds{behind: map[string]bool{}, let: map[string]chan struct{}{"slow": make(chan struct{}), "b": make(chan struct{})}}
	w := newAheadBuilder(b.build)
	defer w.stop()
	ctx := context.Background()
	c := func(v string) bisect.Candidate { return bisect.Candidate{Version: v} }
	if _, err := w.get(ctx, c("a")); err != nil || b.behind["a"] {
		t.Fatal(err)
	}
	w.ahead([]bisect.Candidate{c("b"), c("slow")})
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		_, begun = b.behind["b"]
		b.mu.Unlock()
	}
	go func() { time.Sleep(50 * time.Millisecond); close(b.let["b"]) }()
	j, err := w.get(ctx, c("b")) // being built: waited for
	if err != nil || !b.behind["b"] {
		t.Fatal(err)
	}
	if took, waited := j.account(); took <= 0 || waited <= 0 {
		t.Errorf("took %g, waited %g", took, waited)
	}
	if took, waited := j.account(); took != 0 || waited != 0 {
		t.Error("its duration is reported twice")
	}
	w.ahead([]bisect.Candidate{c("slow"), c("c")})
	if _, err := w.get(ctx, c("c")); err != nil || b.behind["c"] { // slow is in the way
		t.Fatal(err)
	}
	if _, err := w.get(ctx, c("broken")); err == nil {
		t.Error("a build that failed is none")
	}
	if _, err := w.get(ctx, c("broken")); err == nil {
		t.Error("a build that failed stays so")
	}
	close(b.let["slow"])
	if _, err := w.get(ctx, c("slow")); err != nil {
		t.Error(err)
	}
	if got := strings.Join(b.built, " "); got != "a b c broken slow" || b.most != 1 {
		t.Errorf("%s, %d at a time", got, b.most)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	b.let["d"] = make(chan struct{})
	if _, err := w.get(cancelled, c("d")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(b.let["d"])
	if _, err := w.get(ctx, c("d")); err != nil {
		t.Errorf("interrupted once, it is never built: %v", err)
	}
}
