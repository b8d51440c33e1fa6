package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/leakrig/leakrig/leak"
)

// Ports of proxies are below the range of outgoing connections. While a proxy does not listen, a client that dials one
// of that range again and again would sooner or later connect to itself.
const (
	firstPort = 20000
	manyPorts = 12000
	portTries = 100
)

// link is a proxy on loopback.
type link struct{ proxy *toxiproxy.Proxy }

// Open starts a proxy to an address, which passes everything on until a network fault disturbs it.
func Open(to string) (leak.Link, error) { return open(to) }

func open(to string) (*link, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var err error
	for range portTries {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(manyPorts)))
		p := toxiproxy.NewProxy(server, to, at, to)
		if err = p.Start(); err == nil {
			return &link{p}, nil
		}
	}
	return nil, fmt.Errorf("start a proxy to %s: %w", to, err)
}

func (l *link) Address() string { return l.proxy.Listen }

// Close stops the proxy, which closes its connections.
func (l *link) Close() error {
	l.proxy.Stop()
	return nil
}

// Directions of a proxy, which are also the names of its toxics.
const (
	toServer   = "upstream"
	fromServer = "downstream"
)

func (l *link) disturb(n *Network) error {
	if n.Fault == faultCut {
		l.proxy.Stop()
		return nil
	}
	kind, attributes, directions := "", map[string]any{}, []string{fromServer}
	switch n.Fault {
	case faultReset:
		kind = "reset_peer"
	case faultHalfOpen:
		kind, directions = "timeout", append(directions, toServer) // of 0: it drops data and never closes the connection
	case faultDelay:
		kind = "latency"
		attributes["latency"], attributes["jitter"] = n.Delay.D().Milliseconds(), n.Jitter.D().Milliseconds()
	case faultBandwidth:
		kind = "bandwidth"
		attributes["rate"] = int64(n.Rate) >> 10
	}
	for _, direction := range directions {
		text, err := json.Marshal(map[string]any{"name": direction, "type": kind, "stream": direction, "toxicity": 1.0, "attributes": attributes})
		if err != nil {
			return err
		}
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
			return err
		}
	}
	return nil
}

func (l *link) restore(ctx context.Context, n *Network) error {
	var err error
	if n.Fault == faultCut {
		err = l.proxy.Start()
	}
	for _, direction := range []string{fromServer, toServer} {
		if l.proxy.Toxics.GetToxic(direction) != nil {
			err = errors.Join(err, l.proxy.Toxics.RemoveToxic(ctx, direction))
		}
	}
	return err
}
