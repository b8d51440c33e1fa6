package session

import (
	"fmt"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// hasWorkers reports whether load comes from workers.
func hasWorkers(s *leak.Scenario) bool {
	return slices.ContainsFunc(slices.Concat(s.Spec.Warmup.Round, s.Spec.Round), func(b leak.Block[leak.Action]) bool { return b.Workers > 0 })
}

// workerPrograms returns the programs that workers run in addition to leakrig.
func workerPrograms(s *leak.Scenario) []string {
	var names []string
	for _, b := range slices.Concat(s.Spec.Warmup.Round, s.Spec.Round) {
		if p, ok := b.Value.(leak.ProgramUser); ok && b.Workers > 0 && !slices.Contains(names, p.Program()) {
			names = append(names, p.Program())
		}
	}
	return names
}

// workersReach refuses load from workers on a subject that they could not reach: a process of this machine.
func workersReach(s *leak.Scenario, placement string) error {
	if placement == leak.PlacementPod || len(s.Spec.Subject.Addresses()) > 0 {
		return nil
	}
	for _, b := range slices.Concat(s.Spec.Warmup.Round, s.Spec.Round) {
		_, cluster := b.Value.(leak.ClusterUser)
		_, program := b.Value.(leak.ProgramUser)
		if !cluster && !program && b.Workers > 0 {
			return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("%s: load from workers: pods of the cluster cannot reach a process of this machine", b.Name),
				"subject.placement, or --placement pod, has the subject run as a pod; or leave workers out")}
		}
	}
	return nil
}
