package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
)

type diffFlags struct {
	operations, top int
	whole           bool
	max, format     string
	html, binary    string
}

func (a *app) diffCommand() *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:   "diff BASE NOW",
		Short: "Compare two profiles or heap dumps, stack by stack",
		Long: `Compare two goroutine profiles, heap profiles or goroutine dumps (debug=2), gzipped or not. diff pairs
stacks by wait state, functions and creator. For profiles of different builds, it uses names that do
not depend on the compiler version, inlining or line numbers.

For two heap dumps of one process, diff also prints who holds the memory that grew.

With --max, the exit code is 1 if a stack gained more than that.`,
		Example: `  leakrig diff before.pb.gz after.pb.gz
  leakrig diff before.pb.gz after.pb.gz --html what-changed.html
  leakrig diff monday.txt friday.txt --operations 5000 --max 10
  leakrig diff before.dump after.dump --binary ./server`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.code, err = f.diff(c.OutOrStdout(), args[0], args[1])
			return err
		},
	}
	c.Flags().IntVar(&f.operations, "operations", 0, "number of operations between the profiles, for growth per operation")
	c.Flags().IntVar(&f.top, "top", 10, "number of growing and of shrinking stacks to print")
	c.Flags().BoolVar(&f.whole, "whole", false, "print whole stacks")
	c.Flags().StringVar(&f.max, "max", "", "maximum gain of one stack, such as 10 or 2MiB (default: no limit)")
	c.Flags().StringVar(&f.html, "html", "", "`file` for a page with a flame graph of the change and all stacks")
	c.Flags().StringVar(&f.binary, "binary", "", "`file` of the dumped program, for names and types in heap dumps")
	wordFlag(c, &f.format, "format", "text", textFormats(), "output format")
	return c
}

func (f *diffFlags) diff(out io.Writer, base, now string) (int, error) {
	bound := leak.Quantity(-1)
	if f.max != "" {
		if err := bound.UnmarshalText([]byte(f.max)); err != nil || bound < 0 {
			return 0, &leak.UsageError{Err: errors.Join(errors.New("--max must not be negative"), err)}
		}
	}
	if f.operations < 0 || f.top < 0 {
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
	d.Operations = f.operations
	for i := range d.Stacks {
		if f.operations > 0 {
			d.Stacks[i].PerOperation = float64(d.Stacks[i].To-d.Stacks[i].From) / float64(f.operations)
		}
	}
	over := len(d.Stacks) > 0 && bound >= 0 && float64(d.Stacks[0].To-d.Stacks[0].From) > float64(bound)
	if f.format == "json" {
		fitted := *d
		fitted.Fit()
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		err = enc.Encode(fitted)
	} else {
		printDiff(out, d, f)
	}
	if f.html != "" && err == nil {
		err = writeDiff(f.html, reports.DiffInput{Diff: d, Base: base, Now: now, Max: float64(bound)})
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
	return leak.WriteFile(path, b.Bytes())
}

func printDiff(out io.Writer, d *leak.Diff, f *diffFlags) {
	grew, shrank, fresh, gone := 0, 0, 0, 0
	for _, s := range d.Stacks {
		switch {
		case s.To > s.From:
			grew++
		default:
			shrank++
		}
		if s.From == 0 {
			fresh++
		}
		if s.To == 0 {
			gone++
		}
	}
	value := func(n int64) string { return leak.FormatValue(float64(n), d.Unit) }
	fmt.Fprintf(out, "%s  %s → %s (%s)  %d stacks grew (%d new), %d shrank (%d gone), %d unchanged\n",
		d.Unit, value(d.From), value(d.To), leak.FormatDelta(float64(d.To-d.From), d.Unit), grew, fresh, shrank, gone, d.Same)
	show := func(title string, list []leak.StackGrowth) {
		if len(list) == 0 {
			return
		}
		more := max(len(list)-f.top, 0)
		fmt.Fprintf(out, "\n%s\n", title)
		for _, s := range list[:len(list)-more] {
			printGrowth(out, d, s, f.whole)
		}
		if more > 0 {
			fmt.Fprintf(out, "  and %d more (--top)\n", more)
		}
	}
	show("grew", d.Stacks[:grew])
	fallen := make([]leak.StackGrowth, 0, shrank) // the deepest fall first
	for i := len(d.Stacks) - 1; i >= grew; i-- {
		fallen = append(fallen, d.Stacks[i])
	}
	show("shrank", fallen)
}

func printGrowth(out io.Writer, d *leak.Diff, s leak.StackGrowth, whole bool) {
	rate := ""
	if d.Operations > 0 {
		rate = "  " + leak.FormatRate(s.PerOperation, d.Unit) + "/op"
	}
	fmt.Fprintf(out, "  %12s%s  %s  %s\n", leak.FormatDelta(float64(s.To-s.From), d.Unit), rate, leak.FormatValue(float64(s.From), d.Unit)+" → "+leak.FormatValue(float64(s.To), d.Unit), leak.Printable(s.Stack.String()))
	note := ""
	if s.Stack.Creator != nil {
		note += ", created by " + s.Stack.Creator.Short()
	}
	if s.OldestMinutes > 0 {
		note += fmt.Sprintf(", the oldest for %d minutes", s.OldestMinutes)
	}
	if s.Objects != 0 {
		note += fmt.Sprintf(", %s objects", leak.FormatDelta(float64(s.Objects), "objects"))
	}
	frames := s.Stack.Frames
	if !whole {
		frames = frames[:min(1, len(frames))]
	}
	for i, frame := range frames {
		name := ""
		if whole {
			name = frame.Func + "  "
		}
		if i > 0 {
			note = ""
		}
		fmt.Fprintf(out, "  %12s  %s%s%s\n", "", leak.Printable(name), leak.Printable(frame.Position()), leak.Printable(note))
	}
}
