package scenarios

import (
	"context"
	"errors"
	"fmt"

	"github.com/leakrig/leakrig/leak"
)

// These tests use small kinds, which have every shape of configuration.

// noRun makes a configuration an action.
type noRun struct{}

func (noRun) Run(context.Context, leak.Target, int) (leak.Tally, error) { return leak.Tally{}, nil }

type post struct {
	noRun
	Path        string            `yaml:"path" doc:"path of the request"`
	Times       int               `yaml:"times,omitempty" doc:"requests a round"`
	Concurrency int               `yaml:"concurrency,omitempty" doc:"requests at a time"`
	Headers     map[string]string `yaml:"headers,omitempty" doc:"headers of the request"`
}

func (p *post) Validate() error {
	var errs []error
	if p.Path == "" {
		errs = append(errs, &leak.FieldError{Field: "path", Problem: "is missing", Hint: "for example path: /"})
	}
	if p.Times < 1 {
		errs = append(errs, &leak.FieldError{Field: "times", Problem: fmt.Sprintf("%d is not positive", p.Times)})
	}
	if p.Path == "/whole" { // an error of the whole block, inside a wrapped join
		errs = append(errs, leak.WithHint(errors.New("does not\nwork"), "try another"))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("post: %w", errors.Join(errors.Join(errs...)))
}

// shared is an action that workers can perform.
type shared struct {
	noRun
	Times int `yaml:"times,omitempty" doc:"how often"`
}

func (s *shared) MostWorkers() int { return s.Times }
func (*shared) Spread(context.Context, leak.Target, int, int, leak.Crew) (leak.Tally, error) {
	return leak.Tally{}, nil
}

// clustered is an action that works through the API server.
type clustered struct {
	noRun
	Count int `yaml:"count,omitempty" doc:"how many"`
}

func (*clustered) UsesPods() bool { return true }

type limits struct {
	Timeout leak.Duration `yaml:"timeout" doc:"time for all of it"`
}

type step struct {
	Do    string `yaml:"do" doc:"what to do"`
	Times uint8  `yaml:"times" doc:"how often"`
}

// shapes has a field of every type that a configuration may use.
type shapes struct {
	noRun
	limits `yaml:",inline"`
	Flag   bool            `yaml:"flag" doc:"a switch"`
	Share  float64         `yaml:"share" doc:"a share"`
	Small  int8            `yaml:"small" doc:"a small number"`
	Maybe  *int            `yaml:"maybe" doc:"a number or none"`
	Words  []string        `yaml:"words" doc:"some words"`
	Steps  []step          `yaml:"steps" doc:"some steps"`
	Counts map[string]int  `yaml:"counts" doc:"some counts"`
	First  *step           `yaml:"first" doc:"a first step"`
	Bounds []leak.Quantity `yaml:"bounds" doc:"some bounds"`
	Odd    chan int        `yaml:"odd" doc:"what no file can say"`
	Secret string
}

// noSample makes a configuration a probe.
type noSample struct{}

func (noSample) Sample(context.Context, leak.Target) (leak.Reading, error) {
	return leak.Reading{}, nil
}

type goroutineProbe struct {
	noSample
	DumpLimit int `yaml:"dumpLimit,omitempty" doc:"no text dump above this"`
}

type plainProbe struct{ noSample }

// noCheck makes a configuration a check.
type noCheck struct{}

func (noCheck) Check(leak.Evidence) leak.Finding { return leak.Finding{} }

// Reading is embedded in checks that read a probe.
type Reading struct {
	Probe  string `yaml:"probe" doc:"the probe to judge"`
	Metric string `yaml:"metric,omitempty" doc:"the metric to judge"`
}

func (r Reading) Reads() (probe, metric string) { return r.Probe, r.Metric }

type delta struct {
	noCheck
	Reading `yaml:",inline"`
	Max     leak.Quantity `yaml:"max" doc:"the most that is allowed"`
}

type growth struct {
	noCheck
	Reading  `yaml:",inline"`
	MaxPerOp leak.Quantity `yaml:"maxPerOp" doc:"the most per operation"`
}

func (g *growth) Validate() error {
	if g.MaxPerOp < 0 {
		return &leak.FieldError{Field: "maxPerOp", Problem: "must not be negative"}
	}
	return nil
}

type stack struct {
	noCheck
	Match    string        `yaml:"match" doc:"what to look for"`
	State    string        `yaml:"state,omitempty" doc:"wait state"`
	MaxPerOp leak.Quantity `yaml:"maxPerOp" doc:"the most per operation"`
}

func (stack) Reads() (probe, metric string) { return "goroutine", "" }

// named has a field called name, which the reserved key must not change.
type named struct {
	noCheck
	Name string `yaml:"name" doc:"not the name of the block"`
}

// broken is not a pointer to a struct.
type broken struct{ noCheck }

func fakeKinds() leak.Kinds {
	return leak.Kinds{
		Actions: []leak.Kind[leak.Action]{
			{Name: "post", New: func() leak.Action { return &post{Times: 10} }},
			{Name: "shapes", New: func() leak.Action {
				return &shapes{Share: 0.5, Words: []string{"a", "b"}, Counts: map[string]int{"x": 1}, Bounds: []leak.Quantity{4096}}
			}},
			{Name: "clustered", New: func() leak.Action { return &clustered{} }},
			{Name: "shared", New: func() leak.Action { return &shared{Times: 4} }},
		},
		Probes: []leak.Kind[leak.Probe]{
			{Name: "goroutine", New: func() leak.Probe { return &goroutineProbe{DumpLimit: 100} }, Metrics: []leak.Metric{{Name: "total"}}},
			{Name: "heap", New: func() leak.Probe { return &plainProbe{} }, Metrics: []leak.Metric{{Name: "bytes"}, {Name: "objects"}}},
			{Name: "process", New: func() leak.Probe { return &plainProbe{} }, Metrics: []leak.Metric{{Name: "resident"}, {Name: "descriptors"}}},
		},
		Checks: []leak.Kind[leak.Check]{
			{Name: "delta", New: func() leak.Check { return &delta{} }},
			{Name: "growth", New: func() leak.Check { return &growth{} }},
			{Name: "stack", New: func() leak.Check { return &stack{} }},
			{Name: "named", New: func() leak.Check { return &named{} }},
			{Name: "broken", New: func() leak.Check { return broken{} }},
		},
		Providers: []string{"kind", "embedded"},
	}
}
