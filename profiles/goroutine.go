package profiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/leakrig/leakrig/leak"
)

var goroutineKind = leak.Kind[leak.Probe]{
	Name: "goroutine",
	Doc: "Goroutines, grouped by wait state, stack and creator. " +
		"It reads /goroutine as a profile and, up to dumpLimit goroutines, as a text dump. Only the dump has creators and exact wait states.",
	Metrics: []leak.Metric{{Name: "count", Unit: "goroutines", Doc: "goroutines, without the one that serves leakrig"}},
	New:     func() leak.Probe { return &Goroutine{DumpLimit: 20_000} },
}

// Goroutine reads goroutines. It implements leak.Poller, and settling uses it.
type Goroutine struct {
	DumpLimit int `yaml:"dumpLimit,omitempty" doc:"maximum number of goroutines for a text dump, which stops the subject"`
}

// Validate refuses a negative limit.
func (g *Goroutine) Validate() error {
	if g.DumpLimit < 0 {
		return &leak.FieldError{Field: "dumpLimit", Problem: "must not be negative", Hint: "0 takes no text dumps at all"}
	}
	return nil
}

type goroutineReading struct {
	// dump is nil if it was not taken, and profile is nil if the subject has no pprof.
	profile, dump       *groups
	profileRaw, dumpRaw []byte
	// same is equal for equal profiles.
	same string
}

// best is the richest source that was read.
func (r *goroutineReading) best() (string, *groups) {
	if r.dump != nil {
		return SourceDump, r.dump
	}
	return SourceProfile, r.profile
}

func (g *Goroutine) read(ctx context.Context, t leak.Target) (r goroutineReading, err error) {
	if t.Dump != nil {
		return dumped(ctx, t)
	}
	if err = r.readProfile(ctx, t); err == nil && r.profile.total <= int64(g.DumpLimit) {
		err = r.readDump(ctx, t)
	}
	return r, err
}

// readDump reads the text dump. If the subject serves none, or it is truncated, there is no dump and no error.
func (r *goroutineReading) readDump(ctx context.Context, t leak.Target) error {
	raw, err := fetch(ctx, t, "/goroutine?debug=2")
	if errors.Is(err, errNotServed) || err == nil && len(raw) >= dumpEnd {
		return nil
	}
	if err != nil {
		return err
	}
	if r.dump, err = parseDump(raw); err != nil {
		return fmt.Errorf("%s/goroutine?debug=2: %w", t.Pprof, err)
	}
	r.dumpRaw = raw
	return nil
}

// readProfile reads the profile. It frees the decoded profile before it returns.
func (r *goroutineReading) readProfile(ctx context.Context, t leak.Target) (err error) {
	if r.profileRaw, err = fetchAtMost(ctx, t, "/goroutine", maxFile); err != nil {
		return err
	}
	p, err := decode(ctx, r.profileRaw, maxProfile, maxDecoded)
	if err == nil {
		r.profile, err = goroutineGroups(p)
	}
	if err != nil {
		return fmt.Errorf("%s/goroutine: %w", t.Pprof, err)
	}
	r.same = sameness(p)
	return nil
}

// dumped reads a subject that writes text dumps and serves no pprof.
func dumped(ctx context.Context, t leak.Target) (r goroutineReading, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	raw, err := t.Dump(ctx)
	if err == nil && len(raw) >= dumpEnd {
		err = fmt.Errorf("the dump is larger than %d MiB", dumpEnd>>20)
	}
	if err != nil {
		return r, err
	}
	r.dumpRaw = raw
	r.dump, err = parseDump(raw)
	return r, err
}

// Poll reads the groups once from the most detailed available source. Each source stops the subject, so if before
// names the source, Poll reads only that one.
func (g *Goroutine) Poll(ctx context.Context, t leak.Target, before leak.Poll) (leak.Poll, error) {
	ctx, done := lend(ctx)
	defer done()
	var r goroutineReading
	var err error
	switch few := before.Total <= int64(g.DumpLimit); {
	case t.Dump == nil && before.Source == SourceDump && few:
		err = r.readDump(ctx, t)
	case before.Source == SourceProfile && !few:
		err = r.readProfile(ctx, t)
	}
	if err == nil && r.dump == nil && (r.profile == nil || r.profile.total <= int64(g.DumpLimit)) {
		r, err = g.read(ctx, t)
	}
	if err != nil {
		return leak.Poll{}, err
	}
	source, best := r.best()
	return leak.Poll{Total: best.total, Source: source, Groups: best.list(), Stacks: best.stacks}, nil
}

// Sample reads the groups from every source and keeps the raw files.
func (g *Goroutine) Sample(ctx context.Context, t leak.Target) (leak.Reading, error) {
	ctx, done := lend(ctx)
	defer done()
	r, err := g.read(ctx, t)
	if err != nil {
		return leak.Reading{}, err
	}
	_, best := r.best()
	reading := leak.Reading{
		Sample: leak.Sample{
			Probe:  goroutineKind.Name,
			Values: map[string]float64{"count": float64(best.total)},
			Groups: map[string][]leak.Group{},
		},
		Stacks: map[string]leak.Stack{},
	}
	if r.profile != nil {
		reading.Sample.Groups[SourceProfile] = r.profile.list()
		maps.Copy(reading.Stacks, r.profile.stacks)
		reading.Files = append(reading.Files, leak.File{Name: "goroutine.pb.gz", Data: r.profileRaw, Same: r.same})
	}
	if r.dump != nil {
		reading.Sample.Groups[SourceDump] = r.dump.list()
		maps.Copy(reading.Stacks, r.dump.stacks)
		z, err := compress(r.dumpRaw)
		if err == nil && len(z) > maxFile {
			err = fmt.Errorf("%s/goroutine?debug=2: compressed it is larger than %d MiB", t.Pprof, maxFile>>20)
		}
		if err != nil {
			return leak.Reading{}, err
		}
		reading.Files = append(reading.Files, leak.File{Name: "goroutine.txt.gz", Data: z})
	}
	return reading, nil
}

func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}
