// Package cluster boots the clusters that subjects talk to. It holds the providers, one file each, with a prefix for
// what only one provider needs. Packages below it run subjects, workers and components in them.
package cluster

import (
	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

// Options are what the command line says about clusters.
type Options struct {
	// Cache is the folder for builds.
	Cache string
	// ControlPlane says how embedded gets its binaries: a mode of binaries.Source.
	ControlPlane string
	// Keep leaves a kind cluster running after the run; Reuse takes one that was kept, if it fits.
	Keep, Reuse bool
	apiserver.Access
	// WorkerImage is the image of workers, which the nodes pull; "" where a provider makes it of WorkerRig, a
	// static binary of leakrig for Linux, and loads it into the nodes. "" is the binary that runs.
	WorkerImage, WorkerRig string
}

// Kinds lists the providers, in the order in which auto tries them.
func Kinds(o Options) []leak.Kind[leak.Provider] {
	return []leak.Kind[leak.Provider]{kindKind(o), embeddedKind(o), existingKind(o)}
}
