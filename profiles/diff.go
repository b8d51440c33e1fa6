package profiles

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// Profile is one goroutine or heap profile, or text dump, of any origin.
type Profile struct {
	// Source is SourceDump, SourceProfile, SourceHeap or SourceLeaked.
	Source string
	// Rate is how many bytes are allocated between two samples of a heap profile.
	Rate   int64
	Groups []leak.Group
	Stacks map[string]leak.Stack
}

// Open reads a profile from a file: pprof's format or a text dump (debug=2), gzipped or not.
func Open(path string) (*Profile, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		err = leak.WithHint(err, "it is a file: `curl -so before.pb.gz http://HOST/debug/pprof/goroutine` makes one")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := rundir.ReadBounded(f, maxBody)
	if err == nil {
		var p *Profile
		if p, err = Parse(data); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// Parse detects the format of the data.
func Parse(data []byte) (*Profile, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		var err error
		if data, err = gunzip(data, maxProfile); err != nil {
			return nil, notAProfile(err)
		}
	}
	if len(data) > maxProfile {
		return nil, notAProfile(fmt.Errorf("larger than %d MiB", maxProfile>>20))
	}
	if bytes.HasPrefix(data, []byte("goroutine ")) && !bytes.HasPrefix(data, []byte("goroutine profile:")) {
		g, err := parseDump(data)
		if err != nil {
			return nil, err
		}
		return &Profile{Source: SourceDump, Groups: g.list(), Stacks: g.stacks}, nil
	}
	if bytes.HasPrefix(data, []byte("goroutine profile:")) || bytes.HasPrefix(data, []byte("heap profile:")) {
		return nil, leak.WithHint(errors.New("a profile in text form (debug=1), which has neither wait states nor sizes"),
			"take it without debug=1; of goroutines, debug=2 will do too")
	}
	p, err := parsePprof(data)
	if err != nil {
		return nil, err
	}
	return grouped(p)
}

// grouped groups the samples of a parsed profile, according to the types of its values.
func grouped(p *profile.Profile) (*Profile, error) {
	source, group := SourceProfile, goroutineGroups
	for _, t := range p.SampleType {
		switch t.Type {
		case "inuse_space":
			source, group = SourceHeap, heapGroups
		case "goroutineleak":
			source, group = SourceLeaked, leakedGroups
		}
	}
	g, err := group(p)
	if err != nil {
		return nil, leak.WithHint(errors.New("neither a goroutine nor a heap profile"), "leakrig reads goroutine, goroutineleak, heap and allocs profiles")
	}
	shot := &Profile{Source: source, Groups: g.list(), Stacks: g.stacks}
	if source == SourceHeap {
		shot.Rate = p.Period
	}
	return shot, nil
}

// Amount returns the bytes of a group of a heap profile, and else the number of goroutines.
func (p *Profile) Amount(g leak.Group) int64 {
	if p.Source == SourceHeap {
		return g.Bytes
	}
	return g.Count
}

// Total is the sum of all groups.
func (p *Profile) Total() int64 {
	var sum int64
	for _, g := range p.Groups {
		sum += p.Amount(g)
	}
	return sum
}

// Unit is what Amount counts.
func (p *Profile) Unit() string {
	if p.Source == SourceHeap {
		return "bytes"
	}
	return "goroutines"
}

// Diff subtracts base from now, stack by stack. It first matches stacks that are equal including lines, and then the
// rest by Key, so that builds with other lines, closures or inlined calls can be compared. Profiles of different
// forms cannot be compared: only a dump has creators and all wait states.
func Diff(base, now *Profile) (*leak.Diff, error) {
	if base.Source != now.Source {
		return nil, leak.WithHint(fmt.Errorf("one is %s, the other %s", forms[base.Source], forms[now.Source]), "take both in the same form")
	}
	d := &leak.Diff{Unit: now.Unit(), Source: now.Source, From: base.Total(), To: now.Total(), Stacks: []leak.StackGrowth{}}
	before := make(map[string]leak.Group, len(base.Groups))
	for _, g := range base.Groups {
		before[g.Stack] = g
	}
	var rest []leak.Group
	for _, g := range now.Groups {
		old, ok := before[g.Stack]
		if !ok {
			rest = append(rest, g)
			continue
		}
		delete(before, g.Stack)
		add(d, now.growth(g, old))
	}
	byKey := map[string]*leak.StackGrowth{}
	for _, g := range rest {
		merge(byKey, now.Stacks[g.Stack].Key(), now.growth(g, leak.Group{}))
	}
	for _, old := range base.Groups {
		if _, left := before[old.Stack]; left {
			merge(byKey, base.Stacks[old.Stack].Key(), base.growth(leak.Group{Stack: old.Stack}, old))
		}
	}
	for _, s := range byKey {
		add(d, *s)
	}
	slices.SortFunc(d.Stacks, func(a, b leak.StackGrowth) int {
		return cmp.Or(cmp.Compare(b.To-b.From, a.To-a.From), cmp.Compare(b.To, a.To), cmp.Compare(a.ID, b.ID))
	})
	return d, nil
}

var forms = map[string]string{
	SourceDump: "a text dump of goroutines", SourceProfile: "a goroutine profile", SourceHeap: "a heap profile",
	SourceLeaked: "a goroutine leak profile",
}

// growth is what one group gained since old.
func (p *Profile) growth(g, old leak.Group) leak.StackGrowth {
	s := leak.StackGrowth{ID: g.Stack, Stack: p.Stacks[g.Stack], From: p.Amount(old), To: p.Amount(g), OldestMinutes: g.OldestMinutes}
	if p.Source == SourceHeap {
		s.Objects = g.Count - old.Count
	}
	return s
}

// merge sums the stacks with the same key. The first of them represents all.
func merge(all map[string]*leak.StackGrowth, key string, s leak.StackGrowth) {
	known, ok := all[key]
	if !ok {
		all[key] = &s
		return
	}
	known.From, known.To, known.Objects = known.From+s.From, known.To+s.To, known.Objects+s.Objects
	known.OldestMinutes = max(known.OldestMinutes, s.OldestMinutes)
}

func add(d *leak.Diff, s leak.StackGrowth) {
	if s.From == s.To {
		d.Same++
		return
	}
	d.Stacks = append(d.Stacks, s)
}
