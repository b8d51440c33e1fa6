package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/cluster/component"
	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/cluster/images"
	"github.com/leakrig/leakrig/cluster/node"
	"github.com/leakrig/leakrig/cluster/nodeimage"
	"github.com/leakrig/leakrig/cluster/subjectpod"
	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/cluster/workers"
	"github.com/leakrig/leakrig/leak"
)

const (
	bootTimeout   = 4 * time.Minute
	deleteTimeout = 45 * time.Second
	logsTimeout   = 30 * time.Second
	// networkTimeout bounds the wait for the pod networks of all nodes.
	networkTimeout = 30 * time.Second
)

func kindKind(o Options) leak.Kind[leak.Provider] {
	return leak.Kind[leak.Provider]{
		Name: "kind",
		Doc: "A cluster with nodes, as containers of docker or podman (sigs.k8s.io/kind). " +
			"The node image is the one that `leakrig node-image build` made, or kind's own if it can be pulled. " +
			"leakrig never changes your kubeconfig.",
		New: func() leak.Provider { return &Kind{Options: o} },
	}
}

// Kind boots clusters of containers.
type Kind struct{ Options }

// nodeImage is what the nodes of a cluster are made from.
type nodeImage struct {
	ref string
	// own is set for an image that leakrig built: it has no CNI of kind's.
	own bool
}

// Boot creates a cluster, or attaches to a matching kept one if the options allow that.
func (k *Kind) Boot(ctx context.Context, o leak.BootOptions) (leak.Cluster, error) {
	e, err := engine.Detect(ctx)
	if err != nil {
		return nil, err
	}
	image, err := k.image(ctx, e, o)
	if err != nil {
		return nil, err
	}
	if len(o.Node) > 0 {
		if image, err = k.overlay(ctx, e, image, o); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	c := &kindCluster{cache: k.Cache, engine: e, name: "leakrig-" + o.Run, image: image, logs: o.Logs, progress: o.Progress, pins: o.Node, keep: k.Keep, workers: images.Workers{Image: k.WorkerImage, Rig: k.WorkerRig, Programs: o.Programs}, kubeconfigFile: filepath.Join(o.Scratch, "admin.kubeconfig")}
	if k.Keep || k.Reuse && c.adopt(ctx, k, o.Spec.Nodes) {
		c.name = keptName(e, image, o.Spec.Nodes)
		c.kubeconfigFile = keptKubeconfig(k.Cache, c.name)
	}
	if c.inUse, err = engine.Use(k.Cache, c.name); err != nil {
		return nil, err
	}
	if err := c.boot(ctx, k, o); err != nil {
		c.inUse()
		return nil, err
	}
	if err := c.claim(ctx, k, o); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	if err := c.attach(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	c.info.BootTime = time.Since(start).Seconds()
	if c.info.Pinned, err = c.parts().Pinned(ctx); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// Preflight looks for an engine that answers and for a node image, and makes the one that the pins ask
// for.
func (k *Kind) Preflight(ctx context.Context, o leak.BootOptions) error {
	if err := apiserver.NoFixtures(o.Fixtures, "kind"); err != nil {
		return err
	}
	if o.Workers {
		if err := (images.Workers{Image: k.WorkerImage, Rig: k.WorkerRig, Programs: o.Programs}).Check(); err != nil {
			return err
		}
	}
	e, err := engine.Detect(ctx)
	if err != nil {
		return err
	}
	image, err := k.image(ctx, e, o)
	if err == nil && len(o.Node) > 0 {
		_, err = k.overlay(ctx, e, image, o)
	}
	return err
}

// overlay lays the commands that the pins name over a node image.
func (k *Kind) overlay(ctx context.Context, e engine.Engine, image nodeImage, o leak.BootOptions) (nodeImage, error) {
	var err error
	image.ref, err = nodeimage.Overlay(ctx, nodeimage.Options{Engine: e, Cache: k.Cache, Progress: o.Progress}, image.ref, o.Node)
	return image, err
}

// image chooses the node image: leakrig's own where the engine has it, else kind's, pulled.
func (k *Kind) image(ctx context.Context, e engine.Engine, o leak.BootOptions) (nodeImage, error) {
	version := o.Spec.Kubernetes
	if version == "" {
		version = DefaultVersion
	}
	options := nodeimage.Options{Kubernetes: version, Engine: e, Cache: k.Cache, Progress: o.Progress}
	present, err := nodeimage.Present(ctx, options)
	if err == nil && present {
		ref, err := nodeimage.Tag(options)
		return nodeImage{ref: ref, own: true}, err
	}
	ref := defaults.Image
	if o.Spec.Kubernetes != "" {
		ref = "kindest/node:" + o.Spec.Kubernetes
	}
	ref = "docker.io/" + ref // podman takes no name without its host
	if _, err := e.Run(ctx, "image", "inspect", ref); err == nil {
		return nodeImage{ref: ref}, nil
	}
	o.Progress.Log("pulling %s", ref)
	if _, err := e.OutputNoTimeout(ctx, "pull", ref); err != nil {
		return nodeImage{}, leak.WithMachineHint(fmt.Errorf("no node image: %w", err),
			"`leakrig node-image build` makes one from upstream modules (Linux, root, some minutes)")
	}
	return nodeImage{ref: ref}, nil
}

// kindCluster is a running kind cluster.
type kindCluster struct {
	*apiserver.Connection
	engine         engine.Engine
	name           string
	image          nodeImage
	kubeconfigFile string // of the cluster's administrator
	logs           string
	progress       leak.Progress
	info           leak.ClusterInfo
	pins           []leak.NodePin
	// keep leaves the cluster running; reused says that an earlier run has left it.
	keep, reused bool
	// workers provides the image of workers. It is loaded into the nodes on first use.
	workers     images.Workers
	workerImage string
	// down is set while a fault keeps the API server stopped.
	down atomic.Bool
	// cache is leakrig's folder for what outlives a run.
	cache string
	// inUse lets go of the lock that keeps `leakrig clean` from the cluster; release forgets the claim, where
	// there is one.
	inUse, release func()
}

// adopt reports whether it found a kept cluster that fits and answers.
func (c *kindCluster) adopt(ctx context.Context, k *Kind, nodes int) bool {
	return answersAt(ctx, keptKubeconfig(k.Cache, keptName(c.engine, c.image, nodes)))
}

// boot makes sure that the cluster's containers run.
func (c *kindCluster) boot(ctx context.Context, k *Kind, o leak.BootOptions) error {
	if err := os.MkdirAll(filepath.Dir(c.kubeconfigFile), 0o700); err != nil {
		return err
	}
	// Creates of one engine race on its network, and two runs must not create one kept cluster.
	unlock, err := upstream.Lock(ctx, filepath.Join(k.Cache, "kind.lock"), func() {
		o.Progress.Log("waiting for another leakrig that is booting a kind cluster")
	})
	if err != nil {
		return err
	}
	defer unlock()
	if answersAt(ctx, c.kubeconfigFile) {
		c.reused = true
		return nil
	}
	if left, err := removeUnused(ctx, c.engine, k.Cache, killedNames, false); err != nil {
		o.Progress.Log("%v", err) // it is not this run's business
	} else if len(left) > 0 {
		o.Progress.Log("removed what a run that was killed has left: cluster %s", strings.Join(left, ", "))
	}
	// Remove the remains of a kept cluster that no longer answers.
	removing, removed := context.WithTimeoutCause(ctx, deleteTimeout, fmt.Errorf("the engine did not delete it in %s", deleteTimeout))
	defer removed()
	if err := c.engine.Remove(removing, c.name, 0); err != nil {
		return err
	}
	os.Remove(c.kubeconfigFile)
	o.Progress.Status("creating kind cluster %s", c.name)
	creating, cancel := context.WithTimeoutCause(ctx, bootTimeout, fmt.Errorf("kind did not create the cluster in %s", bootTimeout))
	defer cancel()
	request := childRequest{
		Operation: "create", Engine: c.engine, Name: c.name, Image: c.image.ref, Kubeconfig: c.kubeconfigFile,
		Config: c.config4(o.Spec), Wait: bootTimeout,
	}
	if err := runChild(creating, request, o.Progress); err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, c.SaveLogs(ctx))
		}
		return errors.Join(leak.WithHint(fmt.Errorf("create kind cluster %s: %w", c.name, err), "see the nodes' logs in %s", o.Logs), c.discard(ctx))
	}
	return nil
}

// claim writes down what the run will have in a cluster that is kept, and removes what others have left.
func (c *kindCluster) claim(ctx context.Context, k *Kind, o leak.BootOptions) (err error) {
	if !c.keep && !c.reused {
		return nil
	}
	if _, err := apiserver.Sweep(ctx, k.Cache, func(other apiserver.Claim) bool { return other.Kubeconfig == c.kubeconfigFile }); err != nil {
		o.Progress.Log("%v", err) // it is not this run's business
	}
	c.release, err = apiserver.Claim{Kubeconfig: c.kubeconfigFile, Run: o.Run, Namespace: leak.NamespaceOf(o.Run)}.Take(k.Cache)
	return err
}

// volatileEtcd has etcd not wait for the disk, as envtest has it: no cluster outlives its machine's next boot, and
// every write of the load would wait.
const volatileEtcd = `kind: ClusterConfiguration
etcd:
  local:
    extraArgs:
      unsafe-no-fsync: "true"
`

// config4 is the kind configuration of the cluster.
func (c *kindCluster) config4(spec leak.ClusterSpec) *v1alpha4.Cluster {
	config := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Networking: v1alpha4.Networking{
			IPFamily: v1alpha4.IPv4Family, DisableDefaultCNI: c.image.own, APIServerAddress: "127.0.0.1",
		},
	}
	if !c.image.own {
		// leakrig's own image has it; kind's is to have it too, for profiles of containerd.
		config.ContainerdConfigPatches = []string{"[debug]\n  address = \"/run/containerd/debug.sock\"\n"}
	}
	if c.image.own {
		config.KubeadmConfigPatches = nodeimage.KubeadmPatches()
	}
	config.KubeadmConfigPatches = append(config.KubeadmConfigPatches, volatileEtcd)
	for i := range max(spec.Nodes, 1) {
		role := v1alpha4.WorkerRole
		if i == 0 {
			role = v1alpha4.ControlPlaneRole
		}
		config.Nodes = append(config.Nodes, v1alpha4.Node{Role: role})
	}
	return config
}

// attach creates the namespace of the run, and the routes between pod networks if kind's CNI is missing.
func (c *kindCluster) attach(ctx context.Context, o leak.BootOptions) error {
	config, err := clientcmd.LoadFromFile(c.kubeconfigFile)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if c.Connection, err = apiserver.Connect(ctx, config, o); err != nil {
		return err
	}
	if c.image.own {
		if err := c.route(ctx); err != nil {
			return err
		}
	}
	version, err := c.Version()
	c.info = leak.ClusterInfo{Provider: "kind", Kubernetes: version, Nodes: max(o.Spec.Nodes, 1), NodeImage: c.image.ref, Reused: c.reused}
	return err
}

// route gives every node a route to the pod network of every other.
func (c *kindCluster) route(ctx context.Context) error {
	list, err := c.networked(ctx)
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for _, at := range list.Items {
		for _, to := range list.Items {
			if at.Name == to.Name {
				continue
			}
			if _, err := c.engine.Run(ctx, "exec", at.Name, "ip", "route", "replace", to.Spec.PodCIDR, "via", internalIP(to)); err != nil {
				return fmt.Errorf("route from %s to %s: %w", at.Name, to.Name, err)
			}
		}
	}
	return nil
}

// networked lists the nodes once each has its pod network and its address: kind waits for the control plane alone.
func (c *kindCluster) networked(ctx context.Context) (*corev1.NodeList, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, networkTimeout, fmt.Errorf("not all of them have a pod network and an address after %s", networkTimeout))
	defer cancel()
	for {
		list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Spec.PodCIDR == "" || internalIP(n) == "" }) {
			return list, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func internalIP(n corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

func (c *kindCluster) Info() leak.ClusterInfo { return c.info }

// Observe reaches a component of the cluster.
func (c *kindCluster) Observe(ctx context.Context, spec leak.ComponentSpec, program leak.Subject) (leak.Subject, error) {
	return c.parts().Observe(ctx, spec, program)
}

func (c *kindCluster) parts() *component.Kind {
	return &component.Kind{Connection: c.Connection, Engine: c.engine, Name: c.name, Pins: c.pins}
}

// RunPod runs the program as a Deployment of one pod.
func (c *kindCluster) RunPod(ctx context.Context, l leak.Launch) (leak.Subject, error) {
	image, err := c.loadImage(ctx, l.Program, l.Aliases)
	if err != nil {
		return nil, err
	}
	return subjectpod.Run(ctx, c.Connection, l, image, func(ctx context.Context, at, pod string) (fs.FS, error) {
		return node.Node{Engine: c.engine, Name: at}.PodProc(ctx, c.Namespace, pod)
	}, c.progress)
}

// RunWorkers runs workers in the cluster, from an image of leakrig's own binary and of the programs that they run.
func (c *kindCluster) RunWorkers(ctx context.Context, w leak.Work) ([]leak.WorkerEnd, error) {
	if c.workers.Image != "" {
		return workers.Run(ctx, c.Connection, c.workers.Image, corev1.PullIfNotPresent, w)
	}
	if c.workerImage == "" {
		ref, image, err := c.workers.Build()
		if err == nil {
			err = c.putImage(ctx, ref, image)
		}
		if err != nil {
			return nil, err
		}
		c.workerImage = ref
	}
	return workers.Run(ctx, c.Connection, c.workerImage, corev1.PullNever, w)
}

// nodes are the cluster's node containers, through kind's library.
func (c *kindCluster) nodes() ([]nodes.Node, error) {
	return kindProvider(c.engine).ListInternalNodes(c.name)
}

func kindProvider(e engine.Engine, options ...kind.ProviderOption) *kind.Provider {
	option := kind.ProviderWithDocker()
	if e == "podman" {
		option = kind.ProviderWithPodman()
	}
	return kind.NewProvider(append(options, option)...)
}

// Check adds to the API server's answer whether the engine still does. A fault may have stopped the API server.
func (c *kindCluster) Check(ctx context.Context) error {
	if c.down.Load() {
		return nil
	}
	err := c.Connection.Check(ctx)
	if err == nil || c.down.Load() {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, engineErr := c.engine.Run(short, "inspect", "-f", "{{.State.Status}}", c.name+"-control-plane")
	if engineErr != nil {
		return leak.WithHint(fmt.Errorf("the cluster has vanished: %w", errors.Join(err, engineErr)), "is the container engine still running? %s", c.Hint)
	}
	return leak.WithHint(fmt.Errorf("%w (its container is %s)", err, out), "%s", c.Hint)
}

// Down stops the API server, deletes pods, or drains a node. A cluster that is kept must survive a killed leakrig, so it
// keeps its API server and its nodes.
func (c *kindCluster) Down(ctx context.Context, p leak.Part) (up func(context.Context) error, err error) {
	switch {
	case p.Selector != "":
		return c.DownPods(ctx, p.Namespace, p.Selector)
	case c.keep || c.reused:
		return nil, leak.WithHint(errors.New("faults do not act on the nodes and the API server of a cluster that is kept"), "leave --keep and --reuse out")
	case p.Node != "":
		return c.Drain(ctx, c.name+"-"+p.Node)
	case p.Name == leak.KubeAPIServer:
		return c.downAPIServer(ctx)
	}
	return nil, fmt.Errorf("%s cannot be stopped", p.Name)
}

// The kubelet runs the API server as long as its manifest is in the folder of static pods.
const (
	apiManifest  = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	apiAside     = "/etc/kubernetes/kube-apiserver.yaml"
	apiContainer = "crictl ps -q --name '^kube-apiserver$'"
)

// downAPIServer moves the manifest of the API server away, and stops its container at once. up moves it back and waits
// until the API server is ready.
func (c *kindCluster) downAPIServer(ctx context.Context) (up func(context.Context) error, err error) {
	at := c.name + "-control-plane"
	inNode := func(ctx context.Context, script string) error {
		_, err := c.engine.Run(ctx, "exec", at, "sh", "-c", script)
		return err
	}
	c.down.Store(true)
	up = func(ctx context.Context) error {
		if err := inNode(ctx, "if [ -e "+apiAside+" ]; then mv "+apiAside+" "+apiManifest+"; fi"); err != nil {
			return fmt.Errorf("start the API server again: %w", err)
		}
		for {
			err := c.Connection.Check(ctx)
			if err == nil {
				c.down.Store(false)
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("start the API server again: %w", err)
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	if err := inNode(ctx, "mv "+apiManifest+" "+apiAside+" && crictl stop --timeout 2 $("+apiContainer+")"); err != nil {
		return up, fmt.Errorf("stop the API server: %w", err)
	}
	return up, nil
}

// Close deletes the cluster, or only the run's namespace where the cluster is kept.
func (c *kindCluster) Close(ctx context.Context) error {
	defer c.inUse()
	if c.reused && c.Connection == nil {
		return nil // nothing of this run is in it
	}
	if c.keep && c.Connection == nil {
		// It is not whole, but another run may have taken it since.
		c.inUse()
		unlock, free := engine.Unused(c.cache, c.name)
		if !free {
			return nil
		}
		defer unlock()
	}
	if (c.keep || c.reused) && c.Connection != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiserver.StopTimeout)
		defer cancel()
		c.progress.Log("kept for --reuse: cluster %s, kubeconfig %s (leakrig clean removes it)", c.name, c.kubeconfigFile)
		// The kept cluster's own controllers see it through; the next run has another namespace.
		_, err := c.DeleteNamespace(ctx)
		if err == nil {
			c.release()
		}
		return err
	}
	return c.discard(ctx)
}

// SaveLogs collects the nodes' logs, for a run that went wrong.
func (c *kindCluster) SaveLogs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, logsTimeout)
	defer cancel()
	return runChild(ctx, childRequest{Operation: "logs", Engine: c.engine, Name: c.name, Logs: c.logs}, nil)
}

// discard deletes the cluster in any state. It continues after an interrupt, because everything that was started must
// be stopped.
func (c *kindCluster) discard(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	os.Remove(c.kubeconfigFile)
	return c.engine.Remove(ctx, c.name, 500*time.Millisecond)
}
