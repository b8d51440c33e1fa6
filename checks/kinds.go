package checks

import "github.com/leakrig/leakrig/leak"

// Kinds lists every check that a scenario may name.
func Kinds() []leak.Kind[leak.Check] {
	return []leak.Kind[leak.Check]{
		{
			Name: "delta",
			Doc: "A hard bound on the growth of a metric from the baseline to the last round. " +
				"It uses no statistics: a metric that exceeds the bound after the last round and after idling leaks.",
			New: func() leak.Check { return &Delta{} },
		},
		{
			Name: "growth",
			Doc: "A bound on the growth of a metric per operation. " +
				"Leaking needs a slope over the bound and a sustained trend (Theil–Sen, Mann–Kendall) that neither slows down nor drains; " +
				"clean needs a confidence interval that rules out growth over the bound; everything else is inconclusive. It needs at least 5 rounds.",
			New: func() leak.Check { return &Growth{} },
		},
		{
			Name: "stack",
			Doc: "A bound on the goroutines with a stack, or on the heap bytes that were allocated on it. " +
				"`max` bounds their total growth, as delta does. `maxPerOp` bounds their growth per operation, as growth does. `each` applies it to each stack separately.",
			New: func() leak.Check { return &Stack{Probe: "goroutine"} },
		},
		{
			Name: "leaked",
			Doc: "A bound on the goroutines that the runtime has found to be leaked. " +
				"It proves a leak, but misses goroutines that globals, timers and sockets still reach. Use it in addition to growth, not instead of it. " +
				"A subject that does not serve the profile makes it inconclusive.",
			New: func() leak.Check { return &Leaked{Probe: "leaked"} },
		},
		{
			Name: "hung",
			Doc: "A bound on operations that never return. " +
				"An operation that missed its deadline counts as hung if a second dump, ten seconds later, shows the same goroutines at the same place.",
			New: func() leak.Check { return &Hung{} },
		},
		{
			Name: "latency",
			Doc: "A bound on the duration of operations, and on its growth. " +
				"`p50` and `p99` bound the percentiles of a typical round, `max` every operation. `growth` bounds the growth of the median per 1,000 operations with the statistics of growth. " +
				"The latency of an open load (arrival) counts from the intended start.",
			New: func() leak.Check { return &Latency{} },
		},
		{
			Name: "errors",
			Doc: "A bound on the share of operations that fail. " +
				"Without it, more than 1 % of failed operations make a clean variant inconclusive. With it, failures within the bound count as part of the load, and a larger share is not as expected.",
			New: func() leak.Check { return &Errors{} },
		},
	}
}
