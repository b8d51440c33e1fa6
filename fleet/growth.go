package fleet

import (
	"bytes"
	"errors"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/rundir"
)

// leaking returns the leaking stacks that are counted in unit, with their growth over all targets.
func (v *Verdict) leaking(unit string) []profiles.Counted {
	var stacks []profiles.Counted
	for _, s := range v.Stacks {
		if s.Unit != unit || s.Stack == nil || s.other {
			continue
		}
		grown := int64(0)
		for _, g := range s.Targets {
			if g.Outcome == leak.Leaking {
				grown += int64(max(g.To-g.From, 0))
			}
		}
		if grown > 0 {
			stacks = append(stacks, profiles.Counted{Stack: *s.Stack, N: grown})
		}
	}
	return stacks
}

// writeGrowth writes what leaks as profiles, which `leakrig explain`, `leakrig match --skeleton` and `go tool pprof`
// read.
func writeGrowth(dir rundir.Dir, v *Verdict) error {
	var errs []error
	for _, unit := range []string{"goroutines", "bytes"} {
		stacks := v.leaking(unit)
		if len(stacks) == 0 {
			continue
		}
		var b bytes.Buffer
		if err := profiles.Write(&b, unit, stacks); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, dir.WriteFile(rundir.GrowthFile(unit), b.Bytes()))
	}
	return errors.Join(errs...)
}
