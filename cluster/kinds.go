// Package cluster boots the clusters that subjects talk to: it holds the providers, one file each. It
// does not start subjects (package subjects) and does not read anything but the cluster's health.
package cluster

import "github.com/leakrig/leakrig/leak"

// Kinds lists the providers. cache is the folder for what is built once and used again.
func Kinds(cache string) []leak.Kind[leak.Provider] {
	return []leak.Kind[leak.Provider]{embeddedKind(cache)}
}
