package reports

import (
	"fmt"
	"maps"
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// room limits how much of the measurements a page shows: stacks, frames per stack, and bytes per name.
type room struct{ stacks, frames, name int }

// rooms are the limits to try, largest first, until the page is at most display.MaxOutput. Any program built by Go fits
// into the first. Only a subject that invents names needs the others.
var rooms = []room{{20, 1024, 1 << 20}, {20, 128, 1024}, {10, 64, 200}, {3, 16, 100}, {0, 4, 60}}

// fit returns the input reduced to the limits of r, with a warning if it cut stacks.
func fit(in Input, r room) Input {
	cut := false
	stack := func(s leak.Stack) leak.Stack {
		if !fits(s, r) {
			cut = true
			return s.Cut(r.frames, r.name)
		}
		return s
	}
	list := func(all []leak.StackGrowth) []leak.StackGrowth {
		cut = cut || len(all) > r.stacks
		all = slices.Clone(all[:min(len(all), r.stacks)])
		for i := range all {
			all[i].Stack = stack(all[i].Stack)
		}
		return all
	}
	if v := in.Verdict; v != nil {
		short := *v
		short.Variants = slices.Clone(v.Variants)
		for i := range short.Variants {
			one := &short.Variants[i]
			one.Growing, one.HeapGrowing = list(one.Growing), list(one.HeapGrowing)
			one.Findings = slices.Clone(one.Findings)
			for k := range one.Findings {
				one.Findings[k].Stacks = list(one.Findings[k].Stacks)
			}
		}
		in.Verdict = &short
	}
	if in.Record != nil {
		short := *in.Record
		short.Variants = slices.Clone(short.Variants)
		for i := range short.Variants {
			short.Variants[i] = fitVariant(short.Variants[i], stack)
		}
		if cut {
			short.Warnings = append(slices.Clone(short.Warnings), fmt.Sprintf("stacks or names of them are cut: the page would be larger than %d MiB", display.MaxOutput>>20))
		}
		in.Record = &short
	}
	return in
}

func fitVariant(v leak.VariantRecord, stack func(leak.Stack) leak.Stack) leak.VariantRecord {
	v.Stacks = maps.Clone(v.Stacks)
	for id, s := range v.Stacks {
		v.Stacks[id] = stack(s)
	}
	v.Replicas = slices.Clone(v.Replicas)
	for i := range v.Replicas {
		v.Replicas[i] = fitVariant(v.Replicas[i], stack)
	}
	return v
}

// fits reports whether a stack needs no cut.
func fits(s leak.Stack, r room) bool {
	long := func(f leak.Frame) bool { return len(f.Func) > r.name || len(f.File) > r.name }
	return len(s.Frames) <= r.frames && len(s.State) <= r.name && !slices.ContainsFunc(s.Frames, long) && (s.Creator == nil || !long(*s.Creator))
}

// tooLong reports whether the stacks of the verdict exceed leak.MaxStackText.
func tooLong(in Input) bool {
	left := leak.MaxStackText
	long := func(all []leak.StackGrowth) bool {
		for _, g := range all {
			if left -= g.Stack.JSONSize(); left < 0 {
				return true
			}
		}
		return false
	}
	if in.Verdict == nil {
		return false
	}
	for _, v := range in.Verdict.Variants {
		if long(v.Growing) || long(v.HeapGrowing) {
			return true
		}
		for _, f := range v.Findings {
			if long(f.Stacks) {
				return true
			}
		}
	}
	return false
}
