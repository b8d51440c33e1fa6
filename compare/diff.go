// Package compare compares profiles: two of them, one from production with a run, or one with the catalogue.
package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
)

// DiffOptions are the flags of `leakrig diff`.
type DiffOptions struct {
	Operations, Top int
	Whole           bool
	Max, Format     string
	HTML, Binary    string
}

// Diff prints what changed between two profiles, and returns the exit code.
func (f *DiffOptions) Diff(out io.Writer, base, now string) (int, error) {
	bound := leak.Quantity(-1)
	if f.Max != "" {
		if err := bound.UnmarshalText([]byte(f.Max)); err != nil || bound < 0 {
			return 0, &leak.UsageError{Err: errors.Join(errors.New("--max must not be negative"), err)}
		}
	}
	if f.Operations < 0 || f.Top < 0 {
		return 0, &leak.UsageError{Err: errors.New("--operations and --top must not be negative")}
	}
	if isHeapDump(base) && isHeapDump(now) {
		return f.diffDumps(out, base, now, bound)
	}
	before, err1 := profiles.Open(base)
	after, err2 := profiles.Open(now)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	d, err := profiles.Diff(before, after)
	if err != nil {
		return 0, err
	}
	d.Operations = f.Operations
	for i := range d.Stacks {
		if f.Operations > 0 {
			d.Stacks[i].PerOperation = float64(d.Stacks[i].To-d.Stacks[i].From) / float64(f.Operations)
		}
	}
	over := len(d.Stacks) > 0 && bound >= 0 && float64(d.Stacks[0].To-d.Stacks[0].From) > float64(bound)
	if f.Format == "json" {
		fitted := *d
		fitted.Fit()
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		err = enc.Encode(fitted)
	} else {
		reports.DiffText(out, d, f.Top, f.Whole)
	}
	if f.HTML != "" && err == nil {
		err = writeDiff(f.HTML, reports.DiffInput{Diff: d, Base: base, Now: now, Max: float64(bound)})
	}
	if over {
		return leak.ExitNotMet, err
	}
	return leak.ExitMet, err
}

// writeDiff writes the page whole or not at all.
func writeDiff(path string, in reports.DiffInput) error {
	var b bytes.Buffer
	if err := reports.Diff(&b, in); err != nil {
		return fmt.Errorf("render %s: %w", path, err)
	}
	return rundir.WriteFile(path, b.Bytes())
}
