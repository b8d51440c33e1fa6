package leak

import "context"

// Fault is an optional interface of an action that acts while other actions of its round run. The runner calls
// Begin instead of Run. Its operations are injections, which have a tally of their own.
type Fault interface {
	// During names the actions during which it acts.
	During() []string
	// Of names what it acts on: a dependency or KubeAPIServer; "" for the subject, and for what has no name here. linked
	// reports that it acts on the subject's connections to it.
	Of() (name string, linked bool)
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

// Part is what a fault stops and starts again. One of its fields is set, or Selector and Namespace are.
type Part struct {
	// Name is that of a dependency, or of a component of the cluster.
	Name string
	// Selector selects pods in Namespace, which is "" for that of the run.
	Selector, Namespace string
	// Node is a node, as in worker2.
	Node string
}

// Breakable is an optional interface of a cluster with parts that faults act on.
type Breakable interface {
	// Down stops a part. up starts it again and returns when it is ready. If Down fails, up undoes what Down did, and is
	// nil if that is nothing.
	Down(ctx context.Context, p Part) (up func(ctx context.Context) error, err error)
	// Server is the address of the API server, as host:port.
	Server() string
	// Through writes a kubeconfig like Kubeconfig that reaches the API server at another address.
	Through(address string) (kubeconfig string, err error)
}

// Link is a proxy between the subject and an address that it uses.
type Link interface {
	// Address is where it listens, as host:port.
	Address() string
	Close() error
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
