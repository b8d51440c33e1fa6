package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Reconciled compares for every heap its exact growth with that on sampled stacks: "+2.04 MiB exact = +1.90 MiB on
// sampled stacks (± 50.0 KiB) + 143.4 KiB unexplained". It omits heaps that are clean, or unjudged in a clean variant:
// their growth is at most noise.
func (x variant) Reconciled() []string {
	var heaps []leak.HeapExplained
	if h := x.Verdict.HeapExplained; h != nil {
		heaps = append(heaps, *h)
	}
	var lines []string
	for _, h := range slices.Concat(heaps, x.Verdict.ComponentHeaps) {
		if h.Grew <= 0 || !x.heapGrew(h.Probe) {
			continue
		}
		line := reconciled(h)
		if component, _, ok := strings.Cut(h.Probe, "/"); ok {
			line = component + ": " + line
		}
		lines = append(lines, line)
	}
	return lines
}

func reconciled(h leak.HeapExplained) string {
	grew, explained := math.Round(h.Grew), math.Round(h.Explained)
	text := fmt.Sprintf("%s exact = %s on sampled stacks (± %s)", display.Delta(grew, "bytes"), display.Delta(explained, "bytes"), value(math.Round(h.Error), "bytes"))
	if rest := grew - explained; rest < 0 {
		text += " − " + value(-rest, "bytes")
	} else {
		text += " + " + value(rest, "bytes")
	}
	text += " unexplained"
	if h.Rate > 1 {
		text += "; one sample in " + value(float64(h.Rate), "bytes")
	}
	if h.Unexplained != "" {
		text += "; " + h.Unexplained
	}
	return text
}

// heapGrew reports whether a check of this heap is not clean. If no check judged the heap, it reports whether the
// variant leaks.
func (x variant) heapGrew(probe string) bool {
	if probe == "" {
		probe = "heap"
	}
	judged := false
	for _, f := range x.Verdict.Findings {
		if f.Series == probe+".alloc" {
			judged = true
			if f.Outcome != leak.Clean {
				return true
			}
		}
	}
	return !judged && x.Verdict.Outcome == leak.Leaking
}
