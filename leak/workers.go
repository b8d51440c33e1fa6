package leak

import (
	"context"
	"time"
)

// MaxWorkers bounds how many workers share the operations of an action.
const MaxWorkers = 64

// Spreader is an optional extra of an action whose operations workers in the cluster can share.
type Spreader interface {
	// MostWorkers is how many workers there is something to do for.
	MostWorkers() int
	// Spread performs the operations of one round, like Run, on workers of the crew. Its tally contains all
	// operations: those that a lost worker did not report count as failed.
	Spread(ctx context.Context, t Target, first, workers int, crew Crew) (Tally, error)
}

// ProgramUser is an optional extra of an action whose workers run another program, which their image must contain.
type ProgramUser interface {
	// Program is its name on the PATH.
	Program() string
}

// Crew is an optional extra of a cluster that can run workers.
type Crew interface {
	// RunWorkers starts workers, lets all begin at once when all are ready, and returns how each ended, in order. It
	// removes all workers before it returns. A worker that is lost after the start has an end like the others. An
	// error means that there was no load, or that the load is unknown.
	RunWorkers(ctx context.Context, w Work) ([]WorkerEnd, error)
}

// Work is what workers are to do.
type Work struct {
	Workers int
	// Order is the instruction for all workers. Each derives its share from its index. It may contain secrets, and
	// has at most MaxOrder bytes.
	Order []byte
	// Rules are the permissions of the workers on the API server, in addition to reporting.
	Rules []WorkerRule
	// Programs is the maximum number of programs that a worker runs at once, in addition to itself.
	Programs int
	// Limit is the maximum duration of the work after its start. A worker that has not ended then is lost.
	Limit time.Duration
}

// MaxOrder is how many bytes of an order one object of the API server takes.
const MaxOrder = 1 << 20

// WorkerRule is what workers may do in a namespace, "" for the run's.
type WorkerRule struct {
	Namespace string
	PolicyRule
}

// WorkerEnd is how a worker ended.
type WorkerEnd struct {
	Pod, Node string
	// Late is how long after the common start it began, by its own clock.
	Late time.Duration
	// Result is its report at the end, nil without a report.
	Result []byte
	// Lost is why the worker ended before its work, "" if it did not. A lost worker may have a result, for the
	// operations before its end.
	Lost string
}
