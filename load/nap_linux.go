package load

import (
	"syscall"
	"time"
)

// nap sleeps in the kernel, which wakes up within some 50 µs. It may return early.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // EINTR: the caller reads the clock
}
