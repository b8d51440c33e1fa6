package faults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

var networkKind = leak.Kind[leak.Action]{
	Name: "network",
	Doc: "Disturbs the network between the load and the subject, or between the subject and its dependencies or the API server, while other actions run. " +
		"These connections go through a proxy in leakrig's process; probes do not. " +
		"cut refuses new connections and closes open ones; reset resets them; half-open drops all data and keeps them open; delay and bandwidth slow them down.",
	New: func() leak.Action { return &Network{} },
}

// Faults of a network.
const (
	faultCut       = "cut"
	faultReset     = "reset"
	faultHalfOpen  = "half-open"
	faultDelay     = "delay"
	faultBandwidth = "bandwidth"
)

func networkFaults() []string {
	return []string{faultCut, faultReset, faultHalfOpen, faultDelay, faultBandwidth}
}

// Network disturbs connections.
type Network struct {
	Fault  string        `yaml:"fault" doc:"cut, reset, half-open, delay or bandwidth"`
	Behind string        `yaml:"of,omitempty" doc:"a dependency, or kube-apiserver: the fault acts on the subject's connections to it (default: on the load's connections to the subject)"`
	Delay  leak.Duration `yaml:"delay,omitempty" doc:"for delay: added to every packet of the answers"`
	Jitter leak.Duration `yaml:"jitter,omitempty" doc:"for delay: random part of it, added or subtracted"`
	Rate   leak.Quantity `yaml:"rate,omitempty" doc:"for bandwidth: bytes per second and connection, as in 64KiB"`
	timing `yaml:",inline"`
}

// Validate returns all problems.
func (n *Network) Validate() error {
	errs := n.validate()
	add := func(field, problem, hint string) {
		errs = append(errs, &leak.FieldError{Field: field, Problem: problem, Hint: hint})
	}
	switch n.Fault {
	case faultCut, faultReset, faultHalfOpen:
	case faultDelay:
		if n.Delay <= 0 {
			add("delay", "must be more than zero", "as in 100ms")
		}
		if n.Jitter < 0 || n.Jitter > n.Delay {
			add("jitter", "must be between zero and delay", "as in 20ms")
		}
	case faultBandwidth:
		if n.Rate < 1<<10 || n.Rate > 1<<40 {
			add("rate", "must be at least 1KiB", "as in 64KiB")
		}
	default:
		add("fault", fmt.Sprintf("unknown fault %q", n.Fault), "it is "+strings.Join(networkFaults(), ", "))
	}
	return errors.Join(errs...)
}

// Run returns an error: the runner calls Begin.
func (n *Network) Run(context.Context, leak.Target, int) (leak.Tally, error) {
	return leak.Tally{}, errAlone
}

// Of names what is behind the disturbed connections, "" for the subject.
func (n *Network) Of() (name string, linked bool) { return n.Behind, n.Behind != "" }

// Begin starts a proxy for each replica, or finds the proxy of the subject's own connections.
func (n *Network) Begin(_ context.Context, t leak.Target) (leak.Injection, error) {
	d := &disturbed{Network: n, target: t}
	if n.Behind != "" {
		l, ok := t.Links[n.Behind].(*link)
		if !ok {
			return nil, leak.WithHint(fmt.Errorf("network: the subject does not reach %s through a proxy", n.Behind), "use placement process, with build or command")
		}
		d.links = []*link{l}
		return d, nil
	}
	d.target.Replicas = nil
	var err error
	for _, one := range t.Replicas {
		if one, err = d.through(one); err != nil {
			return nil, errors.Join(err, d.End())
		}
		d.target.Replicas = append(d.target.Replicas, one)
	}
	if len(t.Replicas) > 0 {
		return d, nil
	}
	if d.target, err = d.through(t); err != nil {
		return nil, errors.Join(err, d.End())
	}
	return d, nil
}

// disturbed are the proxies of one action.
type disturbed struct {
	*Network
	target leak.Target
	links  []*link
	own    []*link // the links that Begin opened
}

// through returns the target behind a new proxy on loopback.
func (d *disturbed) through(t leak.Target) (leak.Target, error) {
	at, err := url.Parse(t.URL)
	if err != nil || at.Scheme != "http" || at.Port() == "" || t.Selector != "" {
		return t, leak.WithHint(errors.New("network: the proxy reaches only subjects that listen with HTTP at a TCP port of this machine"), "use placement process")
	}
	l, err := open(at.Host)
	if err != nil {
		return t, fmt.Errorf("network: %w", err)
	}
	d.links, d.own = append(d.links, l), append(d.own, l)
	at.Host = l.Address()
	t.URL = at.String()
	return t, nil
}

func (d *disturbed) Target() leak.Target { return d.target }

func (d *disturbed) Inject(ctx context.Context) (leak.Tally, error) {
	what := d.Fault
	if d.Behind != "" {
		what += " of " + d.Behind
	}
	return d.repeat(ctx, fmt.Sprintf("%s for %s", what, d.For), undoTimeout, d.disturb, d.restore)
}

func (d *disturbed) disturb(context.Context) error {
	for _, l := range d.links {
		if err := l.disturb(d.Network); err != nil {
			return err
		}
	}
	return nil
}

func (d *disturbed) restore(ctx context.Context) error {
	var err error
	for _, l := range d.links {
		err = errors.Join(err, l.restore(ctx, d.Network))
	}
	return err
}

// End closes the proxies that Begin started.
func (d *disturbed) End() error {
	var err error
	for _, l := range d.own {
		err = errors.Join(err, l.Close())
	}
	return err
}
