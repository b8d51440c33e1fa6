package leak

import (
	"errors"
	"testing"
	"time"
)

func TestDate(t *testing.T) {
	var d Date
	if err := d.UnmarshalText([]byte("2027-01-31")); err != nil {
		t.Fatal(err)
	}
	if text, err := d.MarshalText(); err != nil || string(text) != "2027-01-31" {
		t.Errorf("%s, %v", text, err)
	}
	for when, want := range map[string]bool{
		"2027-01-31T23:59:59Z": false, "2027-02-01T00:00:00Z": true, "2027-02-01T00:30:00+01:00": false, "2026-01-01T00:00:00Z": false,
	} {
		at, err := time.Parse(time.RFC3339, when)
		if err != nil || d.Expired(at) != want {
			t.Errorf("at %s: %v, %v", when, d.Expired(at), err)
		}
	}
	for _, bad := range []string{"", "31.1.2027", "2027-02-30", "2027-1-1", "tomorrow"} {
		if err := d.UnmarshalText([]byte(bad)); err == nil || Hint(err) == "" {
			t.Errorf("%q is a day", bad)
		}
	}
}

func TestAllowanceValidate(t *testing.T) {
	var d Date
	_ = d.UnmarshalText([]byte("2027-01-31"))
	if err := (Allowance{Match: "x", Reason: "r", Until: d}).Validate(); err != nil {
		t.Error(err)
	}
	err := Allowance{Match: "("}.Validate()
	var f *FieldError
	if !errors.As(err, &f) || f.Field != "match" {
		t.Errorf("%v", err)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 3 {
		t.Errorf("%v", err)
	}
}
