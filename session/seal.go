package session

import (
	"fmt"
	"os"
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// withWarning adds the problem of a record's seal to its warnings, once.
func withWarning(r *leak.Record, seal rundir.Seal) {
	if seal.Holds() {
		return
	}
	r.Warnings = slices.DeleteFunc(r.Warnings, func(w string) bool { return w == seal.String() || slices.Contains(seal.Altered, w) })
	r.Warnings = append(r.Warnings, seal.String())
}

// WarnSeal prints the problem of a run directory's seal to standard error.
func WarnSeal(dir string, seal rundir.Seal, accepted bool) {
	if seal.Holds() {
		return
	}
	fmt.Fprintf(os.Stderr, "leakrig: warning: %s: %s\n", display.Printable(dir), display.Printable(seal.String()))
	if !accepted {
		fmt.Fprintf(os.Stderr, "leakrig: hint: %s\n", rundir.SealHint)
	}
}

// SealedCode returns the exit code of a command that has read a record. It is never 0 if the seal does not hold and
// this is not accepted.
func SealedCode(code int, seal rundir.Seal, accepted bool) int {
	if code == leak.ExitMet && !seal.Holds() && !accepted {
		return leak.ExitInconclusive
	}
	return code
}
