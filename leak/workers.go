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
	// Spread performs the operations of one round, as Run does, from workers that crew runs. Its tally is of all
	// operations whatever became of the workers: those that a lost worker did not tell of have failed.
	Spread(ctx context.Context, t Target, first, workers int, crew Crew) (Tally, error)
}

// ProgramUser is an optional extra of an action whose workers run another program: one that their image must hold.
type ProgramUser interface {
	// Program is its name on the PATH.
	Program() string
}

// Crew is an optional extra of a cluster that can run workers.
type Crew interface {
	// RunWorkers starts workers, has all of them begin at once when all are ready, and returns how each ended,
	// in order. Nothing of them is left when it returns. A worker that is lost after the start is an end like
	// any other; an error means that there was no load, or that it cannot be told what there was.
	RunWorkers(ctx context.Context, w Work) ([]WorkerEnd, error)
}

// Work is what workers are to do.
type Work struct {
	Workers int
	// Order is what every one of them is told, with what it may tell itself from its place among them. It may
	// hold what is secret. It has MaxOrder bytes at most.
	Order []byte
	// Rules are what they may do through the API server, beside telling how they ended.
	Rules []WorkerRule
	// Programs is how many programs one of them runs at once, at most, beside itself.
	Programs int
	// Limit is how long the work may take after its start; whoever has not ended then is lost.
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
	// Result is what it told at its end, nil where nothing came.
	Result []byte
	// Lost says why it ended before its work did, "" where it did not. There may be a result all the same, of
	// what it had done until then.
	Lost string
}
