package engine

import (
	"bytes"
	"fmt"
	"net"
	"os"
)

// A socket in the abstract namespace is seen by every user of the machine, and gone with its process.

func inUseSocket(name string) string { return "@leakrig/in-use/" + name + "/" }

// announce tells the machine that this process uses the cluster.
func announce(name string) (quiet func()) {
	l, err := net.Listen("unix", inUseSocket(name)+fmt.Sprint(os.Getpid()))
	if err != nil { // this process uses it twice, or may not; the lock in the cache is there all the same
		return func() {}
	}
	return func() { l.Close() }
}

// announced reports whether some process of the machine uses the cluster.
func announced(name string) bool {
	sockets, err := os.ReadFile("/proc/net/unix")
	return err == nil && bytes.Contains(sockets, []byte(" "+inUseSocket(name)))
}
