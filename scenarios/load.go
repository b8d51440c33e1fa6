// Package scenarios finds scenario files, both built-in files and those of the user, and decodes them strictly. An
// unknown key or value is a problem with line and column, and is never ignored. All problems of a file are reported
// at once.
//
// The package knows no kind of action, probe or check: package main passes the kinds to Load, which decodes their
// configurations. It runs nothing and opens no files other than the scenario.
package scenarios

import (
	"reflect"
	"slices"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Load decodes and validates a scenario, and sets its defaults. The error is a *leak.UsageError that
// holds all Problems.
func Load(src Source, kinds leak.Kinds) (*leak.Scenario, error) {
	r := newReport(src.Name)
	s := Defaults(kinds)
	root, ok := r.parse(src.Data)
	if ok = ok && r.bounded(root); ok {
		if err := r.expand(root, src.Set, src.Recorded); err != nil {
			return nil, &leak.UsageError{Err: err}
		}
	}
	if ok && r.bounded(root) {
		r.places[""] = place{key: at(root), value: at(root)}
		d := &decoder{r, kinds}
		d.value("", root, reflect.ValueOf(s).Elem())
		if !r.has("spec.cluster") {
			s.Spec.Cluster = nil
		}
		for i := range s.Spec.Subject.Components {
			if c := &s.Spec.Subject.Components[i]; c.Name == "" {
				c.Name = c.Component
			}
		}
		v := &validator{r, kinds, s}
		v.all()
	}
	if len(r.problems) > 0 {
		return nil, &leak.UsageError{Err: r.sorted()}
	}
	return s, nil
}

// Defaults returns a scenario with the defaults of everything that a file may omit. Decoding overwrites it in place.
func Defaults(kinds leak.Kinds) *leak.Scenario {
	return &leak.Scenario{Spec: leak.Spec{
		Cluster: &leak.ClusterSpec{
			Providers: slices.Clone(kinds.Providers),
			Nodes:     1,
		},
		Subject: leak.SubjectSpec{
			Pprof:        "/debug/pprof",
			Ready:        "/healthz",
			ReadyTimeout: leak.Duration(60 * time.Second),
		},
		Warmup: leak.Warmup{Rounds: 1},
		Rounds: 7,
		Settle: leak.SettleSpec{
			Quiet:   leak.Duration(time.Second),
			Timeout: leak.Duration(30 * time.Second),
		},
	}}
}
