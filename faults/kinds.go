// Package faults injects faults while the load of a round runs: it freezes the subject, and disturbs the network
// between the load and the subject. Every fault undoes itself before the load's action ends. Nothing of it
// survives leakrig: proxies are part of its process, and a subject that leakrig started ends with it.
package faults

import "github.com/leakrig/leakrig/leak"

// Kinds lists the faults.
func Kinds() []leak.Kind[leak.Action] {
	return []leak.Kind[leak.Action]{networkKind, pauseKind}
}
