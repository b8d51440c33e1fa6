package session

import (
	"fmt"
	"os"
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// withWarning puts what is wrong with a record's seal among its warnings, once.
func withWarning(r *leak.Record, seal rundir.Seal) {
	if seal.Holds() {
		return
	}
	r.Warnings = slices.DeleteFunc(r.Warnings, func(w string) bool { return w == seal.String() || slices.Contains(seal.Altered, w) })
	r.Warnings = append(r.Warnings, seal.String())
}

// WarnSeal says on standard error what is wrong with the seal of a run directory.
func WarnSeal(dir string, seal rundir.Seal, accepted bool) {
	if seal.Holds() {
		return
	}
	fmt.Fprintf(os.Stderr, "leakrig: warning: %s: %s\n", display.Printable(dir), display.Printable(seal.String()))
	if !accepted {
		fmt.Fprintf(os.Stderr, "leakrig: hint: %s\n", rundir.SealHint)
	}
}

// SealedCode is the exit code of a command that has read a record: never 0 where its seal does not hold, unless that is
// accepted.
func SealedCode(code int, seal rundir.Seal, accepted bool) int {
	if code == leak.ExitMet && !seal.Holds() && !accepted {
		return leak.ExitInconclusive
	}
	return code
}
