// Package faults injects faults while the load of a round runs: it freezes and restarts programs, drains nodes, and disturbs the network
// between the load, the subject and what the subject uses. Every fault undoes itself before the load's action ends. Nothing of it
// survives leakrig: proxies are part of its process, and what leakrig started ends with it.
package faults

import "github.com/leakrig/leakrig/leak"

// Kinds lists the faults.
func Kinds() []leak.Kind[leak.Action] {
	return []leak.Kind[leak.Action]{networkKind, pauseKind, restartKind, drainKind}
}
