package session

import (
	"fmt"
	"os"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// withWarning puts what is wrong with a record's seal among its warnings, once.
func withWarning(r *leak.Record, seal leak.Seal) {
	if seal.Holds() {
		return
	}
	r.Warnings = slices.DeleteFunc(r.Warnings, func(w string) bool { return w == seal.String() || slices.Contains(seal.Altered, w) })
	r.Warnings = append(r.Warnings, seal.String())
}

// WarnSeal says on standard error what is wrong with the seal of a run directory.
func WarnSeal(dir string, seal leak.Seal, accepted bool) {
	if seal.Holds() {
		return
	}
	fmt.Fprintf(os.Stderr, "leakrig: warning: %s: %s\n", leak.Printable(dir), leak.Printable(seal.String()))
	if !accepted {
		fmt.Fprintf(os.Stderr, "leakrig: hint: %s\n", leak.SealHint)
	}
}

// SealedCode is the exit code of a command that has read a record: never 0 where its seal does not hold, unless that is
// accepted.
func SealedCode(code int, seal leak.Seal, accepted bool) int {
	if code == leak.ExitMet && !seal.Holds() && !accepted {
		return leak.ExitInconclusive
	}
	return code
}
