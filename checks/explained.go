package checks

import (
	"fmt"
	"math"

	"github.com/leakrig/leakrig/leak"
)

// minExplained is the share of the heap's growth that sampled stacks should account for.
const minExplained = 0.8

// explained holds the growth of the sampled heap against the exact one, from the baseline to the last
// round; nil where one of them was not measured or nothing grew.
//
// A block of s bytes is sampled with probability p = 1 − exp(−s/rate) and then counts for 1/p of them, so
// it adds s²(1−p)/p to the variance of the sum. What stands in both profiles is the same blocks, sampled
// or not for good: only what is new is uncertain.
func (e evidence) explained() *leak.HeapExplained {
	exact, err := e.metricSeries("heap", "alloc")
	if err != nil {
		return nil
	}
	c, err := e.census("heap")
	if err != nil || len(c.shots) == 0 {
		return nil
	}
	grew, _ := exact.net()
	if grew <= 0 {
		return nil
	}
	last := &c.shots[len(c.shots)-1]
	x := &leak.HeapExplained{Grew: grew, Rate: last.Sample("heap").Rate}
	variance := 0.0
	before, after := c.groups[&c.shots[0]], c.groups[last]
	for id, g := range after {
		bytes, objects := float64(g.Bytes-before[id].Bytes), float64(g.Count-before[id].Count)
		x.Explained += bytes
		if bytes > 0 && objects > 0 && x.Rate > 1 {
			size := bytes / objects
			p := -math.Expm1(-size / float64(x.Rate))
			variance += objects * size * size * (1 - p) / p
		}
	}
	for id, g := range before {
		if _, ok := after[id]; !ok {
			x.Explained -= float64(g.Bytes)
		}
	}
	x.Error = math.Sqrt(variance)
	return x
}

// unexplained says how much of the growth is on no sampled stack, "" where chance may account for it.
func unexplained(x *leak.HeapExplained) string {
	if x == nil || x.Explained+2*x.Error >= minExplained*x.Grew {
		return ""
	}
	rate := ""
	if x.Rate > 1 {
		rate = fmt.Sprintf(", which takes one sample in %s", leak.FormatValue(float64(x.Rate), "bytes"))
	}
	return fmt.Sprintf("; only %s of %s are on stacks of the sampled profile%s",
		leak.FormatDelta(x.Explained, "bytes"), leak.FormatDelta(x.Grew, "bytes"), rate)
}
