package runner

import (
	"maps"
	"slices"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// A variant is measured into a draft of its record. Several variants may be measured at once, and each of them writes
// the record of the run after a round, so a variant publishes a copy of its draft.

// draft returns the record of the i-th variant, to measure into.
func (r *run) draft(i int) leak.VariantRecord {
	r.writing.Lock()
	defer r.writing.Unlock()
	return copied(&r.record.Variants[i])
}

// publish puts a copy of a draft into the record of the run.
func (r *run) publish(i int, draft *leak.VariantRecord) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.record.Variants[i] = copied(draft)
}

// save publishes the draft and writes the record of the run.
func (m *measurement) save() error {
	m.publish(m.index, m.record)
	return m.run.save()
}

// copied copies what measuring changes in place: maps, replicas, the state of a soak. Lists only get longer.
func copied(v *leak.VariantRecord) leak.VariantRecord {
	c := *v
	c.Stacks = maps.Clone(v.Stacks)
	c.Replicas = slices.Clone(v.Replicas)
	for i := range c.Replicas {
		c.Replicas[i] = copied(&v.Replicas[i])
	}
	if v.Holders != nil {
		holders := *v.Holders
		holders.Components = maps.Clone(holders.Components)
		c.Holders = &holders
	}
	if v.Soak != nil {
		soak := *v.Soak
		c.Soak = &soak
	}
	return c
}

// tookRound notes how long a round of a variant took, if it is not 0, and returns what the last variant noted.
func (r *run) tookRound(d time.Duration) time.Duration {
	r.writing.Lock()
	defer r.writing.Unlock()
	if d > 0 {
		r.round = d
	}
	return r.round
}

// forgetHash forgets a raw file that was removed.
func (r *run) forgetHash(name string) {
	r.writing.Lock()
	defer r.writing.Unlock()
	delete(r.hashes, name)
}
