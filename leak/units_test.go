package leak

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak/display"
)

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		in   string
		want float64
	}{
		{"10", 10},     // a count
		{"0.01", 0.01}, // a fraction per operation
		{"1e3", 1000},  // as YAML may write it
		{"-5", -5},     // checks refuse it, with a better message
		{"64B", 64},    // plain bytes
		{"2KiB", 2048}, // binary units
		{"1.5MiB", 3 << 19},
		{"1GiB", 1 << 30},
		{"2kB", 2000}, // decimal units, both spellings of kilo
		{"2KB", 2000},
		{"3MB", 3e6},
		{"1GB", 1e9},
		{" 2 KiB ", 2048}, // spaces do no harm
	} {
		var q Quantity
		if err := q.UnmarshalText([]byte(c.in)); err != nil || float64(q) != c.want {
			t.Errorf("%q: %v, %v, want %v", c.in, float64(q), err, c.want)
		}
		// The written text parses to the same number.
		text, _ := q.MarshalText()
		var again Quantity
		if err := again.UnmarshalText(text); err != nil || again != q {
			t.Errorf("%q written as %q reads as %v, %v", c.in, text, float64(again), err)
		}
	}
	for _, bad := range []string{
		"",           // nothing
		"KiB",        // a unit without a number
		"two",        // a word
		"2kib",       // case matters
		"2Ki",        // Kubernetes' spelling
		"1,5MiB",     // a decimal comma
		"NaN", "Inf", // no bounds at all: every comparison with NaN is false
		"1e400",    // more than a float64 holds
		"1e308GiB", // so only with its unit
		"1 2",      // two numbers
	} {
		q := Quantity(7)
		if err := q.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is accepted as %v", bad, float64(q))
		}
		if q != 7 {
			t.Errorf("%q: an error, and yet the value became %v", bad, float64(q))
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"500ms": 500 * time.Millisecond, "1m30s": 90 * time.Second, "0": 0} {
		var d Duration
		if err := d.UnmarshalText([]byte(in)); err != nil || d.D() != want {
			t.Errorf("%q: %v, %v", in, d, err)
		}
	}
	for _, bad := range []string{"", "5", "1 minute", "1d"} {
		var d Duration
		if err := d.UnmarshalText([]byte(bad)); err == nil || d != 0 {
			t.Errorf("%q is accepted as %v", bad, d)
		}
	}
	b, err := json.Marshal(Duration(1500 * time.Millisecond))
	if string(b) != `"1.5s"` || err != nil {
		t.Errorf("written as %s, %v", b, err)
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		v            float64
		unit         string
		value, delta string
	}{
		{0, "goroutines", "0", "0"},                    // nothing has no sign
		{math.Copysign(0, -1), "goroutines", "0", "0"}, // nor has negative zero
		{12, "goroutines", "12", "+12"},                // whole numbers stay whole
		{-12, "goroutines", "-12", "−12"},              // a shrinking series
		{0.97, "goroutines", "0.97", "+0.97"},          // per operation
		{0.01, "goroutines", "0.01", "+0.01"},
		{0.00004, "goroutines", "4e-05", "+4e-05"}, // small is not zero
		{-0.00004, "goroutines", "-4e-05", "−4e-05"},
		{0.999, "goroutines", "1.00", "+1.00"},                           // rounded, and shown to be so
		{1e15, "objects", "1000000000000000.00", "+1000000000000000.00"}, // where float64 counts in eighths
		{0, "seconds", "0 s", "0 s"},
		{1.23456, "seconds", "1.23 s", "+1.23 s"},
		{0.9996, "seconds", "1.00 s", "+1.00 s"}, // not "1000 ms"
		{0.102, "seconds", "102 ms", "+102 ms"},
		{-0.0123456, "seconds", "-12.3 ms", "−12.3 ms"},
		{1.31e-6, "seconds", "1.31 µs", "+1.31 µs"},
		{7e-9, "seconds", "7.00 ns", "+7.00 ns"},
		{120, "seconds", "120 s", "+120 s"},
		{0, "bytes", "0 B", "0 B"},
		{1, "bytes", "1 B", "+1 B"},
		{0.5, "bytes", "0.50 B", "+0.50 B"}, // half a byte per operation
		{1023, "bytes", "1023 B", "+1023 B"},
		{1023.99, "bytes", "1023.99 B", "+1023.99 B"},
		{1023.999, "bytes", "1.0 KiB", "+1.0 KiB"}, // not "1024.00 B"
		{1024, "bytes", "1.0 KiB", "+1.0 KiB"},
		{-1536, "bytes", "-1.5 KiB", "−1.5 KiB"},
		{1<<20 - 1, "bytes", "1.00 MiB", "+1.00 MiB"},      // not "1024.0 KiB"
		{1<<20 - 52, "bytes", "1023.9 KiB", "+1023.9 KiB"}, // the last below
		{1 << 20, "bytes", "1.00 MiB", "+1.00 MiB"},
		{1<<30 - 1, "bytes", "1.00 GiB", "+1.00 GiB"}, // not "1024.00 MiB"
		{-(1 << 30), "bytes", "-1.00 GiB", "−1.00 GiB"},
		{5 << 40, "bytes", "5120.00 GiB", "+5120.00 GiB"}, // there is no larger unit
	} {
		if got := display.Value(c.v, c.unit); got != c.value {
			t.Errorf("FormatValue(%v, %s) = %q, want %q", c.v, c.unit, got, c.value)
		}
		if got := display.Delta(c.v, c.unit); got != c.delta {
			t.Errorf("FormatDelta(%v, %s) = %q, want %q", c.v, c.unit, got, c.delta)
		}
	}
}
