// Package component observes parts of the cluster itself: API server, kubelet, containerd and others.
package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak/httpclient"

	"k8s.io/client-go/rest"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/cluster/node"
	"github.com/leakrig/leakrig/leak"
)

// component is a part of the cluster under observation.
type component struct {
	name   string
	target leak.Target
	info   leak.SubjectInfo
	// proc is the folder of the process below /proc, nil if it cannot be read. began is the start time of the process.
	proc  fs.FS
	began string

	stop  context.CancelFunc
	tasks sync.WaitGroup
	once  sync.Once
	done  chan struct{}
	err   error // set before done is closed
}

func newComponent(ctx context.Context, spec leak.ComponentSpec) (*component, context.Context) {
	c := &component{name: spec.Name, done: make(chan struct{})}
	c.info = leak.SubjectInfo{Command: []string{spec.Component}, Placement: leak.PlacementNode}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	return c, ctx
}

func (c *component) Target() leak.Target    { return c.target }
func (c *component) Info() leak.SubjectInfo { return c.info }
func (c *component) Done() <-chan struct{}  { return c.done }

func (c *component) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Stop ends the observation; the component runs on.
func (c *component) Stop(context.Context) error {
	c.stop()
	c.tasks.Wait()
	c.once.Do(func() { close(c.done) })
	return nil
}

// follow stores the process, reads the build information of its binary, and watches that it stays the same process: a
// restarted one has lost its leak.
func (c *component) follow(ctx context.Context, proc fs.FS) error {
	stat, err := fs.ReadFile(proc, "stat")
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	c.proc, c.began, c.target.Proc = proc, node.StartTime(stat), proc
	c.target.Process = func(context.Context) (string, error) {
		stat, err := fs.ReadFile(proc, "stat")
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.name, err)
		}
		return c.name + ", started at tick " + node.StartTime(stat), nil
	}
	if exe, err := openReaderAt(proc, "exe"); err == nil {
		info := leak.ReadBinary(exe)
		c.info.GoVersion, c.info.Modules = info.GoVersion, info.Modules
		exe.Close()
	}
	c.tasks.Go(func() { c.watch(ctx) })
	return nil
}

type readerAtCloser interface {
	io.ReaderAt
	io.Closer
}

func openReaderAt(files fs.FS, name string) (readerAtCloser, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	r, ok := f.(readerAtCloser)
	if !ok {
		return nil, errors.Join(&fs.PathError{Op: "readat", Path: name, Err: errors.ErrUnsupported}, f.Close())
	}
	return r, nil
}

// followInterval is the interval between two checks that the process is the same.
const followInterval = 500 * time.Millisecond

func (c *component) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(followInterval):
		}
		stat, err := fs.ReadFile(c.proc, "stat")
		if ctx.Err() != nil || err == nil && node.StartTime(stat) == c.began {
			continue
		}
		var through *fs.PathError
		if err != nil && !errors.As(err, &through) {
			continue // the engine is busy, or gone: the cluster's own check tells
		}
		c.once.Do(func() {
			c.err = leak.WithHint(fmt.Errorf("component %s died, or was restarted", c.name), "the node's journal is in the run directory, below cluster/")
			close(c.done)
		})
		return
	}
}

// viaAPIServer returns the target of pprof handlers at a path of the API server. Every call of Transport opens its
// own connections.
func viaAPIServer(c *apiserver.Connection, at string) (leak.Target, error) {
	tls, err := rest.TLSConfigFor(c.Config)
	if err != nil {
		return leak.Target{}, fmt.Errorf("kubeconfig: %w", err)
	}
	base := strings.TrimSuffix(c.Config.Host, "/")
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	base += at
	u, err := url.Parse(base)
	if err != nil {
		return leak.Target{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return leak.Target{
		URL: base, Pprof: base + "/debug/pprof", Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace,
		Transport: func() http.RoundTripper {
			plain := &http.Transport{TLSClientConfig: tls.Clone(), Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
			wrapped, err := rest.HTTPWrappersForConfig(c.Config, plain)
			if err != nil {
				return plain // the request then tells that nobody asks
			}
			return httpclient.OnlyTo(httpclient.OriginOf(u), wrapped)
		},
	}, nil
}

// Observable refuses components that a provider cannot reach.
func Observable(o leak.BootOptions, kinds ...string) error {
	for _, c := range o.Components {
		if !slices.Contains(kinds, c.Component) {
			return leak.Usage("use --cluster kind", "component %s: this provider reaches only %s", c.Component, strings.Join(kinds, " and "))
		}
	}
	return nil
}

// Observe reaches a component that the API server leads to.
func Observe(ctx context.Context, c *apiserver.Connection, spec leak.ComponentSpec) (leak.Subject, error) {
	part, _ := newComponent(ctx, spec)
	var err error
	switch spec.Component {
	case leak.KubeAPIServer:
		part.target, err = viaAPIServer(c, "")
	case leak.Kubelet:
		if spec.Node == "" {
			err = leak.WithHint(errors.New("which node's kubelet?"), "components[].node names the node")
			break
		}
		part.target, err = viaAPIServer(c, "/api/v1/nodes/"+spec.Node+"/proxy")
	default:
		err = leak.WithHint(errors.New("it cannot be reached on this cluster"), "on --cluster kind it can")
	}
	if err != nil {
		return nil, fmt.Errorf("component %s: %w", spec.Name, err)
	}
	return part, nil
}
