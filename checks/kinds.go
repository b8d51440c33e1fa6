package checks

import "github.com/leakrig/leakrig/leak"

// Kinds lists every check that a scenario may name.
func Kinds() []leak.Kind[leak.Check] {
	return []leak.Kind[leak.Check]{
		{
			Name: "delta",
			Doc: "A hard bound on what a metric gained from the baseline to the last round. " +
				"No statistics: what is over the bound after the last round, and still is after idling, is a leak.",
			New: func() leak.Check { return &Delta{} },
		},
		{
			Name: "growth",
			Doc: "A bound on how much a metric grows per operation. " +
				"Leaking needs a slope over the bound and a sustained trend (Theil–Sen, Mann–Kendall) that neither slows down nor drains; " +
				"clean needs growth over the bound to be ruled out; between the two it is inconclusive. Needs 5 rounds or more.",
			New: func() leak.Check { return &Growth{} },
		},
		{
			Name: "stack",
			Doc: "A bound on the goroutines that stand on a stack, or on the heap bytes that were allocated on it. " +
				"`max` bounds what they gained in all, as delta does; `maxPerOp` bounds their growth per operation, as growth does; with `each` that of every single stack.",
			New: func() leak.Check { return &Stack{Probe: "goroutine"} },
		},
		{
			Name: "leaked",
			Doc: "A bound on the goroutines that the runtime itself has found to be leaked. " +
				"It proves a leak, and misses what globals, timers and sockets still reach: a second witness beside growth, never instead of it. " +
				"A subject that does not serve the profile makes it inconclusive.",
			New: func() leak.Check { return &Leaked{Probe: "leaked"} },
		},
		{
			Name: "hung",
			Doc: "A bound on operations that never return. " +
				"One that missed its deadline may have been slow: it is hung when goroutines of the subject stand where they stood, in a second dump ten seconds later.",
			New: func() leak.Check { return &Hung{} },
		},
	}
}
