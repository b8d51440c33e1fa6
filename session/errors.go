package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/terminal"
)

// Complain prints an error with its hint, without the secrets, and decides the exit code.
func Complain(err error, secrets rundir.Secrets) int {
	err = cleaned(err, secrets)
	var bad *leak.UsageError
	usage := errors.As(err, &bad)
	text := display.Printable(err.Error())
	if !usage { // what follows the first line is from a server, a log or a compiler
		text = strings.ReplaceAll(text, "\n", "\n  ")
	}
	fmt.Fprintf(os.Stderr, "leakrig: error: %s\n", text)
	if hint := leak.Hint(err); hint != "" {
		fmt.Fprintf(os.Stderr, "leakrig: hint: %s\n", terminal.AsCalled(display.Printable(hint)))
	}
	return leak.ExitCode(errors.Is(err, context.Canceled), usage, true)
}

// cleanError is an error whose text has no secrets.
type cleanError struct {
	error
	text string
}

func (e cleanError) Error() string { return e.text }

func (e cleanError) Unwrap() error { return e.error }

// cleaned returns an error without the secrets, and with its hint.
func cleaned(err error, secrets rundir.Secrets) error {
	if err == nil || len(secrets) == 0 {
		return err
	}
	text, hint := secrets.RedactText(err.Error()), secrets.RedactText(leak.Hint(err))
	if text == err.Error() && hint == leak.Hint(err) {
		return err
	}
	var clean error = cleanError{err, text}
	if hint != "" {
		clean = leak.WithHint(clean, "%s", hint)
	}
	var bad *leak.UsageError
	if errors.As(err, &bad) {
		return &leak.UsageError{Err: clean}
	}
	return clean
}

// FirstLine is the first line of a text, which a terminal can print.
func FirstLine(s string) string {
	first, _, _ := strings.Cut(display.Printable(s), "\n")
	return first
}
