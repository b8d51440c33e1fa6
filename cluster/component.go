package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak/httpclient"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/leakrig/leakrig/cluster/nodeimage"
	"github.com/leakrig/leakrig/cluster/upstream"
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
	c.proc, c.began, c.target.Proc = proc, startTime(stat), proc
	c.target.Process = func(context.Context) (string, error) {
		stat, err := fs.ReadFile(proc, "stat")
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.name, err)
		}
		return c.name + ", started at tick " + startTime(stat), nil
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

func (c *component) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchInterval):
		}
		stat, err := fs.ReadFile(c.proc, "stat")
		if ctx.Err() != nil || err == nil && startTime(stat) == c.began {
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
func (c *connection) viaAPIServer(at string) (leak.Target, error) {
	tls, err := rest.TLSConfigFor(c.config)
	if err != nil {
		return leak.Target{}, fmt.Errorf("kubeconfig: %w", err)
	}
	base := strings.TrimSuffix(c.config.Host, "/")
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	base += at
	u, err := url.Parse(base)
	if err != nil {
		return leak.Target{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return leak.Target{
		URL: base, Pprof: base + "/debug/pprof", Kubeconfig: c.kubeconfig, Namespace: c.namespace,
		Transport: func() http.RoundTripper {
			plain := &http.Transport{TLSClientConfig: tls.Clone(), Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
			wrapped, err := rest.HTTPWrappersForConfig(c.config, plain)
			if err != nil {
				return plain // the request then tells that nobody asks
			}
			return httpclient.OnlyTo(httpclient.OriginOf(u), wrapped)
		},
	}, nil
}

// observable refuses components that a provider cannot reach.
func observable(o leak.BootOptions, kinds ...string) error {
	for _, c := range o.Components {
		if !slices.Contains(kinds, c.Component) {
			return usage("use --cluster kind", "component %s: this provider reaches only %s", c.Component, strings.Join(kinds, " and "))
		}
	}
	return nil
}

// Observe reaches a component that the API server leads to.
func (c *connection) Observe(ctx context.Context, spec leak.ComponentSpec, _ leak.Subject) (leak.Subject, error) {
	part, _ := newComponent(ctx, spec)
	var err error
	switch spec.Component {
	case leak.KubeAPIServer:
		part.target, err = c.viaAPIServer("")
	case leak.Kubelet:
		if spec.Node == "" {
			err = leak.WithHint(errors.New("which node's kubelet?"), "components[].node names the node")
			break
		}
		part.target, err = c.viaAPIServer("/api/v1/nodes/" + spec.Node + "/proxy")
	default:
		err = leak.WithHint(errors.New("it cannot be reached on this cluster"), "on --cluster kind it can")
	}
	if err != nil {
		return nil, fmt.Errorf("component %s: %w", spec.Name, err)
	}
	return part, nil
}

// Observe reaches a component of the cluster: through the API server, or on its node through the engine.
func (c *kindCluster) Observe(ctx context.Context, spec leak.ComponentSpec, program leak.Subject) (leak.Subject, error) {
	part, following := newComponent(ctx, spec)
	subject, _ := program.(*pod)
	node := c.name + "-control-plane"
	switch {
	case spec.Node != "":
		node = c.name + "-" + spec.Node
	case subject != nil && slices.Contains([]string{leak.Kubelet, leak.Containerd, leak.ContainerdShim}, spec.Component):
		node = subject.node
	}
	err := c.observe(ctx, following, part, spec.Component, node, subject)
	if err == nil {
		err = c.asPinned(part, spec.Component)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("component %s on %s: %w", spec.Name, node, err), part.Stop(ctx))
	}
	return part, nil
}

// asPinned reports whether the running component was built as the variant pins it.
func (c *kindCluster) asPinned(part *component, kind string) error {
	for _, pin := range c.pins {
		if pin.Command != kind && (pin.Command != leak.Containerd || kind != leak.ContainerdShim) {
			continue
		}
		if _, err := pinnedModules(pin, part.info.Modules); err != nil {
			return err
		}
	}
	return nil
}

// pinnedModules returns the modules of a binary that a pin names. It returns an error if a module has another
// version.
func pinnedModules(pin leak.NodePin, modules []leak.Module) (found []leak.Module, err error) {
	versions := map[string]string{}
	switch pin.Command {
	case "containerd":
		versions[upstream.ContainerdPath(pin.Version)] = pin.Version
	case "kubelet":
		versions["k8s.io/kubernetes"] = pin.Version
	case "runc":
		versions["github.com/opencontainers/runc"] = pin.Version
	}
	maps.Copy(versions, pin.Modules)
	for _, m := range modules {
		_, replaced, _ := strings.Cut(m.Replace, " ")
		if want := versions[m.Path]; want != "" && (m.Version == want || replaced == want) {
			delete(versions, m.Path)
			found = append(found, m)
		}
	}
	if len(versions) > 0 {
		return nil, fmt.Errorf("it was not built as pinned: go version -m of the binary does not show %v", versions)
	}
	return found, nil
}

// pinned reads the build information of the pinned commands on the node.
func (c *kindCluster) pinned(ctx context.Context) ([]leak.NodeCommand, error) {
	var all []leak.NodeCommand
	for _, pin := range c.pins {
		paths, err := nodeimage.PinnedPaths(pin)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			binary, err := c.engine.output(ctx, "exec", c.name+"-control-plane", "cat", path)
			if err != nil {
				return nil, fmt.Errorf("read %s on the node: %w", path, err)
			}
			info := leak.ReadBinary(bytes.NewReader(binary))
			modules, err := pinnedModules(pin, info.Modules)
			if err != nil {
				return nil, fmt.Errorf("%s on the node: %w", path, err)
			}
			all = append(all, leak.NodeCommand{Path: path, GoVersion: info.GoVersion, Modules: modules})
		}
	}
	return all, nil
}

func (c *kindCluster) observe(ctx, following context.Context, part *component, kind, node string, subject *pod) (err error) {
	var proc fs.FS
	switch kind {
	case leak.Kubelet:
		if part.target, err = c.viaAPIServer("/api/v1/nodes/" + node + "/proxy"); err == nil {
			proc, err = c.serviceProc(ctx, node, kind)
		}
	case leak.Containerd:
		var socket *nodeSocket
		if socket, err = c.socket(ctx, node, "/run/containerd/debug.sock"); err == nil {
			part.target = leak.Target{
				URL: "http://containerd", Pprof: "http://containerd/debug/pprof", Kubeconfig: c.kubeconfig, Namespace: c.namespace,
				Transport: func() http.RoundTripper { return socket },
			}
			proc, err = c.serviceProc(ctx, node, kind)
		}
	case leak.ContainerdShim:
		if subject == nil {
			return leak.WithHint(errors.New("the shim of which pod? no subject runs as a pod"), "subject.build and placement pod")
		}
		var shim *shim
		if shim, err = c.shim(ctx, node, subject); err == nil {
			part.target = leak.Target{Dump: shim.dump, Kubeconfig: c.kubeconfig, Namespace: c.namespace}
			proc, err = c.procOf(ctx, node, shim.pid)
		}
	case leak.KubeAPIServer:
		if part.target, err = c.viaAPIServer(""); err == nil {
			proc, err = c.proc(ctx, node, metav1.NamespaceSystem, kind+"-"+node)
		}
	case leak.KubeScheduler:
		proc, err = c.staticPod(ctx, following, part, kind, node, 10259)
	case leak.KubeControllerManager:
		proc, err = c.staticPod(ctx, following, part, kind, node, 10257)
	default:
		return fmt.Errorf("unknown component %q", kind)
	}
	if err != nil {
		return err
	}
	return part.follow(following, proc)
}

// staticPod reaches a component of the control plane at its secure port, by a port-forward into its pod:
// kubeadm lets them listen on loopback alone.
func (c *kindCluster) staticPod(ctx, following context.Context, part *component, name, node string, port int32) (fs.FS, error) {
	pod := name + "-" + node
	address, err := c.forward(following, &part.tasks, metav1.NamespaceSystem, pod, port)
	if err != nil {
		return nil, err
	}
	tls, err := rest.TLSConfigFor(c.config)
	if err != nil {
		return nil, err
	}
	// The component has a self-signed certificate. The connection goes through the API server.
	tls.InsecureSkipVerify, tls.RootCAs, tls.ServerName = true, nil, ""
	base := "https://" + address
	part.target = leak.Target{
		URL: base, Pprof: base + "/debug/pprof", Kubeconfig: c.kubeconfig, Namespace: c.namespace,
		Transport: func() http.RoundTripper {
			return &http.Transport{TLSClientConfig: tls.Clone(), DisableKeepAlives: true}
		},
	}
	return c.proc(ctx, node, metav1.NamespaceSystem, pod)
}

// serviceProc is the folder below /proc of a unit's main process.
func (c *kindCluster) serviceProc(ctx context.Context, node, unit string) (fs.FS, error) {
	out, err := c.engine.run(ctx, "exec", node, "systemctl", "show", "--property=MainPID", "--value", unit)
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(out)
	if err != nil || pid <= 0 {
		return nil, fmt.Errorf("systemd names the pid %q of %s", out, unit)
	}
	return c.procOf(ctx, node, pid)
}

// nodeSocket makes requests on a unix socket inside a node: directly where the engine runs on this
// machine and lets us, else by curl on the node, which every node image has.
type nodeSocket struct {
	engine engine
	node   string
	path   string // in the node
	here   string // on this machine, "" where it cannot be reached
}

// socket finds the way to a socket inside a node.
func (c *kindCluster) socket(ctx context.Context, node, at string) (*nodeSocket, error) {
	s := &nodeSocket{engine: c.engine, node: node, path: at}
	// The pid may be that of an engine elsewhere: the node's first process has to be the one seen here.
	if _, err := c.procHere(ctx, node, "/proc/1"); err == nil {
		pid, err := c.engine.run(ctx, "inspect", "-f", "{{.State.Pid}}", node)
		if err != nil {
			return nil, err
		}
		s.here = path.Join("/proc", pid, "root", at)
	}
	return s, nil
}

func (s *nodeSocket) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.here != "" {
		return s.dial(r)
	}
	out, err := s.engine.output(r.Context(), "exec", s.node, "curl", "--silent", "--show-error", "--include", "--raw",
		"--unix-socket", s.path, r.URL.String())
	if err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), r)
}

func (s *nodeSocket) dial(r *http.Request) (*http.Response, error) {
	direct := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.here)
	}}
	return direct.RoundTrip(r)
}
