package bisect

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leakrig/leakrig/session"
)

// parallel-exec is searched in its node's commands, watch-then-delete in its build.
func TestWhatIsSearched(t *testing.T) {
	for _, test := range []struct{ scenario, module, variant, kind string }{
		{"parallel-exec", "github.com/containerd/ttrpc", "leaky", OfNode},
		{"watch-then-delete", "k8s.io/apimachinery", "leaky", OfModule},
		{"simulator-scheduler", "k8s.io/kubernetes", "as-found", OfModule},
	} {
		_, s, err := session.Open(test.scenario, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &Bisection{}
		b.Question.Module = test.module
		if err := b.choose(s); err != nil || b.Question.Variant != test.variant || b.Question.Kind != test.kind {
			t.Errorf("%s: %+v %v", test.scenario, b.Question, err)
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

func (b *slowBuilds) build(ctx context.Context, c Candidate, behind bool) (*made, error) {
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
	c := func(v string) Candidate { return Candidate{Version: v} }
	if _, err := w.get(ctx, c("a")); err != nil || b.behind["a"] {
		t.Fatal(err)
	}
	w.ahead([]Candidate{c("b"), c("slow")})
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
	w.ahead([]Candidate{c("slow"), c("c")})
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
