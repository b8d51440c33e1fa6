package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/leak"
)

// acceptFlag adds --accept-altered.
func acceptFlag(c *cobra.Command, accept *bool) {
	c.Flags().BoolVar(accept, "accept-altered", false, "accept an altered record, or one without a seal (see docs/records.md)")
}

// withWarning puts what is wrong with a record's seal among its warnings, once.
func withWarning(r *leak.Record, seal leak.Seal) {
	if seal.Holds() {
		return
	}
	r.Warnings = slices.DeleteFunc(r.Warnings, func(w string) bool { return w == seal.String() || slices.Contains(seal.Altered, w) })
	r.Warnings = append(r.Warnings, seal.String())
}

// warnSeal says on standard error what is wrong with the seal of a run directory.
func warnSeal(dir string, seal leak.Seal, accepted bool) {
	if seal.Holds() {
		return
	}
	fmt.Fprintf(os.Stderr, "leakrig: warning: %s: %s\n", leak.Printable(dir), leak.Printable(seal.String()))
	if !accepted {
		fmt.Fprintf(os.Stderr, "leakrig: hint: %s\n", leak.SealHint)
	}
}

// sealedCode is the exit code of a command that has read a record: never 0 where its seal does not hold, unless that is
// accepted.
func sealedCode(code int, seal leak.Seal, accepted bool) int {
	if code == leak.ExitMet && !seal.Holds() && !accepted {
		return leak.ExitInconclusive
	}
	return code
}
