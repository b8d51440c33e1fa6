package leak

import (
	"os"
	"runtime/debug"
)

// memoryLimit is the soft limit of the garbage collector in bytes. Near it, the memory of one reading is freed before the
// next one starts. Package profiles limits a single reading to less.
const memoryLimit = 480 << 20

// LimitMemory keeps the process's memory near a fixed limit; GOMEMLIMIT sets another one.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
