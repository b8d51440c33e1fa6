package profiles

import (
	"context"
	"errors"
	"fmt"

	"github.com/leakrig/leakrig/leak"
)

var leakedKind = leak.Kind[leak.Probe]{
	Name: "leaked",
	Doc: "Goroutines that the runtime has found to be leaked: blocked forever on an unreachable object. " +
		"Go 1.27 serves the profile. Go 1.26 serves it if the program was built with GOEXPERIMENT=goroutineleakprofile, which leakrig sets for its subjects. " +
		"It misses goroutines that a global variable, a timer or a socket still reaches. Each reading runs a garbage collection.",
	Metrics: []leak.Metric{{Name: "count", Unit: "goroutines", Doc: "unreachable goroutines"}},
	New:     func() leak.Probe { return &Leaked{} },
}

// Leaked reads the runtime's goroutine leak profile.
type Leaked struct{}

// Sample reads the profile. If the subject does not serve it, there is no reading and no error.
func (*Leaked) Sample(ctx context.Context, t leak.Target) (leak.Reading, error) {
	ctx, done := lend(ctx)
	defer done()
	sample := leak.Sample{Probe: leakedKind.Name, Values: map[string]float64{}}
	raw, err := fetchAtMost(ctx, t, "/goroutineleak", maxFile)
	if errors.Is(err, errNotServed) {
		sample.Unavailable = "the subject does not serve goroutineleak (404)"
		return leak.Reading{Sample: sample}, nil
	}
	if err != nil {
		return leak.Reading{}, err
	}
	p, err := decode(ctx, raw, maxProfile, maxDecoded)
	if err != nil {
		return leak.Reading{}, fmt.Errorf("%s/goroutineleak: %w", t.Pprof, err)
	}
	g, err := leakedGroups(p)
	if err != nil {
		return leak.Reading{}, fmt.Errorf("%s/goroutineleak: %w", t.Pprof, err)
	}
	sample.Values["count"] = float64(g.total)
	sample.Groups = map[string][]leak.Group{SourceLeaked: g.list()}
	return leak.Reading{Sample: sample, Stacks: g.stacks, Files: []leak.File{{Name: "goroutineleak.pb.gz", Data: raw}}}, nil
}
