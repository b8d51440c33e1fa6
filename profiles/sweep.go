package profiles

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"unsafe"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
)

// sweepProfile limits one profile of a sweep, as transferred and decompressed. It holds about 20,000 different
// stacks.
const sweepProfile = 4 << 20

// Limits of a sweep: concurrent decoders, bytes that decoding one profile may allocate, and bytes that one poll
// keeps.
const (
	sweepDecoders = 2
	sweepDecoded  = 64 << 20
	sweepKept     = 3 << 20
)

// Sweep reads the goroutines of many subjects at once, from profiles only: a text dump stops the subject while it is
// written, which is too expensive for production every minute.
type Sweep struct {
	// decoding bounds how many profiles are decoded at a time, so that the memory that it takes does not grow
	// with how many are fetched.
	decoding chan struct{}
	label    string
}

// NewSweep returns a Sweep for any number of subjects. Label is the pprof label whose largest number a poll returns,
// "" for none.
func NewSweep(label string) *Sweep {
	return &Sweep{make(chan struct{}, min(runtime.GOMAXPROCS(0), sweepDecoders)), label}
}

// Poll reads the groups once.
func (s *Sweep) Poll(ctx context.Context, t leak.Target, _ leak.Poll) (leak.Poll, error) {
	raw, err := fetchAtMost(ctx, t, "/goroutine", sweepProfile)
	if err != nil {
		return leak.Poll{}, err
	}
	select {
	case s.decoding <- struct{}{}:
		defer func() { <-s.decoding }()
	case <-ctx.Done():
		return leak.Poll{}, context.Cause(ctx)
	}
	p, err := decode(ctx, raw, sweepProfile, sweepDecoded)
	var g *groups
	if err == nil {
		g, err = goroutineGroups(p)
	}
	if err != nil {
		return leak.Poll{}, fmt.Errorf("%s/goroutine: %w", t.Pprof, err)
	}
	poll := leak.Poll{Total: g.total, Source: SourceProfile, Groups: g.list(), Stacks: g.stacks, Count: largestLabel(p, s.label)}
	return largestOf(poll, sweepKept), nil
}

// Heap returns a Poller that reads the sampled heap in use by allocation site, and shares the limits of s. It forces no
// collection: the profile shows the heap after the last one. Counts are KiB.
func (s *Sweep) Heap() leak.Poller { return heapSweep{s} }

type heapSweep struct{ *Sweep }

// Poll reads the allocation sites once. ErrNotServed is in the error of a subject without a heap profile.
func (s heapSweep) Poll(ctx context.Context, t leak.Target, _ leak.Poll) (leak.Poll, error) {
	raw, err := fetchAtMost(ctx, t, "/heap", sweepProfile)
	if err != nil {
		return leak.Poll{}, err
	}
	select {
	case s.decoding <- struct{}{}:
		defer func() { <-s.decoding }()
	case <-ctx.Done():
		return leak.Poll{}, context.Cause(ctx)
	}
	p, err := decode(ctx, raw, sweepProfile, sweepDecoded)
	var g *groups
	if err == nil {
		g, err = heapGroups(p)
	}
	if err != nil {
		return leak.Poll{}, fmt.Errorf("%s/heap: %w", t.Pprof, err)
	}
	return inKiB(g), nil
}

// inKiB returns the sites of a heap with their size in KiB.
func inKiB(g *groups) leak.Poll {
	poll := leak.Poll{Source: SourceHeap, Stacks: g.stacks}
	total := int64(0)
	for _, one := range g.list() {
		total += one.Bytes
		if one.Bytes >= 1<<10 {
			poll.Groups = append(poll.Groups, leak.Group{Stack: one.Stack, Count: one.Bytes >> 10})
		}
	}
	poll.Total = total >> 10
	return largestOf(poll, sweepKept)
}

// largestOf keeps the stacks with most goroutines within most bytes, and counts all others as one group without a stack.
// Many polls wait to be counted at the same time.
func largestOf(p leak.Poll, most int) leak.Poll {
	slices.SortStableFunc(p.Groups, func(a, b leak.Group) int { return cmp.Compare(b.Count, a.Count) })
	seen := map[stringKey]bool{}
	text := func(s string) int {
		key := stringKey{unsafe.StringData(s), len(s)}
		if seen[key] {
			return 0
		}
		seen[key] = true
		return perName + len(s)
	}
	kept, stacks, others := []leak.Group{}, map[string]leak.Stack{}, int64(0)
	for _, g := range p.Groups {
		stack := p.Stacks[g.Stack]
		most -= perGroup + perFrame*len(stack.Frames)
		for _, f := range stack.Frames {
			most -= text(f.Func) + text(f.File)
		}
		if most < 0 {
			others += g.Count
			continue
		}
		kept = append(kept, g)
		stacks[g.Stack] = stack
	}
	if others > 0 {
		kept = append(kept, leak.Group{Count: others})
	}
	p.Groups, p.Stacks = kept, stacks
	return p
}

// largestLabel returns the largest number of a label over all samples. It ignores values other than numbers from 0
// up.
func largestLabel(p *profile.Profile, label string) float64 {
	largest := 0.0
	for _, s := range p.Sample {
		for _, text := range s.Label[label] {
			if n, err := strconv.ParseFloat(text, 64); err == nil && n > largest && !math.IsInf(n, 0) {
				largest = n
			}
		}
	}
	return largest
}
