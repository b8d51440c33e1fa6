package runner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// crewCluster is a cluster that can run workers.
type crewCluster struct {
	leak.Cluster
}

func (crewCluster) RunWorkers(context.Context, leak.Work) ([]leak.WorkerEnd, error) { return nil, nil }

// sharedAction is performed by workers, and never by leakrig.
type sharedAction struct {
	t    *testing.T
	next int
}

func (a *sharedAction) MostWorkers() int { return 4 }

func (a *sharedAction) Run(context.Context, leak.Target, int) (leak.Tally, error) {
	a.t.Error("leakrig performed it")
	return leak.Tally{}, nil
}

func (a *sharedAction) Spread(_ context.Context, _ leak.Target, first, workers int, crew leak.Crew) (leak.Tally, error) {
	if _, ok := crew.(crewCluster); !ok || workers != 3 || first != a.next {
		a.t.Errorf("%d workers of %T from operation %d, want %d", workers, crew, first, a.next)
	}
	a.next += 6
	return leak.Tally{Attempted: 6, Succeeded: 4, Failed: 2, Workers: []leak.WorkerTally{{First: first, Operations: 2, Lost: "evicted"}}}, nil
}

// TestWorkers checks that workers perform an action with workers, that operation numbers continue between rounds even
// if workers are lost, and that nothing is measured if the cluster does not support workers.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		action := &sharedAction{t, 1}
		l.Scenario.Spec.Round[0] = leak.Block[leak.Action]{Kind: "post", Name: "post", Value: action, Workers: 3}
		l.Variants = l.Variants[:1]
		boot := l.Boot
		l.Boot = func(ctx context.Context, v leak.Variant) (leak.Cluster, error) {
			c, err := boot(ctx, v)
			return crewCluster{c}, err
		}
		record, err := l.run(t, t.Context())
		if err != nil || record.Variants[0].Failure != nil {
			t.Fatalf("%v %+v", err, record.Variants[0].Failure)
		}
		v := record.Variants[0]
		if got := v.Final(); got.Operations != 18 || len(got.Load[0].Workers) != 1 || got.Load[0].Workers[0].Lost != "evicted" || got.Load[0].Workers[0].First != 19 {
			t.Errorf("%+v", got)
		}
		l.Boot, action.next = boot, 1
		l.Dir = rundir.Dir(t.TempDir())
		record, err = l.run(t, t.Context())
		if err != nil || record.Variants[0].Failure == nil || !strings.Contains(record.Variants[0].Failure.Message, "no workers") {
			t.Errorf("%v %+v", err, record.Variants[0].Failure)
		}
	})
}
