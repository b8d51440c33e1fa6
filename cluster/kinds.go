// Package cluster boots the clusters that subjects talk to, and runs subjects as pods in them. It holds
// the providers, one file each. It does not run subjects as processes (package subjects) and does not
// put load on anything.
package cluster

import "github.com/leakrig/leakrig/leak"

// Options are what the command line says about clusters.
type Options struct {
	// Cache is the folder for builds.
	Cache string
	// ControlPlane says how embedded gets its binaries: a mode of binaries.Source.
	ControlPlane string
	// Keep leaves a kind cluster running after the run; Reuse takes one that was kept, if it fits.
	Keep, Reuse bool
	// KubeconfigFile and Context name an existing cluster; "" is what kubectl would take.
	KubeconfigFile, Context string
	// Yes runs on a context that looks like production: one with a word of Protected in its name.
	Yes       bool
	Protected []string
	// WorkerImage is the image of workers, which the nodes pull; "" where a provider makes it of WorkerRig, a
	// static binary of leakrig for Linux, and loads it into the nodes. "" is the binary that runs.
	WorkerImage, WorkerRig string
}

// Kinds lists the providers, in the order in which auto tries them.
func Kinds(o Options) []leak.Kind[leak.Provider] {
	return []leak.Kind[leak.Provider]{kindKind(o), embeddedKind(o), existingKind(o)}
}
