// Package profiles reads subjects: it holds the probes, one file each, and the parsers for what
// subjects serve. Everything that a subject serves is foreign: sizes are bounded, and bytes that make
// no sense are an error, never a guess.
//
// It does not decide when to read (package runner) nor what the numbers mean (package checks).
package profiles

import "github.com/leakrig/leakrig/leak"

// Kinds lists the probes.
func Kinds() []leak.Kind[leak.Probe] {
	return []leak.Kind[leak.Probe]{goroutineKind, heapKind, leakedKind, processKind}
}

// Sources of groups in a sample. They are never compared with each other: only a dump has creators and
// exact wait states.
const (
	SourceDump    = "dump"
	SourceProfile = "profile"
	SourceHeap    = "heap"
	SourceLeaked  = "leaked"
)
