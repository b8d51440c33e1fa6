package reports

import (
	"fmt"
	"io"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// DiffText prints the stacks that grew and shrank, at most top of each, with whole stacks or their innermost frames.
func DiffText(out io.Writer, d *leak.Diff, top int, whole bool) {
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
	value := func(n int64) string { return display.Value(float64(n), d.Unit) }
	fmt.Fprintf(out, "%s  %s → %s (%s)  %d stacks grew (%d new), %d shrank (%d gone), %d unchanged\n",
		d.Unit, value(d.From), value(d.To), display.Delta(float64(d.To-d.From), d.Unit), grew, fresh, shrank, gone, d.Same)
	show := func(title string, list []leak.StackGrowth) {
		if len(list) == 0 {
			return
		}
		more := max(len(list)-top, 0)
		fmt.Fprintf(out, "\n%s\n", title)
		for _, s := range list[:len(list)-more] {
			printGrowth(out, d, s, whole)
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
		rate = "  " + display.Rate(s.PerOperation, d.Unit) + "/op"
	}
	fmt.Fprintf(out, "  %12s%s  %s  %s\n", display.Delta(float64(s.To-s.From), d.Unit), rate, display.Value(float64(s.From), d.Unit)+" → "+display.Value(float64(s.To), d.Unit), display.Printable(s.Stack.String()))
	note := ""
	if s.Stack.Creator != nil {
		note += ", created by " + s.Stack.Creator.Short()
	}
	if s.OldestMinutes > 0 {
		note += fmt.Sprintf(", the oldest for %d minutes", s.OldestMinutes)
	}
	if s.Objects != 0 {
		note += fmt.Sprintf(", %s objects", display.Delta(float64(s.Objects), "objects"))
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
		fmt.Fprintf(out, "  %12s  %s%s%s\n", "", display.Printable(name), display.Printable(frame.Position()), display.Printable(note))
	}
}
