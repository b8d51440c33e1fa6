package reports

import (
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Unexplained lists for every heap the part of its growth that is on no sampled stack: "kubelet: only +7.0 KiB of …".
// It omits heaps that are clean, or unjudged in a clean variant: their growth is at most noise.
func (x variant) Unexplained() []string {
	var heaps []leak.HeapExplained
	if h := x.Verdict.HeapExplained; h != nil {
		heaps = append(heaps, *h)
	}
	var lines []string
	for _, h := range slices.Concat(heaps, x.Verdict.ComponentHeaps) {
		if h.Unexplained == "" || !x.heapGrew(h.Probe) {
			continue
		}
		line := h.Unexplained
		if component, _, ok := strings.Cut(h.Probe, "/"); ok {
			line = component + ": " + line
		}
		lines = append(lines, line)
	}
	return lines
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
