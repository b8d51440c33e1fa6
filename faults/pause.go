package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/leakrig/leakrig/leak"
)

var pauseKind = leak.Kind[leak.Action]{
	Name: "pause",
	Doc: "Freezes the process of the subject or of a dependency (SIGSTOP) while other actions run, and resumes it. " +
		"Its connections stay open without answers.",
	New: func() leak.Action { return &Pause{} },
}

// Pause freezes the subject.
type Pause struct {
	Program string `yaml:"of,omitempty" doc:"a dependency (default: the subject)"`
	timing  `yaml:",inline"`
}

// Validate returns all problems.
func (p *Pause) Validate() error { return errors.Join(p.validate()...) }

// Run returns an error: the runner calls Begin.
func (p *Pause) Run(context.Context, leak.Target, int) (leak.Tally, error) {
	return leak.Tally{}, errAlone
}

// Of names the dependency, "" for the subject.
func (p *Pause) Of() (name string, linked bool) { return p.Program, false }

// Begin finds the processes to freeze.
func (p *Pause) Begin(_ context.Context, t leak.Target) (leak.Injection, error) {
	all := t.Replicas
	if len(all) == 0 {
		all = []leak.Target{t}
	}
	if p.Program != "" {
		all = []leak.Target{t.Dependencies[p.Program]}
	}
	for _, one := range all {
		if one.Freeze == nil {
			return nil, leak.WithHint(fmt.Errorf("pause: %s is not a process that leakrig started here", p.what()), "use placement process, with build or command")
		}
	}
	return &frozen{p, t, all}, nil
}

func (p *Pause) what() string { return cmp.Or(p.Program, "subject") }

type frozen struct {
	*Pause
	target leak.Target
	all    []leak.Target
}

func (f *frozen) Target() leak.Target { return f.target }

func (f *frozen) Inject(ctx context.Context) (leak.Tally, error) {
	set := func(stop bool) func(context.Context) error {
		return func(context.Context) error {
			var err error
			for _, t := range f.all {
				err = errors.Join(err, t.Freeze(stop))
			}
			return err
		}
	}
	return f.repeat(ctx, fmt.Sprintf("%s frozen for %s", f.what(), f.For), undoTimeout, set(true), set(false))
}

func (f *frozen) End() error { return nil }
