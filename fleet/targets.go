package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/cluster/fleetpods"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/subjects"
)

// metricsAt are the port, 0 for that of pprof, and the path of the metrics.
func (f *Options) metricsAt() (port int, path string, err error) {
	rest, ok := strings.CutPrefix(f.Metrics, ":")
	if ok {
		number, tail, _ := strings.Cut(rest, "/")
		if port, err = strconv.Atoi(number); err != nil || port < 1 || port > 65535 {
			return 0, "", fmt.Errorf("%q is not a port", number)
		}
		return port, "/" + tail, nil
	}
	if !strings.HasPrefix(f.Metrics, "/") {
		return 0, "", errors.New("it begins with a slash, or with a port")
	}
	return 0, f.Metrics, nil
}

// lister is where the targets come from.
func (f *Options) lister(stdin io.Reader) (Lister, error) {
	port, path, err := f.metricsAt()
	if err != nil {
		return nil, err
	}
	if f.Targets != "" {
		return &List{File: f.Targets, Stdin: stdin, Reach: func(address string) (Target, error) {
			return reachTarget(address, f.Pprof, f.Access(), port, path)
		}}, nil
	}
	pods, err := fleetpods.New(f.Cluster, fleetpods.Query{Selector: f.Selector, Namespace: f.Namespace, All: f.AllNamespaces, Port: f.Port, Forward: f.Via == ViaForward})
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = f.Port
	}
	return podLister{pods, f.Port, strings.TrimSuffix(f.Pprof, "/"), port, path}, nil
}

// reachTarget returns a target at a URL. Its metrics are on the same port as its pprof, or on another port of the
// same host.
func reachTarget(address, pprof string, access leak.Access, port int, path string) (Target, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Target{}, err
	}
	if base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), pprof); ok && u.Scheme != "unix" {
		u.Path = base // it leads to pprof itself
	}
	subject, err := subjects.Remote(u.String(), pprof, access)
	if err != nil {
		return Target{}, err
	}
	metrics := url.URL{Scheme: u.Scheme, Host: u.Host, Path: path} // who asks, the subject's transport says
	switch {
	case u.Scheme == "unix":
		metrics.Scheme, metrics.Host = "http", "localhost"
	case port != 0:
		metrics.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(port))
	}
	return Target{Subject: subject, Metrics: metrics.String()}, nil
}

// podLister lists pods as targets.
type podLister struct {
	pods        *fleetpods.Pods
	port        int
	pprof       string
	metricsPort int
	metrics     string
}

// List asks the API server.
func (l podLister) List(ctx context.Context) ([]Target, error) {
	pods, err := l.pods.List(ctx)
	if err != nil {
		return nil, err
	}
	targets := make([]Target, 0, len(pods))
	for _, p := range pods {
		targets = append(targets, Target{
			ID: p.ID, Name: p.Name,
			Subject: leak.Target{Pprof: l.pods.URL(p, l.port, l.pprof), Transport: func() http.RoundTripper { return l.pods.Transport(p) }},
			Metrics: l.pods.URL(p, l.metricsPort, l.metrics),
		})
	}
	return targets, nil
}
