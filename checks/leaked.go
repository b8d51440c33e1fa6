package checks

import (
	"errors"
	"fmt"

	"github.com/leakrig/leakrig/leak"
)

// Leaked bounds the goroutines that the runtime itself has found to be leaked.
type Leaked struct {
	Probe string        `yaml:"probe,omitempty" doc:"probe of the runtime's goroutine leak profile"`
	Max   leak.Quantity `yaml:"max,omitempty" doc:"maximum number of leaked goroutines over all rounds"`
}

// Reads returns the judged series.
func (c *Leaked) Reads() (probe, metric string) { return c.Probe, "" }

// Validate returns all problems of the configuration.
func (c *Leaked) Validate() error {
	return errors.Join(needProbe(c.Probe), needBound("max", c.Max))
}

// Check judges the leaked goroutines since the baseline. A leaked goroutine cannot recover, so no test is needed:
// growth above the bound is leaking. A subject without the profile is unavailable and never passes.
func (c *Leaked) Check(of leak.Evidence) leak.Finding {
	e := evidence{of}
	f := e.finding("leaked")
	if err := c.Validate(); err != nil {
		return undecided(f, err)
	}
	for _, shot := range wholeRounds(&e.Variant, e.Rounds) {
		if sample := shot.Sample(c.Probe); sample != nil && sample.Unavailable != "" {
			return undecided(f, fmt.Errorf("not available: %s: %s; Go 1.27 serves it, Go 1.26 with GOEXPERIMENT=goroutineleakprofile", roundName(shot.Round), sample.Unavailable))
		}
	}
	f.Bound = float64(c.Max)
	s, err := e.metricSeries(c.Probe, "")
	if err == nil {
		var stacks *census
		if stacks, err = e.census(c.Probe); err == nil {
			f.Stacks, f.Spread = stacks.growing(func(string) bool { return true })
		}
	}
	return e.judge(f, s, err)
}
