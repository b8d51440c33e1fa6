package checks

import (
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// outside returns the name of the series that a metric of series excludes, of the same program or component.
func outside(series string, m leak.Metric) string {
	if m.Outside == "" {
		return ""
	}
	component, _, ok := strings.Cut(series, "/")
	if !ok {
		return m.Outside
	}
	return component + "/" + m.Outside
}

// nativeText is "the Go heap is flat; 4.0 KiB per operation is outside of it (cgo or mmap)" for growth that another
// series excludes, "" for other growth.
func nativeText(findings []leak.Finding, f *leak.Finding) string {
	if f.Outside == "" || f.Outcome != leak.Leaking {
		return ""
	}
	text := per(f.PerOperation, f.Unit) + " is outside of "
	for _, heap := range findings {
		switch {
		case heap.Series != f.Outside:
		case heap.Outcome == leak.Clean:
			return "the Go heap is flat; " + text + "it (cgo or mmap)"
		case heap.Outcome == leak.Leaking:
			return "the Go heap grows, too; " + text + "it (cgo or mmap)"
		}
	}
	return text + "the Go heap (cgo or mmap)"
}
