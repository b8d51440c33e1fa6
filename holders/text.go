package holders

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// String names the holder as a report does: "main.registry", "389 goroutines at watch.(*StreamWatcher).receive".
func (h Holder) String() string {
	name := shortName(h.Name)
	if name == "" {
		name = "an unknown function"
	}
	plural := "s"
	if h.Count == 1 {
		plural = ""
	}
	switch h.Kind {
	case KindGoroutines:
		return fmt.Sprintf("%d goroutine%s at %s", h.Count, plural, name)
	case KindTimer:
		return fmt.Sprintf("%d timer%s of %s", h.Count, plural, name)
	case KindFinalizer:
		return fmt.Sprintf("%d finalizer%s %s", h.Count, plural, name)
	case KindRuntime:
		return name + " of the runtime"
	}
	return name
}

// Holder joins the names of all holders.
func (h Holding) Holder() string {
	var names []string
	for _, holder := range h.Holders {
		names = append(names, holder.String())
	}
	text := strings.Join(names, " and ")
	if h.More > 0 {
		text += fmt.Sprintf(" and %d more", h.More)
	}
	return text
}

// String is the headline of growth: "+16.0 MiB held by main.registry, allocated at main.render (main.go:52)".
func (g Growth) String() string {
	return fmt.Sprintf("%s held by %s, allocated at %s", display.Delta(g.Bytes, "bytes"), g.Holder(), allocatedAt(g.Frames))
}

// PerOperation is the headline of growth per operation: "+16.0 KiB per operation, held by main.registry, allocated at …".
func (g Growth) PerOperation(operations int) string {
	return fmt.Sprintf("%s per operation, held by %s, allocated at %s",
		display.Rate(g.Bytes/float64(operations), "bytes"), g.Holder(), allocatedAt(g.Frames))
}

func allocatedAt(frames []leak.Frame) string {
	f := ownFrame(frames)
	if f.File == "" {
		return shortName(f.Func)
	}
	return fmt.Sprintf("%s (%s:%d)", shortName(f.Func), path.Base(f.File), f.Line)
}

// String is "389 goroutines at watch.(*StreamWatcher).receive hold 5.7 MiB, 14.7 KiB each".
func (r Retained) String() string {
	text := fmt.Sprintf("%s hold %s", r.Holder, display.Value(float64(r.Bytes), "bytes"))
	switch {
	case r.Holder.Count > 1:
		text += fmt.Sprintf(", %s each", display.Value(float64(r.Bytes)/float64(r.Holder.Count), "bytes"))
	default:
		text = strings.Replace(text, " hold ", " holds ", 1)
	}
	return text
}

// WriteGrowth writes what grew between two dumps, at most top entries, and the goroutines that hold most in the second.
// Growth is per operation unless operations is 0.
func WriteGrowth(w io.Writer, baseline, last *Summary, growth []Growth, operations, top int) {
	value := func(n uint64) string { return display.Value(float64(n), "bytes") }
	fmt.Fprintf(w, "heap  %s → %s  %d → %d objects\n", value(baseline.Bytes), value(last.Bytes), baseline.Objects, last.Objects)
	if len(growth) > 0 && top > 0 {
		fmt.Fprintf(w, "\ngrew (estimated from allocation samples)\n")
	}
	for _, g := range growth[:min(len(growth), top)] {
		line := g.String()
		if operations > 0 {
			line = g.PerOperation(operations)
		}
		fmt.Fprintf(w, "  %s\n", line)
		fmt.Fprintf(w, "      %.0f %% of the growth of this stack, %d samples, about %.0f objects of %s\n",
			100*g.Share, g.Sampled, g.Objects, display.Value(g.Bytes/max(g.Objects, 1), "bytes"))
		if g.Path != "" {
			fmt.Fprintf(w, "      %s\n", g.Path)
		}
	}
	if more := len(growth) - top; more > 0 {
		fmt.Fprintf(w, "  and %d more (--top)\n", more)
	}
	shown := 0
	for _, r := range last.Roots {
		if r.Holder.Kind != KindGoroutines || r.Holder.Count < 2 || shown == top {
			continue
		}
		if shown == 0 {
			fmt.Fprintf(w, "\ngoroutines that alone hold heap\n")
		}
		shown++
		fmt.Fprintf(w, "  %s\n", r)
	}
}
