package profiles

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
)

// sweepProfile bounds one profile of a sweep, as it comes over the wire and decompressed. It holds some
// 20,000 different stacks.
const sweepProfile = 4 << 20

// Sweep reads the goroutines of many subjects at once, as profiles alone: a text dump stops the subject for
// as long as it is written, which is too much to ask of production every minute.
type Sweep struct {
	// decoding bounds how many profiles are decoded at a time, so that the memory that it takes does not grow
	// with how many are fetched.
	decoding chan struct{}
	label    string
}

// NewSweep makes one for any number of subjects. Label is the pprof label whose largest number a poll tells, ""
// for none.
func NewSweep(label string) *Sweep { return &Sweep{make(chan struct{}, runtime.GOMAXPROCS(0)), label} }

// Poll reads the groups once.
func (s *Sweep) Poll(ctx context.Context, t leak.Target) (leak.Poll, error) {
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
	p, err := sweptProfile(raw)
	var g *groups
	if err == nil {
		g, err = goroutineGroups(p)
	}
	if err != nil {
		return leak.Poll{}, fmt.Errorf("%s/goroutine: %w", t.Pprof, err)
	}
	return leak.Poll{Total: g.total, Source: SourceProfile, Groups: g.list(), Stacks: g.stacks, Count: largestLabel(p, s.label)}, nil
}

// largestLabel is the largest number that a sample carries as a label. What is no number from 0 up is passed over.
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

func sweptProfile(raw []byte) (*profile.Profile, error) {
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		var err error
		if raw, err = gunzip(raw, sweepProfile); err != nil {
			return nil, notAProfile(err)
		}
	}
	return parsePprof(raw)
}
