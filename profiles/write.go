package profiles

import (
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/leakrig/leakrig/leak"
)

// Counted is a stack with its goroutines or bytes.
type Counted struct {
	leak.Stack
	N int64
}

// Write writes stacks as a pprof profile in the unit "goroutines" or "bytes", which Open and `go tool pprof` read. The
// innermost frame of a goroutine is the runtime function of its wait state.
func Write(w io.Writer, unit string, stacks []Counted) error {
	kind := &profile.ValueType{Type: "goroutine", Unit: "count"}
	if unit == "bytes" {
		kind = &profile.ValueType{Type: "inuse_space", Unit: "bytes"}
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{kind}, PeriodType: kind, Period: 1}
	functions, locations := map[[2]string]*profile.Function{}, map[leak.Frame]*profile.Location{}
	at := func(f leak.Frame) *profile.Location {
		if l := locations[f]; l != nil {
			return l
		}
		key := [2]string{f.Func, f.File}
		fn := functions[key]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(functions) + 1), Name: f.Func, SystemName: f.Func, Filename: f.File}
			functions[key] = fn
			p.Function = append(p.Function, fn)
		}
		l := &profile.Location{ID: uint64(len(locations) + 1), Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
		locations[f] = l
		p.Location = append(p.Location, l)
		return l
	}
	for _, s := range stacks {
		sample := &profile.Sample{Value: []int64{s.N}}
		if fn := parkedIn(s.State); fn != "" {
			sample.Location = append(sample.Location, at(leak.Frame{Func: fn}))
		}
		for _, f := range s.Frames {
			sample.Location = append(sample.Location, at(f))
		}
		p.Sample = append(p.Sample, sample)
	}
	if err := p.Write(w); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

// parkedIn returns the function of package runtime from which unpark derives the wait state, "" if there is none.
func parkedIn(state string) string {
	for _, w := range waits {
		if w.state == state && parks(w.fn) {
			return w.fn
		}
	}
	return ""
}
