package leak

import (
	"os"
	"runtime/debug"
)

// memoryLimit is where the collector begins to work harder, so that what was read of one subject is gone before the next
// reading comes. What one reading keeps is bounded to less (package profiles).
const memoryLimit = 480 << 20

// LimitMemory keeps the process's memory near a fixed limit; GOMEMLIMIT sets another one.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
