package checks

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// minExplained is the share of the heap's growth that sampled stacks should account for.
const minExplained = 0.8

// explained compares the growth of the sampled heap with that of the exact one, from the baseline to the last round;
// nil if one was not measured or nothing grew.
//
// A block of s bytes is sampled with probability p = 1 − exp(−s/rate) and then counts for 1/p blocks, so it adds
// s²(1−p)/p to the variance of the sum. Memory in both profiles is the same blocks, which are sampled in both or in
// none: only new memory is uncertain.
func (e evidence) explained(probe string) *leak.HeapExplained {
	exact, err := e.metricSeries(probe, "alloc")
	if err != nil {
		return nil
	}
	c, err := e.census(probe)
	if err != nil || len(c.shots) == 0 {
		return nil
	}
	grew, _ := exact.net()
	if grew <= 0 {
		return nil
	}
	last := &c.shots[len(c.shots)-1]
	x := &leak.HeapExplained{Grew: grew, Rate: last.Sample(probe).Rate}
	if leak.ProbeKind(probe) != probe {
		x.Probe = probe
	}
	variance := 0.0
	before, after := c.groups[&c.shots[0]], c.groups[last]
	for _, id := range slices.Sorted(maps.Keys(after)) { // a sum of floats depends on their order
		g := after[id]
		bytes, objects := float64(g.Bytes-before[id].Bytes), float64(g.Count-before[id].Count)
		x.Explained += bytes
		variance += sampledVariance(bytes, objects, x.Rate)
	}
	for id, g := range before {
		if _, ok := after[id]; !ok {
			x.Explained -= float64(g.Bytes)
		}
	}
	x.Error = math.Sqrt(variance)
	x.Unexplained = unexplained(x)
	return x
}

// sampledVariance returns the variance of the bytes that a profile shows for new objects, with one sample in rate bytes.
func sampledVariance(bytes, objects float64, rate int64) float64 {
	if bytes <= 0 || objects <= 0 || rate <= 1 {
		return 0
	}
	size := bytes / objects
	p := -math.Expm1(-size / float64(rate))
	return objects * size * size * (1 - p) / p
}

// tooCoarse reports whether growth in a sampled profile may be chance: four samples are certainly not.
func tooCoarse(bytes, err float64) bool { return bytes <= 2*err }

// heaps returns the explained growth of the program's heap, nil if unknown, and of the heaps of components.
func (e evidence) heaps() (program *leak.HeapExplained, components []leak.HeapExplained) {
	for _, probe := range e.Variant.Probes("heap") {
		switch x := e.explained(probe); {
		case x == nil:
		case x.Probe == "":
			program = x
		default:
			components = append(components, *x)
		}
	}
	return program, components
}

// explainedOf returns the comparison for the series of a check, nil if the series is not the growth of a heap.
func (e evidence) explainedOf(series string) *leak.HeapExplained {
	probe, metric, _ := strings.Cut(series, ".")
	if leak.ProbeKind(probe) != "heap" || metric != "alloc" && metric != "objects" {
		return nil
	}
	return e.explained(probe)
}

// unexplained describes the growth that is on no sampled stack, "" if it may be chance.
func unexplained(x *leak.HeapExplained) string {
	if x.Rate > 1 && tooCoarse(x.Explained, x.Error) {
		return fmt.Sprintf("the sampled profile, which takes one sample in %s, does not show where %s are allocated",
			display.Value(float64(x.Rate), "bytes"), display.Delta(x.Grew, "bytes"))
	}
	if x.Explained+2*x.Error >= minExplained*x.Grew {
		return ""
	}
	rate := ""
	if x.Rate > 1 {
		rate = fmt.Sprintf(", which takes one sample in %s", display.Value(float64(x.Rate), "bytes"))
	}
	return fmt.Sprintf("only %s of %s are on stacks of the sampled profile%s",
		display.Delta(x.Explained, "bytes"), display.Delta(x.Grew, "bytes"), rate)
}
