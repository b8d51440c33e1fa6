// Package display writes values and untrusted text for people.
package display

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Value writes v in unit for people: "12", "0.97", "1.5 MiB". Counts have no unit appended.
func Value(v float64, unit string) string {
	switch unit {
	case "bytes":
		return formatBytes(v)
	case "seconds":
		return formatSeconds(v)
	}
	return formatCount(v)
}

// Delta is Value with an explicit sign.
func Delta(v float64, unit string) string {
	s := Value(math.Abs(v), unit)
	switch {
	case strings.Trim(strings.Split(s, " ")[0], "0.") == "":
		return s
	case v < 0:
		return "−" + s
	}
	return "+" + s
}

// Rate formats growth per operation with its sign: "+1.00", "+14.6 KiB", "0". It ignores fractions of a byte
// and rounding noise of a fit.
func Rate(v float64, unit string) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "n/a"
	case unit == "bytes" && a < 1<<10:
		return Delta(math.Round(v), unit)
	case unit == "bytes" || unit == "seconds":
		return Delta(v, unit)
	case a < 1e-4:
		return "0"
	case a < 0.01:
		return Delta(v, unit)
	case v < 0:
		return fmt.Sprintf("−%.2f", a)
	}
	return fmt.Sprintf("+%.2f", a)
}

// formatBytes changes to the next unit where the smaller one would round to 1024 of itself.
func formatBytes(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1023.995*(1<<20):
		return fmt.Sprintf("%.2f GiB", v/(1<<30))
	case a >= 1023.95*(1<<10):
		return fmt.Sprintf("%.2f MiB", v/(1<<20))
	case a >= 1023.995:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
	return formatCount(v) + " B"
}

// formatSeconds writes a duration with three digits: "102 ms", "1.31 µs", "0 s".
func formatSeconds(v float64) string {
	a := math.Abs(v)
	for _, unit := range []struct {
		size float64
		name string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}} {
		if a < 0.9995*unit.size && unit.name != "ns" {
			continue
		}
		if a < 0.5e-9 {
			break
		}
		digits := 2 - min(max(int(math.Floor(math.Log10(a/unit.size*1.0005))), 0), 2)
		return strconv.FormatFloat(v/unit.size, 'f', digits, 64) + " " + unit.name
	}
	return "0 s"
}

func formatCount(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v+0, 'f', 0, 64) // −0 + 0 is 0
	}
	if a := math.Abs(v); a < 0.01 && a > 0 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
