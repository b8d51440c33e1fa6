// Package load puts load on a subject: it holds the actions, one file each. An action performs the
// operations of one round and tallies them; it does not decide how many rounds there are (package
// runner) nor what the tally means (package checks).
package load

import "github.com/leakrig/leakrig/leak"

// Kinds lists the actions.
func Kinds() []leak.Kind[leak.Action] {
	return []leak.Kind[leak.Action]{postKind, execKind, commandKind, watchKind, churnKind, cancelKind}
}
