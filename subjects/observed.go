package subjects

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/leakrig/leakrig/leak"
)

// observed are components of the cluster under observation, in addition to a program or instead of one.
type observed struct {
	program    leak.Subject // nil where there is none
	names      []string
	components map[string]leak.Subject
	base       leak.Target

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
	stop context.CancelFunc
}

// observe reaches every component; program may be nil.
func observe(ctx context.Context, c leak.Cluster, specs []leak.ComponentSpec, program leak.Subject) (leak.Subject, error) {
	observer, ok := c.(leak.Observer)
	if !ok {
		return nil, leak.WithHint(errors.New("components cannot be observed on this cluster"), "--cluster kind can")
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	o := &observed{program: program, components: map[string]leak.Subject{}, base: leak.Target{Kubeconfig: c.Kubeconfig()}, done: make(chan struct{}), stop: stop}
	for _, spec := range specs {
		part, err := observer.Observe(ctx, spec, program)
		if err != nil {
			return nil, errors.Join(err, o.Stop(ctx))
		}
		o.names = append(o.names, spec.Name)
		o.components[spec.Name] = part
		go o.watch(watching, part)
	}
	if program != nil {
		go o.watch(watching, program)
	}
	return o, nil
}

// watch ends the whole when one part does.
func (o *observed) watch(ctx context.Context, part leak.Subject) {
	select {
	case <-ctx.Done():
	case <-part.Done():
		o.end(part.Err())
	}
}

func (o *observed) end(err error) {
	o.once.Do(func() {
		o.err = err
		close(o.done)
	})
}

// Target is the program's, or only leads to the cluster.
func (o *observed) Target() leak.Target {
	if o.program != nil {
		return o.program.Target()
	}
	return o.base
}

// Component is the target of a component.
func (o *observed) Component(name string) leak.Target { return o.components[name].Target() }

// Components are those observed, in the scenario's order.
func (o *observed) Components() []leak.ComponentInfo {
	var infos []leak.ComponentInfo
	for _, name := range o.names {
		infos = append(infos, leak.ComponentInfo{Name: name, SubjectInfo: o.components[name].Info()})
	}
	return infos
}

func (o *observed) Info() leak.SubjectInfo {
	if o.program != nil {
		return o.program.Info()
	}
	return leak.SubjectInfo{Command: slices.Clone(o.names), Placement: leak.PlacementNode}
}

func (o *observed) Done() <-chan struct{} { return o.done }

func (o *observed) Err() error {
	select {
	case <-o.done:
		return o.err
	default:
		return nil
	}
}

// Stop ends the program and the observation; the components run on.
func (o *observed) Stop(ctx context.Context) error {
	o.stop()
	o.end(nil)
	var errs []error
	if o.program != nil { // first: it must not wait for the rest
		errs = append(errs, o.program.Stop(ctx))
	}
	for _, c := range o.components {
		errs = append(errs, c.Stop(ctx))
	}
	return errors.Join(errs...)
}
