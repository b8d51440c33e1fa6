package holders

import (
	"fmt"
	"strings"
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
