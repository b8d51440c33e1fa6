package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leakrig/leakrig/leak"
)

// TestOwnClusters boots a separate cluster for every variant, one after the other. A failed boot fails only its
// variant.
func TestOwnClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.OwnClusters = true
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range l.events {
			if e == "boot" || e == "close" || strings.HasPrefix(e, "start") {
				got = append(got, e)
			}
		}
		if want := []string{"boot", "start leaky /kubeconfig", "close", "boot", "start fixed /kubeconfig", "close"}; !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
		if v := record.Variant("fixed"); v.Cluster == nil || v.Cluster.Provider != "fake" {
			t.Errorf("cluster %+v", v.Cluster)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.OwnClusters = true
		l.once("boot", func() error {
			l.at = func(string) error { return nil }
			return errors.New("no room")
		})
		record, err := l.run(t, t.Context())
		if err != nil || record.Failure != nil {
			t.Fatalf("%v, %+v", err, record.Failure)
		}
		if f := record.Variant("leaky").Failure; f == nil || !strings.Contains(f.Message, "no room") {
			t.Errorf("leaky: %+v", f)
		}
		if v := record.Variant("fixed"); v.Failure != nil || len(v.Snapshots) != 4 {
			t.Errorf("fixed: %+v", v)
		}
	})
}

// A cluster that other runs share outlives each of them; the subjects do not.
func TestSharedCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Shared = true
		record, err := l.run(t, t.Context())
		if err != nil || record.Failure != nil || record.Cluster == nil {
			t.Fatalf("%v, %+v", err, record)
		}
		if slices.Contains(l.events, "close") || !slices.Contains(l.events, "boot") {
			t.Errorf("%v", l.events)
		}
	})
}

// TestEnough checks that rounds end when more would add nothing, and that the record has the reason.
func TestEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Enough = func(v leak.Variant, r leak.VariantRecord) string {
			if v.Name == "leaky" && len(r.Snapshots) == 3 {
				return "beyond doubt"
			}
			return ""
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if v := record.Variant("leaky"); len(v.Snapshots) != 3 || v.Stopped != "beyond doubt" || v.Idle == nil {
			t.Errorf("leaky: %d snapshots, %q, idle %v", len(v.Snapshots), v.Stopped, v.Idle)
		}
		if v := record.Variant("fixed"); len(v.Snapshots) != 4 || v.Stopped != "" {
			t.Errorf("fixed: %d snapshots, %q", len(v.Snapshots), v.Stopped)
		}
	})
}

// TestWarmupRound checks that a warm-up may have its own actions.
func TestWarmupRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Scenario.Spec.Warmup.Round = []leak.Block[leak.Action]{{Kind: "post", Name: "post", Value: &fakeAction{l, "single", 1}}}
		if _, err := l.run(t, t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(l.events, "leaky single 1") || !slices.Contains(l.events, "leaky load 2") || slices.Contains(l.events, "leaky load 1") {
			t.Errorf("%v", l.events)
		}
	})
}

// slowAction has operations that miss their deadline.
type slowAction struct{ fakeAction }

func (a *slowAction) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	tally, err := a.fakeAction.Run(ctx, t, first)
	tally.Succeeded, tally.Failed, tally.TimedOut = 0, tally.Attempted, tally.Attempted
	return tally, err
}

// TestLookAgain checks that goroutines are read again ten seconds later if operations did not return. Goroutines that
// run, or are gone by then, are not blocked.
func TestLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Variants = l.Variants[:1]
		l.Scenario.Spec.Round[0].Value = &slowAction{fakeAction{l, "load", 4}}
		l.Scenario.Spec.Warmup.Rounds, l.LookAgain = 0, true
		l.polls = func(n int64) leak.Poll {
			p := polled("dump", map[string]int64{"stuck": n, "works": 3})
			s := p.Stacks["works"]
			s.State = "running"
			p.Stacks["works"] = s
			return p
		}
		record, err := l.run(t, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := record.Variant("leaky")
		if v.Snapshots[0].Sample("goroutine").BlockedRead {
			t.Error("the baseline was looked at again")
		}
		for i, s := range v.Snapshots[1:] {
			sample := s.Sample("goroutine")
			if !sample.BlockedRead || len(sample.Blocked) != 1 || sample.Blocked[0].Stack != "stuck" || sample.Blocked[0].Count != int64(4*(i+1)) {
				t.Errorf("round %d: %+v", i+1, sample.Blocked)
			}
		}
	})
}
