package leak

import (
	"errors"
	"fmt"
)

// WithHint attaches to err what the user can do next. leakrig prints the hint on a separate line.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// SeeDoctor ends the hints of errors whose cause is the machine.
const SeeDoctor = "`leakrig doctor` lists what this machine lacks"

// WithMachineHint is WithHint for an error whose cause is what the machine lacks.
func WithMachineHint(err error, format string, args ...any) error {
	return WithHint(err, "%s; %s", fmt.Sprintf(format, args...), SeeDoctor)
}

type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }
func (h *hinted) Hint() string  { return h.hint }

// Hint returns the outermost hint of err, or "".
func Hint(err error) string {
	var h interface {
		error
		Hint() string
	}
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// FieldError is a problem with one field of a kind's configuration, as its Validate method reports it.
// Field is the YAML name. The loader adds file, line and column.
type FieldError struct {
	Field   string
	Problem string
	Hint    string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// UsageError marks bad usage or a bad scenario: nothing was measured and nothing was booted.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the problem itself.
func (e *UsageError) Unwrap() error { return e.Err }

// Usage returns a UsageError with a hint.
func Usage(hint, format string, args ...any) error {
	return &UsageError{WithHint(fmt.Errorf(format, args...), "%s", hint)}
}
