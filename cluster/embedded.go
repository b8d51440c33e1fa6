package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/cluster/binaries"
	"github.com/leakrig/leakrig/cluster/component"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/procs"
)

// DefaultVersion is the version of Kubernetes that is booted where a scenario names none.
const DefaultVersion = "v1.34.4"

func embeddedKind(o Options) leak.Kind[leak.Provider] {
	return leak.Kind[leak.Provider]{
		Name: "embedded",
		Doc: "A real etcd and a real kube-apiserver as processes of this machine. " +
			"leakrig downloads them once, or builds them once from the upstream Go modules (--control-plane). KUBEBUILDER_ASSETS names a folder that has them. " +
			"It has neither a kubelet nor a controller-manager: pods stay pending, Deployments do nothing, and namespaces never finish deleting.",
		New: func() leak.Provider {
			return &Embedded{Cache: o.Cache, Mode: o.ControlPlane, Index: os.Getenv(binaries.IndexVariable)}
		},
	}
}

// Embedded boots control planes without nodes.
type Embedded struct {
	// Cache is the folder for binaries.
	Cache string
	// Mode and Index are those of binaries.Source.
	Mode, Index string
}

// Preflight refuses what needs nodes.
func (e *Embedded) Preflight(_ context.Context, o leak.BootOptions) error {
	switch {
	case o.Spec.Nodes > 1:
		return leak.Usage("use --cluster kind", "%d nodes: the embedded control plane has none", o.Spec.Nodes)
	case o.Pods:
		return leak.Usage("use --cluster kind, or --placement process", "a subject as a pod: the embedded control plane has no nodes")
	case o.Workers:
		return leak.Usage("use --cluster kind, or leave workers out", "load from workers: the embedded control plane has no nodes to run them")
	case o.LoadsPods:
		return leak.Usage("use --cluster kind", "load on pods that run: the embedded control plane has no nodes, so none does")
	case len(o.Node) > 0:
		return leak.Usage("use --cluster kind", "commands of the node at other versions: the embedded control plane has no nodes")
	}
	return component.Observable(o, leak.KubeAPIServer)
}

// Boot starts etcd and kube-apiserver on loopback ports.
func (e *Embedded) Boot(ctx context.Context, o leak.BootOptions) (leak.Cluster, error) {
	if err := e.Preflight(ctx, o); err != nil {
		return nil, err
	}
	bin, err := e.binaries(ctx, o)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	p := &plane{info: leak.ClusterInfo{Provider: "embedded", Binaries: bin.Origin}}
	// envtest takes no context. Its start is bounded, so an interrupt waits for it and then stops what
	// it started.
	if err := p.start(bin, o); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	if err := p.prepare(ctx, o); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	p.info.BootTime = time.Since(start).Seconds()
	if err := p.Fill(ctx, o.Fixtures, o.Progress); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	return p, nil
}

// binaries returns kube-apiserver and etcd. A scenario that names no version accepts any release of the default minor
// version.
func (e *Embedded) binaries(ctx context.Context, o leak.BootOptions) (binaries.Pair, error) {
	source := binaries.Source{Mode: e.Mode, Index: e.Index, Cache: e.Cache, Progress: o.Progress}
	return source.Get(ctx, binaries.Want{
		Version: cmp.Or(o.Spec.Kubernetes, DefaultVersion), Minor: o.Spec.Kubernetes == "", HeapDump: len(o.Components) > 0,
	})
}

// plane is a running control plane.
type plane struct {
	*apiserver.Connection
	control *envtest.ControlPlane
	info    leak.ClusterInfo
	files   []*os.File
	// down is set while a fault keeps the API server stopped.
	down atomic.Bool
}

const (
	planeStart = time.Minute
	planeStop  = 20 * time.Second
	// apiGrace is how long the API server may take to end before a restart.
	apiGrace = 2 * time.Second
	// startTries is how often a control plane is started: another process may take a port that was free.
	startTries = 3
)

// start starts etcd and the API server. It does not use envtest.Environment, which would leave the key of a webhook
// server in the folder for temporary files, where leakrig does not clean up.
func (p *plane) start(bin binaries.Pair, o leak.BootOptions) error {
	log.SetLogger(logr.Discard()) // the progress is ours to tell
	apiLog, err := p.logFile(o.Logs, "kube-apiserver.log")
	if err != nil {
		return err
	}
	etcdLog, err := p.logFile(o.Logs, "etcd.log")
	if err != nil {
		return err
	}
	if bin.APIServer, err = guarded(o.Scratch, bin.APIServer); err != nil {
		return err
	}
	if bin.Etcd, err = guarded(o.Scratch, bin.Etcd); err != nil {
		return err
	}
	for try := range startTries {
		if err = p.configure(bin, o, filepath.Join(o.Scratch, fmt.Sprintf("plane-%d", try)), apiLog, etcdLog); err != nil {
			return err
		}
		if err = p.control.Start(); err == nil {
			return nil
		}
	}
	p.control = nil // it has stopped what it started
	return leak.WithHint(fmt.Errorf("start the control plane: %w", err), "see the logs in %s", o.Logs)
}

// configure returns the arguments of etcd and the API server, and creates their files below dir.
func (p *plane) configure(bin binaries.Pair, o leak.BootOptions, dir string, apiLog, etcdLog *os.File) error {
	apiDir, etcdDir := filepath.Join(dir, "kube-apiserver"), filepath.Join(dir, "etcd")
	if err := errors.Join(os.MkdirAll(apiDir, 0o700), os.MkdirAll(etcdDir, 0o700)); err != nil {
		return err
	}
	files, err := newEtcdFiles(filepath.Join(dir, "etcd-tls"))
	if err != nil {
		return fmt.Errorf("certificates of etcd: %w", err)
	}
	clients, err1 := loopback()
	peers, err2 := loopback()
	health, err3 := loopback()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	// The only address without certificates serves etcd's health and metrics, and accepts no writes.
	etcd := &envtest.Etcd{
		URL: &url.URL{Scheme: "http", Host: health}, Path: bin.Etcd, DataDir: etcdDir, Out: etcdLog, Err: etcdLog,
		StartTimeout: planeStart, StopTimeout: planeStop,
	}
	etcd.Configure().
		Set("listen-metrics-urls", "http://"+health).
		Set("listen-client-urls", "https://"+clients).Set("advertise-client-urls", "https://"+clients).
		Set("cert-file", files.cert).Set("key-file", files.key).Set("trusted-ca-file", files.ca).Set("client-cert-auth", "true").
		Set("listen-peer-urls", "https://"+peers).Set("initial-advertise-peer-urls", "https://"+peers).Set("initial-cluster", "default=https://"+peers).
		Set("peer-cert-file", files.cert).Set("peer-key-file", files.key).Set("peer-trusted-ca-file", files.ca).Set("peer-client-cert-auth", "true")
	api := &envtest.APIServer{
		Path: bin.APIServer, CertDir: apiDir, Out: apiLog, Err: apiLog, StartTimeout: planeStart, StopTimeout: planeStop,
	}
	api.Configure().
		Set("etcd-servers", "https://"+clients).Set("etcd-cafile", files.ca).Set("etcd-certfile", files.cert).Set("etcd-keyfile", files.key)
	if o.Fixtures.Nodes > 0 {
		// It taints every new node until a controller, which is not there, has seen it ready.
		api.Configure().Append("disable-admission-plugins", "TaintNodesByCondition")
	}
	p.control = &envtest.ControlPlane{Etcd: etcd, APIServer: api}
	return nil
}

func (p *plane) logFile(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		p.files = append(p.files, f)
	}
	return f, err
}

func (p *plane) prepare(ctx context.Context, o leak.BootOptions) error {
	admin, err := p.control.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{})
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	written, err := admin.KubeConfig()
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(written)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if p.Connection, err = apiserver.Connect(ctx, config, o); err != nil {
		return err
	}
	if err := p.defaultNamespace(ctx); err != nil {
		return err
	}
	p.info.Kubernetes, err = p.Version()
	return err
}

// defaultNamespace waits for objects that the API server creates shortly after its start, and that subjects need.
func (p *plane) defaultNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		_, err := p.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("namespace default: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *plane) Info() leak.ClusterInfo { return p.info }

// Observe reaches the API server.
func (p *plane) Observe(ctx context.Context, spec leak.ComponentSpec, _ leak.Subject) (leak.Subject, error) {
	return component.Observe(ctx, p.Connection, spec)
}

// Check returns an error when the API server no longer answers, unless a fault has stopped it.
func (p *plane) Check(ctx context.Context) error {
	if p.down.Load() {
		return nil
	}
	err := p.Connection.Check(ctx)
	if p.down.Load() { // meanwhile
		return nil
	}
	return err
}

// Down stops the API server. up starts it with the same port, certificates and etcd.
func (p *plane) Down(_ context.Context, part leak.Part) (up func(context.Context) error, err error) {
	if part.Name != leak.KubeAPIServer {
		return nil, leak.WithHint(errors.New("the embedded control plane has only an API server"), "use --cluster kind")
	}
	p.down.Store(true)
	up = func(ctx context.Context) error {
		// envtest takes no context. It bounds its start.
		var err error
		for range startTries {
			p.control.APIServer.Args = nil //nolint:staticcheck // otherwise envtest takes the arguments of the last start as a template
			if err = p.control.APIServer.Start(); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return leak.WithHint(fmt.Errorf("start the API server again: %w", err), "%s", p.Hint)
		}
		err = p.answers(ctx)
		p.down.Store(false)
		return err
	}
	if err := p.stopAPIServer(); err != nil {
		return up, fmt.Errorf("stop the API server: %w", err)
	}
	return up, nil
}

// stopAPIServer asks the API server to end, and kills it after a grace period: open watches keep it for a minute.
func (p *plane) stopAPIServer() error {
	serving, _ := netip.ParseAddrPort(p.Server())
	processes, _ := procs.Listeners(serving) // where there is no /proc, envtest kills it later
	stopped := make(chan error, 1)
	go func() { stopped <- p.control.APIServer.Stop() }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(apiGrace):
	}
	for _, one := range processes {
		if err := one.Kill(); err != nil {
			return errors.Join(err, <-stopped)
		}
	}
	return <-stopped
}

// answers waits until the API server is ready.
func (p *plane) answers(ctx context.Context) error {
	for {
		err := p.Connection.Check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Close stops the API server, then etcd. It is bounded by envtest's own timeouts.
func (p *plane) Close(context.Context) error {
	var err error
	if p.control != nil {
		err = p.control.Stop()
	}
	for _, f := range p.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
