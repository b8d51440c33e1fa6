package profiles

import (
	"fmt"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// BenchmarkDiff subtracts 10,000 stacks from 10,000 stacks.
func BenchmarkDiff(b *testing.B) {
	base, now := manyStacks(10_000, 10), manyStacks(10_000, 11)
	b.ReportAllocs()
	for b.Loop() {
		if d, err := Diff(base, now); err != nil || len(d.Stacks) != 10_000 {
			b.Fatal(d, err)
		}
	}
}

// manyStacks returns a profile of n stacks with each goroutines per stack.
func manyStacks(n int, each int64) *Profile {
	p := &Profile{Source: SourceDump, Stacks: map[string]leak.Stack{}}
	for i := range n {
		s := leak.Stack{State: "select", Frames: []leak.Frame{{Func: fmt.Sprintf("p.f%d", i), Line: i}, {Func: "p.main", Line: 1}}}
		p.Stacks[s.ID()] = s
		p.Groups = append(p.Groups, leak.Group{Stack: s.ID(), Count: each})
	}
	return p
}
