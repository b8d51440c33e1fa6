package leak

import "context"

// Fault is an optional interface of an action that acts while other actions of its round run. The runner calls
// Begin instead of Run. Its operations are injections, which have a tally of their own.
type Fault interface {
	// During names the actions during which it acts.
	During() []string
	// Begin prepares the fault for one action on the target. Begin injects nothing.
	Begin(ctx context.Context, t Target) (Injection, error)
}

// Injection is a fault that is ready to be injected.
type Injection interface {
	// Target is the target for the load, which may lead through the fault.
	Target() Target
	// Inject injects the fault, repeatedly if it is configured so, until ctx ends. When it returns, the fault is undone.
	Inject(ctx context.Context) (Tally, error)
	// End removes all that Begin made.
	End() error
}

// Counts reports whether growth is counted per operation of the action with that name: the one that the scenario names,
// or its only load.
func (s *Spec) Counts(name string) bool {
	if s.Operation != "" {
		return name == s.Operation
	}
	loads := s.Loads()
	return len(loads) == 1 && loads[0] == name
}

// Loads are the names of the actions of a round that are no faults.
func (s *Spec) Loads() []string {
	var names []string
	for _, b := range s.Round {
		if _, ok := b.Value.(Fault); !ok {
			names = append(names, b.Name)
		}
	}
	return names
}
