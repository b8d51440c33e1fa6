package reports

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// oneLine prevents foreign text from starting new lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// firstLine is the first line of a message, whose other lines may be a compiler's.
func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

// Short keeps a message, which may be a compiler's, to one line of a table.
func Short(s string) string { return cutRunes(firstLine(s), 80) }

// cutRunes cuts a text after n runes, with a mark.
func cutRunes(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// rate formats a growth per operation.
func rate(v float64, unit string) string { return display.Rate(v, unit) }

// inModule returns "in k8s.io/apimachinery v0.18.8". It returns "called from …" if the innermost frame is in the
// standard library.
func inModule(g leak.StackGrowth) string {
	path, _, _ := strings.Cut(g.Module, " ")
	if top := g.Stack.Place(); strings.HasPrefix(top.Package(), path) || strings.HasPrefix(top.File, path) {
		return "in " + g.Module
	}
	return "called from " + g.Module
}

// value formats a reading.
func value(v float64, unit string) string {
	switch {
	case !finite(v):
		return "n/a"
	case unit == "bytes" && math.Abs(v) < 1<<10:
		v = math.Round(v)
	}
	if v < 0 {
		return "−" + display.Value(-v, unit)
	}
	return display.Value(v, unit)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// perOperation returns "+1 goroutines per operation", without the unit if the number has it.
func perOperation(v float64, unit string) string {
	if unit == "" || unit == "bytes" {
		return rate(v, unit) + " per operation"
	}
	return rate(v, unit) + " " + unit + " per operation"
}

// bound formats the bound of a finding: "2.0 KiB per operation" or "10 in total".
func bound(f leak.Finding) string {
	if f.Unbounded {
		return "none: growth that is sustained is a leak"
	}
	if f.BoundPerOperation {
		return value(f.Bound, f.Unit) + " per operation"
	}
	return value(f.Bound, f.Unit) + " in total"
}

// comparison formats the numbers of a gate as a true statement: "20.3 KiB > 2.0 KiB". Numbers without a unit have
// three digits, because they can be probabilities.
func comparison(g leak.Gate) string {
	op := g.Op
	if !g.Holds {
		op = map[string]string{"≤": ">", "<": "≥", ">": "≤", "≥": "<", "=": "≠"}[op]
	}
	if g.Unit == "" && finite(g.Value) && finite(g.Bound) {
		return fmt.Sprintf("%.3g %s %.3g", g.Value, op, g.Bound)
	}
	return value(g.Value, g.Unit) + " " + op + " " + value(g.Bound, g.Unit)
}

// expected formats the expectation. Only a scenario that did not load has none.
func expected(e leak.Expectation) string {
	if e == "" {
		return "unknown"
	}
	return string(e)
}

// seconds formats a latency: "12 ms", "1.20 s".
func seconds(s float64) string {
	switch {
	case !finite(s):
		return "n/a"
	case s == 0:
		return "0"
	case s < 0.01:
		return fmt.Sprintf("%.1f ms", s*1e3)
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1e3)
	}
	return fmt.Sprintf("%.2f s", s)
}

// count formats a number with its noun: "1 round", "7 rounds".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// head returns the first n entries of list and the number of omitted ones. Every list in a report is limited and
// states what it omits.
func head[T any](list []T, n int) ([]T, int) {
	if len(list) <= n {
		return list, 0
	}
	return list[:n], len(list) - n
}

// and describes what head omitted, without thousands separators: "… and 9990 more stacks".
func and(more int, noun string) string {
	if more == 1 {
		return "… and 1 more " + noun
	}
	return fmt.Sprintf("… and %d more %ss", more, noun)
}

// stackNoun is what a list of growing stacks lists.
func stackNoun(heap bool) string {
	if heap {
		return "allocation site"
	}
	return "stack"
}

// stackUnit returns the unit of From, To and PerOperation in a list of growing stacks.
func stackUnit(heap bool) string {
	if heap {
		return "bytes"
	}
	return "goroutines"
}

// reenacted describes which function of a module has a different body in a binary, and why.
func reenacted(r *leak.Rewrite) string {
	return oneLine(fmt.Sprintf("%s of %s (%s) has another body than upstream's: %s", r.Func, r.Package, r.Module, r.Doc))
}

// parameters formats the values of the scenario's parameters: "nodes=20 posts=5".
func parameters(values map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+values[name])
	}
	return strings.Join(parts, " ")
}
