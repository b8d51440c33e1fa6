package scenarios

import (
	"reflect"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// reach is more than any process ever holds, by the unit of a metric. A check with a larger bound could never fail.
// Units not listed here, such as operations, use mostReach.
var reach = map[string]float64{
	"bytes":       1 << 44, // 16 TiB
	"objects":     1e11,
	"goroutines":  1e8, // at 2 KiB of stack each
	"descriptors": 1e7,
	"threads":     1e6,
}

const mostReach = 1e9

// bounds checks that each bound has the unit of the judged metric, and that a process could exceed it.
func (v *validator) bounds(path string, check leak.Check) {
	config, ok := structOf(check)
	if !ok {
		return
	}
	unit := v.unitOf(check)
	most, known := reach[unit]
	if !known {
		most = mostReach
	}
	for _, f := range fieldsOf(config) {
		at := child(path, f.name)
		bound, ok := quantity(f.value)
		if !ok || !v.has(at) {
			continue
		}
		text := strings.TrimSpace(v.places[at].text)
		switch {
		case strings.HasSuffix(text, "B") && unit != "bytes" && unit != "":
			v.add(at, "write the number alone", "%s is in bytes, and what is judged is %s", quote(text), unit)
		case bound > most:
			v.add(at, "give a bound that a leak would break", "%s is more than a process ever holds, so the check could not fail", quote(text))
		}
	}
}

// unitOf returns the unit of the metric that a check judges, or "" if it judges none.
func (v *validator) unitOf(check leak.Check) string {
	r, ok := check.(leak.Reader)
	if !ok {
		return ""
	}
	probe, metric := r.Reads()
	for _, k := range v.kinds.Probes {
		for i, m := range k.Metrics {
			if k.Name == leak.ProbeKind(probe) && (m.Name == metric || metric == "" && i == 0) {
				return m.Unit
			}
		}
	}
	return ""
}

// quantity returns the value of a field if the field is a quantity.
func quantity(v reflect.Value) (float64, bool) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	q, ok := v.Interface().(leak.Quantity)
	return float64(q), ok
}
