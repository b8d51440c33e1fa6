package holders

import "fmt"

// Limits of a dump. A dump above a limit is an error, because a part of a graph would name wrong holders.
const (
	maxHeapRange  = 32 << 30 // bytes from the lowest to the highest heap address; a word's index must fit 32 bits
	maxObjects    = 200 << 20
	maxReferences = 1 << 30
	maxRootRefs   = 256 << 20 // pointers in stacks and global variables
	maxGroups     = 1 << 20   // groups of goroutines, timers or finalizers, and global variables
	maxFrames     = 1 << 16   // of one goroutine
	maxBuckets    = 1 << 20   // allocation stacks
	maxSamples    = 64 << 20
	maxText       = 1 << 20 // bytes of a name
	maxNames      = 1 << 28 // bytes of all names
	maxItabs      = 1 << 22
	maxSlots      = 1 << 20 // cached fields of types
	maxSegment    = 4 << 30 // bytes of the data or bss segment
)

// LimitError reports a dump that exceeds a limit of this package.
type LimitError struct {
	What  string
	Limit uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("heap dump has more than %d %s", e.Limit, e.What)
}

func exceeds(n int, limit uint64, what string) error {
	if uint64(n) > limit {
		return &LimitError{What: what, Limit: limit}
	}
	return nil
}
