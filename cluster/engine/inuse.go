package engine

import (
	"path/filepath"
	"sync"

	"github.com/leakrig/leakrig/cluster/upstream"
)

// Use marks a kind cluster as one that a run uses, until release or the end of the process: by a lock in the
// cache, and where the system has a way for the whole machine, by that too, since not all leakrig processes of a machine
// have one cache.
func Use(cache, name string) (release func(), err error) {
	unlock, err := upstream.Share(InUseFile(cache, name))
	if err != nil {
		return nil, err
	}
	quiet := announce(name)
	return sync.OnceFunc(func() {
		quiet()
		unlock()
	}), nil
}

// Unused returns a lock that keeps others from using the cluster; ok is false if it is in use.
func Unused(cache, name string) (unlock func(), ok bool) {
	if announced(name) {
		return nil, false
	}
	return upstream.TryLock(InUseFile(cache, name))
}

// InUseFile is locked, shared, by every run that uses a cluster.
func InUseFile(cache, name string) string { return filepath.Join(cache, "in-use", name) }
