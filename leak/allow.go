package leak

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Allowance is a leak that is known and may stay for a while.
type Allowance struct {
	Probe  string `yaml:"probe,omitempty" doc:"probe of the stacks: goroutine (default), heap or leaked"`
	Match  string `yaml:"match" doc:"Go regular expression; it must match the full name or the file:line of one frame, or the name of the creator"`
	State  string `yaml:"state,omitempty" doc:"wait state, as a goroutine dump prints it (chan send)"`
	Reason string `yaml:"reason" doc:"reason for allowing it"`
	Link   string `yaml:"link" doc:"the issue that tracks it, https only"`
	Until  Date   `yaml:"until" doc:"last day of the allowance, as in 2027-01-31; later runs are not as expected"`
}

// Validate returns all problems that are visible without the rest of the scenario.
func (a Allowance) Validate() error {
	var errs []error
	if _, err := regexp.Compile(a.Match); err != nil || a.Match == "" {
		errs = append(errs, &FieldError{Field: "match", Problem: fmt.Sprintf("%.60q is not a regular expression that matches something", a.Match), Hint: "part of a function's name will do"})
	}
	if strings.TrimSpace(a.Reason) == "" {
		errs = append(errs, &FieldError{Field: "reason", Problem: "is missing", Hint: "in a year, readers need to know why"})
	}
	if a.Until.IsZero() {
		errs = append(errs, &FieldError{Field: "until", Problem: "is missing", Hint: "as in 2027-01-31"})
	}
	return errors.Join(errs...)
}

// Date is a day, in UTC.
type Date struct{ time.Time }

// Expired reports whether the day is over at t.
func (d Date) Expired(t time.Time) bool { return !t.UTC().Before(d.AddDate(0, 0, 1)) }

func (d Date) String() string { return d.Format(time.DateOnly) }

// MarshalText writes "2027-01-31".
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads it.
func (d *Date) UnmarshalText(b []byte) error {
	t, err := time.ParseInLocation(time.DateOnly, string(b), time.UTC)
	if err != nil {
		return WithHint(fmt.Errorf("%.40q is not a day", b), "as in 2027-01-31")
	}
	d.Time = t
	return nil
}

// Allowed is what an allowance covered in one variant.
type Allowed struct {
	Match  string `json:"match"`
	Reason string `json:"reason"`
	Link   string `json:"link"`
	Until  Date   `json:"until"`
	// From and To are what stood on its stacks at the baseline and after the last round, in Unit.
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Unit string  `json:"unit"`
	// Expired is set where the day was over when the run started: nothing is allowed any more then.
	Expired bool `json:"expired,omitempty"`
}
