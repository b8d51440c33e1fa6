package runner

import (
	"fmt"
	"sync"

	"github.com/leakrig/leakrig/leak"
)

// Limits of one run, over all variants and replicas: maxRecorded for stacks and groups in the record, which stays in memory
// until the end, and maxRaw for raw files. A program with 10,000 stacks needs about 76 MiB of record for 20 rounds.
const (
	maxRecorded = 96 << 20
	maxRaw      = 1 << 30
)

// room is what a run has kept so far.
type room struct {
	mu            sync.Mutex
	recorded, raw int64
}

// record takes room in the record.
func (r *room) record(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recorded += bytes; r.recorded > maxRecorded {
		return leak.WithHint(fmt.Errorf("the record would be larger than %d MiB: the subject reports too many stacks", maxRecorded>>20),
			"check whether the subject invents names or stacks; reduce rounds, replicas or probes")
	}
	return nil
}

// recount sets what the record takes, once some of it was dropped.
func (r *room) recount(all *leak.Record) {
	var sum int64
	for i := range all.Variants {
		sum += variantSize(&all.Variants[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = sum
}

// file takes room for a raw file, or gives it back where bytes is negative.
func (r *room) file(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.raw += bytes; r.raw > maxRaw {
		return leak.WithHint(fmt.Errorf("the raw profiles of the run would take more than %d MiB", maxRaw>>20), "reduce rounds or replicas")
	}
	return nil
}

func variantSize(v *leak.VariantRecord) int64 {
	var sum int64
	for _, s := range v.Stacks {
		sum += stackSize(s)
	}
	for s := range everySnapshot(v) {
		for i := range s.Samples {
			sum += sampleSize(&s.Samples[i])
		}
	}
	for i := range v.Replicas {
		sum += variantSize(&v.Replicas[i])
	}
	return sum
}

// stackSize is about what a stack takes in run.json.
func stackSize(s leak.Stack) int64 {
	sum := 80 + len(s.State)
	for _, f := range s.Frames {
		sum += 60 + len(f.Func) + len(f.File)
	}
	return int64(sum)
}

// sampleSize is about what the groups of a sample take in run.json.
func sampleSize(s *leak.Sample) int64 {
	sum := 0
	for _, groups := range s.Groups {
		for _, g := range groups {
			sum += 90 + 12*len(g.IDs)
		}
	}
	return int64(sum)
}
