package runner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// split creates one measurement per replica. The first one leads: it runs the load for all of them, and its record is
// the variant's.
func (m *measurement) split() {
	subject, ok := m.subject.(leak.Replicated)
	if !ok {
		return
	}
	all := subject.Replicas()
	m.turns = map[string][]int{}
	again := len(m.record.Replicas) == len(all)-1 // of a soak that goes on
	if !again {
		m.record.Replicas = make([]leak.VariantRecord, len(all)-1)
	}
	for i, one := range all {
		r := m
		if i > 0 {
			if !again {
				m.record.Replicas[i-1] = leak.VariantRecord{Name: m.record.Name, Subject: one.Info(), Snapshots: []leak.Snapshot{}, Stacks: map[string]leak.Stack{}}
			}
			r = &measurement{run: m.run, variant: m.variant, record: &m.record.Replicas[i-1]}
		}
		r.subject, r.record.Replica = one, i+1
		r.name = fmt.Sprintf("%s replica %d", m.variant.Name, i+1)
		r.dir = path.Join(m.variant.Name, rundir.ReplicaDir(i+1))
		m.replicas = append(m.replicas, r)
	}
}

// each are the measurements of all replicas.
func (m *measurement) each() []*measurement {
	if m.replicas == nil {
		return []*measurement{m}
	}
	return m.replicas
}

// together does something with every replica at once: each settles in its own time. They share nothing but
// the run directory.
func (m *measurement) together(do func(i int, one *measurement) error) error {
	all := m.each()
	if len(all) == 1 {
		return do(0, all[0])
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() {
			if err := do(i, one); err != nil {
				errs[i] = fmt.Errorf("replica %d: %w", i+1, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// perform runs one action on the target that through returns; nil changes nothing. Replicas take their turns over all rounds: first comes who has had least of it.
func (m *measurement) perform(ctx context.Context, block leak.Block[leak.Action], through func(leak.Target) (leak.Target, error)) (leak.Tally, error) {
	if through == nil {
		through = func(t leak.Target) (leak.Target, error) { return t, nil }
	}
	target := m.subject.Target()
	target.Env = m.LoadEnv
	n := len(m.replicas)
	if n == 0 {
		target, err := through(target)
		if err != nil {
			return leak.Tally{}, err
		}
		return m.act(ctx, block, target)
	}
	got := m.turns[block.Name]
	if got == nil {
		got = make([]int, n)
		m.turns[block.Name] = got
	}
	first := slices.Index(got, slices.Min(got))
	for i := range n {
		replica := m.replicas[(first+i)%n].subject.Target()
		replica.Env = m.LoadEnv
		target.Replicas = append(target.Replicas, replica)
	}
	target, err := through(target)
	if err != nil {
		return leak.Tally{}, err
	}
	tally, err := m.act(ctx, block, target)
	if len(tally.Shares) != n {
		return tally, err
	}
	shares := make([]leak.Tally, n)
	for i, share := range tally.Shares {
		at := (first + i) % n
		shares[at] = share
		got[at] += share.Attempted
	}
	tally.Shares = shares
	return tally, err
}

// act performs the operations of an action, or has workers do it.
func (m *measurement) act(ctx context.Context, block leak.Block[leak.Action], target leak.Target) (leak.Tally, error) {
	if block.Workers == 0 {
		return block.Value.Run(ctx, target, m.next)
	}
	shared, ok1 := block.Value.(leak.Spreader)
	crew, ok2 := m.cluster.(leak.Crew)
	if !ok1 || !ok2 {
		return leak.Tally{}, leak.WithHint(errors.New("no workers can perform it here"), "leave workers out")
	}
	return shared.Spread(ctx, target, m.next, block.Workers, crew)
}

// warm notes the tallies of a warm-up round.
func (m *measurement) warm(tallies []leak.Tally) {
	for i, one := range m.each() {
		one.record.Warmup = append(one.record.Warmup, shares(tallies, i)...)
	}
}

// shares are the parts of the tallies that were for replica i.
func shares(tallies []leak.Tally, i int) []leak.Tally {
	var list []leak.Tally
	for _, t := range tallies {
		list = append(list, t.Share(i))
	}
	return list
}
