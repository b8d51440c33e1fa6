package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/leakrig/leakrig/leak"
)

var networkKind = leak.Kind[leak.Action]{
	Name: "network",
	Doc: "Disturbs the network between the load and the subject while other actions run. " +
		"All their connections go through a proxy in leakrig's process; probes do not. " +
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
	Delay  leak.Duration `yaml:"delay,omitempty" doc:"of delay: added to every packet of the answers"`
	Jitter leak.Duration `yaml:"jitter,omitempty" doc:"of delay: random part of it, added or subtracted"`
	Rate   leak.Quantity `yaml:"rate,omitempty" doc:"of bandwidth: bytes per second and connection, as in 64KiB"`
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

// Begin starts a proxy for each replica, which passes everything on.
func (n *Network) Begin(_ context.Context, t leak.Target) (leak.Injection, error) {
	d := &disturbed{Network: n, target: t, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
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
	target  leak.Target
	server  *toxiproxy.ApiServer
	proxies []*toxiproxy.Proxy
}

// through returns the target behind a new proxy on loopback.
func (d *disturbed) through(t leak.Target) (leak.Target, error) {
	at, err := url.Parse(t.URL)
	if err != nil || at.Scheme != "http" || at.Port() == "" || t.Selector != "" {
		return t, leak.WithHint(errors.New("network: the proxy reaches only subjects that listen with HTTP at a TCP port of this machine"), "use placement process")
	}
	p := toxiproxy.NewProxy(d.server, t.URL, "127.0.0.1:0", at.Host)
	if err := p.Start(); err != nil {
		return t, fmt.Errorf("network: start the proxy: %w", err)
	}
	d.proxies = append(d.proxies, p)
	at.Host = p.Listen
	t.URL = at.String()
	return t, nil
}

func (d *disturbed) Target() leak.Target { return d.target }

func (d *disturbed) Inject(ctx context.Context) (leak.Tally, error) {
	return d.repeat(ctx, fmt.Sprintf("%s for %s", d.Fault, d.For), d.disturb, d.restore)
}

// Directions of a proxy, which are also the names of its toxics.
const (
	toSubject   = "upstream"
	fromSubject = "downstream"
)

func (d *disturbed) disturb(context.Context) error {
	if d.Fault == faultCut {
		for _, p := range d.proxies {
			p.Stop()
		}
		return nil
	}
	kind, attributes, directions := "", map[string]any{}, []string{fromSubject}
	switch d.Fault {
	case faultReset:
		kind = "reset_peer"
	case faultHalfOpen:
		kind, directions = "timeout", append(directions, toSubject) // of 0: it drops data and never closes the connection
	case faultDelay:
		kind = "latency"
		attributes["latency"], attributes["jitter"] = d.Delay.D().Milliseconds(), d.Jitter.D().Milliseconds()
	case faultBandwidth:
		kind = "bandwidth"
		attributes["rate"] = int64(d.Rate) >> 10
	}
	for _, direction := range directions {
		text, err := json.Marshal(map[string]any{"name": direction, "type": kind, "stream": direction, "toxicity": 1.0, "attributes": attributes})
		if err != nil {
			return err
		}
		for _, p := range d.proxies {
			if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *disturbed) restore(ctx context.Context) error {
	var err error
	for _, p := range d.proxies {
		if d.Fault == faultCut {
			err = errors.Join(err, p.Start())
		}
		for _, direction := range []string{fromSubject, toSubject} {
			if p.Toxics.GetToxic(direction) != nil {
				err = errors.Join(err, p.Toxics.RemoveToxic(ctx, direction))
			}
		}
	}
	return err
}

// End stops the proxies, which closes their connections.
func (d *disturbed) End() error {
	for _, p := range d.proxies {
		p.Stop()
	}
	return nil
}
