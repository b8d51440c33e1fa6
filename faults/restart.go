package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var restartKind = leak.Kind[leak.Action]{
	Name: "restart",
	Doc: "Stops a dependency, pods, or the API server of the cluster while other actions run, and starts them again. " +
		"An injection ends when they are ready. Deleted pods are replaced by their controller.",
	New: func() leak.Action { return &Restart{timing: timing{For: leak.Duration(time.Second)}} },
}

// downTimeout bounds the stop of a part, and upTimeout its start until it is ready.
const (
	downTimeout = 30 * time.Second
	upTimeout   = 2 * time.Minute
)

// Restart stops and starts a part.
type Restart struct {
	Name      string `yaml:"of,omitempty" doc:"a dependency, or kube-apiserver"`
	Selector  string `yaml:"selector,omitempty" doc:"label selector of pods to delete, as in app=web; not together with of:"`
	Namespace string `yaml:"namespace,omitempty" doc:"namespace of these pods (default: that of the run)"`
	timing    `yaml:",inline"`
}

// Validate returns all problems.
func (r *Restart) Validate() error {
	errs := r.validate()
	if (r.Name == "") == (r.Selector == "") {
		errs = append(errs, &leak.FieldError{Field: "of", Problem: "of and selector: exactly one is needed", Hint: "of: kube-apiserver, the name of a dependency, or selector: app=web"})
	}
	if r.Namespace != "" && r.Selector == "" {
		errs = append(errs, &leak.FieldError{Field: "namespace", Problem: "is for pods", Hint: "give selector"})
	}
	return errors.Join(errs...)
}

// Run returns an error: the runner calls Begin.
func (r *Restart) Run(context.Context, leak.Target, int) (leak.Tally, error) {
	return leak.Tally{}, errAlone
}

// Of names the dependency or component, "" for pods.
func (r *Restart) Of() (name string, linked bool) { return r.Name, false }

// Begin checks that there is something to stop.
func (r *Restart) Begin(_ context.Context, t leak.Target) (leak.Injection, error) {
	part := leak.Part{Name: r.Name, Selector: r.Selector, Namespace: r.Namespace}
	return newStopped(r.timing, t, part, fmt.Sprintf("%s down for %s", cmp.Or(r.Name, "pods "+r.Selector), r.For))
}

// stopped is a part that is down during an injection.
type stopped struct {
	timing
	target leak.Target
	part   leak.Part
	fault  string
	up     func(context.Context) error
}

func newStopped(t timing, target leak.Target, part leak.Part, fault string) (leak.Injection, error) {
	if target.Down == nil {
		return nil, leak.WithHint(fmt.Errorf("%s: nothing here can be stopped", fault), "dependencies, and clusters that leakrig boots, can")
	}
	return &stopped{timing: t, target: target, part: part, fault: fault}, nil
}

func (s *stopped) Target() leak.Target { return s.target }

func (s *stopped) Inject(ctx context.Context) (leak.Tally, error) {
	return s.repeat(ctx, s.fault, upTimeout, s.down, s.restore)
}

// down stops the part. The end of the action does not cut it short: half a stop is harder to undo than a whole one.
func (s *stopped) down(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	s.up, err = s.target.Down(ctx, s.part)
	return err
}

func (s *stopped) restore(ctx context.Context) error {
	if s.up == nil {
		return nil
	}
	up := s.up
	s.up = nil
	return up(ctx)
}

func (s *stopped) End() error { return nil }
