package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		// While it runs: after every round the record is on disk, with all rounds before it.
		kept := map[string]int{"leaky load 1": 0, "leaky load 5": 1, "leaky load 9": 2, "leaky load 13": 3, "stop leaky": 4, "fixed load 5": 1, "stop fixed": 4}
		l.at = func(e string) error {
			if want, ok := kept[e]; ok {
				delete(kept, e)
				r, err := l.Dir.ReadRecord()
				if err != nil {
					t.Error(err)
					return nil
				}
				got := 0
				if v := r.Variant(strings.Fields(strings.TrimPrefix(e, "stop "))[0]); v != nil {
					got = len(v.Snapshots)
				}
				if got != want || !r.Finished.IsZero() {
					t.Errorf("at %q: %d snapshots on disk, want %d", e, got, want)
				}
			}
			return nil
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sameEvents(t, l.events, usual)
		if len(kept) > 0 {
			t.Errorf("never reached: %v", kept)
		}
		if record.Failure != nil || record.Interrupted || record.Schema != leak.RecordSchema || record.Leakrig != "v1" || record.Scenario != "test" {
			t.Errorf("record %+v", record)
		}
		if p := record.Plan; !slices.Equal(p.Variants, []string{"leaky", "fixed"}) || p.Warmup != 1 || p.Rounds != 3 {
			t.Errorf("plan %+v", p)
		}
		if len(record.Metrics) != 3 || record.Metrics["heap.objects"].Unit != "objects" || record.Cluster == nil || record.Cluster.Kubernetes != "v1.99.0" {
			t.Errorf("metrics %v, cluster %+v", record.Metrics, record.Cluster)
		}
		for i := range record.Variants {
			checkVariant(t, &record.Variants[i])
			if data, err := os.ReadFile(l.Dir.Path(record.Variants[i].Name, "round-2", "goroutine.pb.gz")); string(data) != record.Variants[i].Name {
				t.Errorf("raw file %q, %v", data, err)
			}
		}
		for _, want := range []string{
			"fake control plane v1.99.0 ready in 1.5s",
			"leaky: baseline  heap.alloc 2.0 KiB  goroutine.count 14",
			"leaky: round 2/3  post 4/4 ok in 0.25s  heap.alloc 2.0 KiB (0 B)  goroutine.count 22 (+8)",
		} {
			if !slices.Contains(l.progress, want) {
				t.Errorf("%q is not among\n%s", want, strings.Join(l.progress, "\n"))
			}
		}
	})
}

// checkVariant checks the numbers of a variant that was measured to the end.
func checkVariant(t *testing.T, v *leak.VariantRecord) {
	t.Helper()
	if v.Failure != nil || len(v.Snapshots) != 4 || v.Idle == nil {
		t.Fatalf("%s: failure %+v, %d snapshots, idle %v", v.Name, v.Failure, len(v.Snapshots), v.Idle)
	}
	// The record has the warm-up, but does not count it.
	if len(v.Warmup) != 1 || v.Warmup[0].Action != "post" || v.Warmup[0].Attempted != 4 || v.Snapshots[0].Load != nil {
		t.Errorf("%s: warm-up %+v", v.Name, v.Warmup)
	}
	for i, s := range append(slices.Clone(v.Snapshots), *v.Idle) {
		round := min(i, 3) // the idle one stands at the last round
		if s.Round != round || s.Operations != 4*round || !s.Settle.Settled || s.Settle.Polls != 10 || s.Settle.Seconds != 2 {
			t.Errorf("%s: snapshot %+v", v.Name, s)
		}
		if i > 0 && i < 4 && (len(s.Load) != 1 || s.Load[0].Attempted != 4) {
			t.Errorf("%s: round %d: load %+v", v.Name, i, s.Load)
		}
		// Ten that stay, and one for each operation, including the warm-up. Goroutines beyond the minima of the last
		// window are omitted.
		g := s.Sample("goroutine")
		leaks := int64(4 + 4*round)
		if got := g.Values["count"]; got != float64(10+leaks) {
			t.Errorf("%s: snapshot %d: %v goroutines", v.Name, i, got)
		}
		want := []leak.Group{{Stack: "stays", Count: 10}, {Stack: "leaks", Count: leaks}}
		if leaks > 10 {
			slices.Reverse(want)
		}
		if !reflect.DeepEqual(g.Groups["dump"], want) {
			t.Errorf("%s: snapshot %d: groups %v, want %v", v.Name, i, g.Groups["dump"], want)
		}
		// A source that was not polled is not changed.
		if want := []leak.Group{{Stack: "coarse", Count: 17 + leaks}}; !reflect.DeepEqual(g.Groups["profile"], want) {
			t.Errorf("%s: snapshot %d: profile %v, want %v", v.Name, i, g.Groups["profile"], want)
		}
		dir := fmt.Sprintf("%s/round-%d", v.Name, i)
		if i == 4 {
			dir = v.Name + "/idle"
		}
		if want := []string{dir + "/goroutine.pb.gz"}; !slices.Equal(g.Files, want) {
			t.Errorf("files %q, want %q", g.Files, want)
		}
		if h := s.Sample("heap"); h.Values["alloc"] != 2048 || h.Groups != nil {
			t.Errorf("heap %+v", h)
		}
	}
	// The idle snapshot comes after ten quiet windows, and settles like the others.
	if d := v.Idle.Time.Sub(v.Final().Time); d != 12*time.Second {
		t.Errorf("%s: the idle snapshot comes %s after the last", v.Name, d)
	}
	// Only stacks that some group refers to are kept.
	var ids []string
	for id := range v.Stacks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"coarse", "leaks", "stays"}) || v.Stacks["leaks"].Top().Func != "main.leaks" {
		t.Errorf("%s: stacks %v", v.Name, v.Stacks)
	}
}

// TestNoGroupStays checks a program whose only goroutine is in another state at every reading: no group exists in all
// readings, and the sample keeps the groups that it saw.
func TestNoGroupStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, looks := newLab(t), 0
		l.polls = func(int64) leak.Poll {
			looks++
			return polled("dump", map[string]int64{[]string{"IO wait", "runnable"}[looks%2]: 1})
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range record.Variants[0].Snapshots {
			if g := s.Sample("goroutine").Groups["dump"]; len(g) == 0 {
				t.Errorf("round %d: no stacks", s.Round)
			}
		}
	})
}

// Operations are numbered through all actions of a round, and counted for the one that the scenario
// names.
func TestSeveralActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Boot = nil
		l.Scenario.Spec.Round = []leak.Block[leak.Action]{
			{Kind: "post", Name: "create", Value: &fakeAction{l, "create", 3}},
			{Kind: "post", Name: "delete", Value: &fakeAction{l, "delete", 2}},
		}
		l.Scenario.Spec.Operation = "delete"
		l.Scenario.Spec.Rounds = 2
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range record.Variants {
			var loads []string
			for _, e := range l.events {
				if rest, ok := strings.CutPrefix(e, v.Name+" "); ok && strings.ContainsAny(rest, "123456789") {
					loads = append(loads, rest)
				}
			}
			if want := []string{"create 1", "delete 4", "create 6", "delete 9", "create 11", "delete 14"}; !slices.Equal(loads, want) {
				t.Errorf("%s: %q, want %q", v.Name, loads, want)
			}
			if s := v.Final(); s.Operations != 4 || len(s.Load) != 2 || s.Load[0].Action != "create" || s.Load[1].Action != "delete" {
				t.Errorf("%s: %+v", v.Name, s)
			}
		}
		// Without a cluster none is asked for.
		if record.Cluster != nil || !slices.Contains(l.events, "start leaky ") || slices.Contains(l.events, "check") {
			t.Errorf("cluster %+v, events %q", record.Cluster, l.events)
		}
	})
}

// Without a probe that can be polled leakrig waits for one quiet window, and says so.
func TestNoPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Scenario.Spec.Probes = l.Scenario.Spec.Probes[:1]
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range record.Variants[0].Snapshots {
			if !s.Settle.Settled || s.Settle.Seconds != 1 || !strings.Contains(s.Settle.Reason, "none of the probes") || len(s.Samples) != 1 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A snapshot that did not settle is taken all the same, and marked.
func TestUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		polls := int64(0)
		l.polls = func(int64) leak.Poll {
			polls++
			return polled("dump", map[string]int64{"drains": 1_000_000 - polls})
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := record.Variants[0].Snapshots[1]
		if s.Settle.Settled || s.Settle.Seconds < 30 || s.Settle.Seconds > 31 || s.Sample("goroutine").Values["count"] > 1_000_000 {
			t.Errorf("%+v", s.Settle)
		}
		if !slices.ContainsFunc(l.progress, func(line string) bool { return strings.Contains(line, "UNSETTLED: after 30s") }) {
			t.Errorf("no progress: %q", l.progress)
		}
	})
}

// TestFailures checks that the record has the failure of a variant with its stage, and that the next variant is
// measured. A failure of the cluster ends the run. In both cases nothing is left running.
func TestFailures(t *testing.T) {
	broken := leak.WithHint(errors.New("broken"), "mend it")
	const whole = 4
	for _, c := range []struct {
		name    string
		prepare func(l *lab)
		leaky   string // the variant's failure
		kept    int    // its snapshots
		fixed   int    // snapshots of the next variant
		failure string // of the run
	}{
		{
			"the program does not compile", func(l *lab) { l.once("build leaky", func() error { return broken }) },
			"broken", 0, whole, "",
		},
		{"neither variant compiles", func(l *lab) {
			l.at = func(e string) error {
				if strings.HasPrefix(e, "build") {
					return broken
				}
				return fmt.Errorf("%s, with nothing to run", e)
			}
		}, "broken", 0, 0, ""},
		{
			"the cluster does not boot", func(l *lab) { l.once("boot", func() error { return broken }) },
			"", 0, 0, "boot: broken",
		},
		{
			"the subject does not start", func(l *lab) { l.once("start leaky /kubeconfig", func() error { return broken }) },
			"start: broken", 0, whole, "",
		},
		{
			"it dies in the warm-up", func(l *lab) { l.once("leaky load 1", func() error { l.subject.die(broken); return nil }) },
			"before the baseline: broken", 0, whole, "",
		},
		{
			"it dies in round 2, and the load sees nothing of it", func(l *lab) { l.once("leaky load 9", func() error { l.subject.die(broken); return nil }) },
			"after round 1: broken", 2, whole, "",
		},
		{"it dies in round 2, and the load fails", func(l *lab) {
			l.once("leaky load 9", func() error { l.subject.die(broken); return errors.New("connection refused") })
		}, "after round 1: broken", 2, whole, ""},
		{"it dies, and is reaped only after the probe has failed", func(l *lab) {
			seen := 0
			l.once("leaky heap", func() error {
				if seen++; seen < 3 {
					return nil
				}
				s := l.subject
				time.AfterFunc(100*time.Millisecond, func() { s.die(broken) })
				return errors.New("connection refused")
			})
		}, "after round 1: broken", 2, whole, ""},
		{"it dies while leakrig waits", func(l *lab) {
			seen := 0
			l.once("check", func() error {
				if seen++; seen == 3 { // after the last round: the idle wait comes next
					s := l.subject
					time.AfterFunc(5*time.Second, func() { s.die(broken) })
				}
				return nil
			})
		}, "after round 3: broken", whole, whole, ""},
		{
			"the load cannot be run", func(l *lab) { l.once("leaky load 5", func() error { return broken }) },
			"round 1: post: broken", 1, whole, "",
		},
		{"a probe fails", func(l *lab) {
			seen := 0
			l.once("leaky goroutine", func() error {
				if seen++; seen == 3 {
					return broken
				}
				return nil
			})
		}, "round 2: capture goroutine: broken", 2, whole, ""},
		{"a probe fails after the last round", func(l *lab) {
			seen := 0
			l.once("leaky heap", func() error {
				if seen++; seen == 5 {
					return broken
				}
				return nil
			})
		}, "idle: capture heap: broken", whole, whole, ""},
		{"the API server answers no more", func(l *lab) {
			l.at = func(e string) error {
				if e == "check" {
					return broken
				}
				return nil
			}
		}, "round 1: broken", 2, 0, "broken"},
		{
			"the subject cannot be stopped", func(l *lab) { l.once("stop leaky", func() error { return broken }) },
			"broken", whole, whole, "",
		},
		{
			"the cluster cannot be stopped", func(l *lab) { l.once("close", func() error { return broken }) },
			"", whole, whole, "stop the cluster: broken",
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			l := newLab(t)
			c.prepare(l)
			record, err := l.run(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			checkFailure(t, "leaky", record.Variants[0].Failure, c.leaky)
			checkFailure(t, "the run", record.Failure, c.failure)
			if got := len(record.Variants[0].Snapshots); got != c.kept {
				t.Errorf("leaky: %d snapshots, want %d", got, c.kept)
			}
			if c.fixed == whole {
				checkVariant(t, &record.Variants[1])
			} else if got := len(record.Variants[1].Snapshots); got != c.fixed {
				t.Errorf("fixed: %d snapshots, want %d", got, c.fixed)
			}
			if record.Interrupted {
				t.Error("it was not interrupted")
			}
		})
	}
}

func checkFailure(t *testing.T, of string, f *leak.Failure, want string) {
	t.Helper()
	switch {
	case want == "" && f != nil:
		t.Errorf("%s: failure %+v", of, f)
	case want != "" && (f == nil || f.Message != want || f.Hint != "mend it"):
		t.Errorf("%s: failure %+v, want %q with its hint", of, f, want)
	}
}

// An interrupt at any point of the run: it goes no further than the step under way, stops what it has
// started, and keeps every round that was complete.
func TestInterrupted(t *testing.T) {
	for i, event := range usual {
		if i == len(usual)-1 {
			break // closing the cluster is the end
		}
		bubble(t, fmt.Sprintf("%d %s", i, event), func(t *testing.T) {
			l := newLab(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			l.at = func(string) error {
				if len(l.events) == i+1 {
					cancel(errors.New("Ctrl-C"))
				}
				return nil
			}
			record, err := l.run(t, ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !record.Interrupted || record.Failure != nil {
				t.Errorf("interrupted %v, failure %+v", record.Interrupted, record.Failure)
			}
			for _, v := range record.Variants {
				if v.Failure != nil {
					t.Errorf("%s: failure %+v", v.Name, v.Failure)
				}
			}
			// After the interrupt, only cleanup happens. The next build gets a cancelled context, which the go
			// command honours.
			for _, e := range l.events[i+1:] {
				if !strings.HasPrefix(e, "stop") && !strings.HasPrefix(e, "build") && e != "close" {
					t.Errorf("after the interrupt: %s", e)
				}
			}
			rounds := 0
			for _, v := range record.Variants {
				rounds += len(v.Snapshots)
			}
			complete := 0
			for _, e := range usual[:i+1] {
				if strings.HasSuffix(e, " goroutine") {
					complete++
				}
			}
			// A snapshot that the interrupt came in on may be kept or not; the idle one is none of a round.
			if rounds > complete || rounds < complete-3 {
				t.Errorf("%d snapshots, of %d that were complete", rounds, complete)
			}
		})
	}
}

// A run directory that cannot be written ends the run with an error, since nothing more could be
// recorded; all that was started is stopped.
func TestDiskFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		ruin  func(dir string) error
		every int // tried at every nth event: the writes to a real disk take their time
	}{
		{"removed", os.RemoveAll, 1},
		{"a file in its place", func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}, 5},
		{"a folder in the record's place", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/run.json"), os.MkdirAll(dir+"/run.json/x", 0o700))
		}, 5},
	} {
		for i := 0; i < len(usual); i += c.every {
			bubble(t, fmt.Sprintf("%s at %d %s", c.name, i, usual[i]), func(t *testing.T) {
				l := newLab(t)
				l.at = func(string) error {
					if len(l.events) == i+1 {
						return c.ruin(string(l.Dir))
					}
					return nil
				}
				record, err := l.run(t, t.Context())
				if err == nil || leak.Hint(err) == "" || record == nil {
					t.Errorf("no error with a hint: %v", err)
				}
				// No more load is put on after the next attempt to write, which ends every round.
				loads := 0
				for _, e := range l.events[i+1:] {
					if strings.Contains(e, " load ") {
						loads++
					}
				}
				if loads > 2 { // the warm-up writes nothing
					t.Errorf("the run went on: %q", l.events[i+1:])
				}
			})
		}
	}
	if _, err := Run(t.Context(), Config{Scenario: &leak.Scenario{}, Dir: rundir.Dir(t.TempDir() + "/none")}); err == nil {
		t.Error("no run directory at all, and no error")
	}
}

// hangs is an action whose operations never return.
type hangs struct{}

func (hangs) Run(ctx context.Context, _ leak.Target, _ int) (leak.Tally, error) {
	<-ctx.Done()
	return leak.Tally{}, nil
}

// A cluster that no longer answers ends the run at once, and not when the operations that hang on it
// reach their own deadlines.
func TestClusterVanishes(t *testing.T) {
	bubble(t, "under load", func(t *testing.T) {
		l := newLab(t)
		l.CheckEvery = time.Second
		l.Scenario.Spec.Round[0].Value = hangs{}
		l.at = func(event string) error {
			if event == "check" {
				return errors.New("the API server no longer answers")
			}
			return nil
		}
		start := time.Now()
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f := record.Variants[0].Failure; f == nil || !strings.Contains(f.Message, "no longer answers") || record.Failure == nil {
			t.Errorf("failures %+v, %+v", f, record.Failure)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("it took %s", d)
		}
	})
}
