package session

import (
	"slices"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/faults"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/load"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/scenarios"
)

// Kinds is all that a scenario may name.
func Kinds() leak.Kinds {
	k := leak.Kinds{Actions: slices.Concat(load.Kinds(), faults.Kinds()), Probes: profiles.Kinds(), Checks: checks.Kinds()}
	for _, p := range cluster.Kinds(cluster.Options{}) {
		k.Providers = append(k.Providers, p.Name)
	}
	return k
}

// Open finds and loads a scenario by name or path, with values for its parameters.
func Open(nameOrFile string, set map[string]string) (scenarios.Source, *leak.Scenario, error) {
	src, err := scenarios.Find(nameOrFile)
	if err != nil {
		return src, nil, &leak.UsageError{Err: err}
	}
	src.Set = set
	s, err := scenarios.Load(src, Kinds())
	return src, s, err
}
