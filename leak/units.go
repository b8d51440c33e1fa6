package leak

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that YAML and JSON write as "1.5s".
type Duration time.Duration

// D returns d as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "1.5s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 500ms, 2s or 1m30s", b)
	}
	*d = Duration(v)
	return nil
}

// Quantity is a number with an optional binary or decimal unit: "0.01", "64", "2KiB", "1.5MB". Checks
// use it for bounds, in the unit of the metric that they bound.
type Quantity float64

var quantityUnits = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"B", 1},
}

// UnmarshalText reads "2KiB" and the like.
func (q *Quantity) UnmarshalText(b []byte) error {
	s, factor := strings.TrimSpace(string(b)), 1.0
	for _, u := range quantityUnits {
		if t, ok := strings.CutSuffix(s, u.suffix); ok {
			s, factor = strings.TrimSpace(t), u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	v *= factor
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%q is not a number such as 10, 0.01 or 2KiB", b)
	}
	*q = Quantity(v)
	return nil
}

// MarshalText writes the plain number.
func (q Quantity) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(q), 'g', -1, 64), nil
}
