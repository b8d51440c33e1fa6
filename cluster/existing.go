package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/cluster/component"
	"github.com/leakrig/leakrig/cluster/workers"
	"github.com/leakrig/leakrig/leak"
)

func existingKind(o Options) leak.Kind[leak.Provider] {
	return leak.Kind[leak.Provider]{
		Name: "existing",
		Doc: "An existing cluster, by --kubeconfig and --context; in a pod without these flags, the cluster of the pod. " +
			"The run creates its own namespace; everything in it has the label " + leak.RunLabel + ". leakrig deletes it after the run. " +
			"A context that looks like production is refused without --yes.",
		New: func() leak.Provider { return &Existing{Options: o} },
	}
}

// Existing attaches to clusters that are there.
type Existing struct{ Options }

// Preflight refuses what must not be touched, before anything is built.
func (x *Existing) Preflight(_ context.Context, o leak.BootOptions) error {
	if o.Pods {
		return leak.Usage("use --placement process", "a subject as a pod: its image could not be loaded into the nodes of an existing cluster")
	}
	if len(o.Node) > 0 {
		return leak.Usage("use --cluster kind", "commands of the node at other versions: leakrig does not change an existing cluster")
	}
	if err := component.Observable(o, leak.KubeAPIServer, leak.Kubelet); err != nil {
		return err
	}
	if err := apiserver.NoFixtures(o.Fixtures, "an existing cluster"); err != nil {
		return err
	}
	if o.Workers && x.WorkerImage == "" {
		return leak.Usage("--worker-image names one that its nodes can pull; `leakrig image` makes it, to be pushed to a registry of yours",
			"load from workers: an image could not be loaded into the nodes of an existing cluster")
	}
	_, err := x.Access.Load()
	return err
}

// Boot reaches the cluster and makes the run's namespace in it.
func (x *Existing) Boot(ctx context.Context, o leak.BootOptions) (leak.Cluster, error) {
	config, err := x.Access.Load()
	if err != nil {
		return nil, err
	}
	if o.Spec.Nodes > 1 {
		o.Progress.Log("the scenario needs %d nodes; leakrig does not change an existing cluster", o.Spec.Nodes)
	}
	c := &attached{workerImage: x.WorkerImage}
	mine := x.Access.Claim(o.Run)
	if left, err := apiserver.Sweep(ctx, x.Cache, func(c apiserver.Claim) bool { return c.Kubeconfig == mine.Kubeconfig && c.Context == mine.Context }); err != nil {
		o.Progress.Log("%v", err) // it is not this run's business
	} else if len(left) > 0 {
		o.Progress.Log("removed what a run that was killed has left: namespace %s", strings.Join(left, ", "))
	}
	if c.release, err = mine.Take(x.Cache); err != nil {
		return nil, err
	}
	if c.Connection, err = apiserver.Connect(ctx, config, o); err != nil {
		if left := new(apiserver.LeftError); !errors.As(err, &left) { // otherwise the next run, or leakrig clean, tries again
			c.release()
		}
		return nil, leak.WithHint(err, "may this user create namespaces there? is the cluster up?")
	}
	version, err := c.Version()
	if err == nil {
		err = context.Cause(ctx) // it ended meanwhile
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	c.info = leak.ClusterInfo{Provider: "existing", Kubernetes: version}
	return c, nil
}

// attached is a cluster that was there before and will be there afterwards.
type attached struct {
	*apiserver.Connection
	info    leak.ClusterInfo
	release func() // forgets the claim
	// workerImage is what the nodes pull for workers.
	workerImage string
}

func (a *attached) Info() leak.ClusterInfo { return a.info }

// Observe reaches a component that the API server leads to.
func (a *attached) Observe(ctx context.Context, spec leak.ComponentSpec, _ leak.Subject) (leak.Subject, error) {
	return component.Observe(ctx, a.Connection, spec)
}

// RunWorkers runs workers in the cluster, from an image that its nodes pull.
func (a *attached) RunWorkers(ctx context.Context, w leak.Work) ([]leak.WorkerEnd, error) {
	if a.workerImage == "" {
		return nil, leak.WithHint(errors.New("workers: no image"), "--worker-image names one")
	}
	return workers.Run(ctx, a.Connection, a.workerImage, corev1.PullIfNotPresent, w)
}

// Check returns an error when the API server no longer answers, and when the run's namespace was taken away.
func (a *attached) Check(ctx context.Context) error {
	if err := a.Connection.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiserver.CheckTimeout)
	defer cancel()
	found, err := a.Client.CoreV1().Namespaces().Get(ctx, a.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && found.DeletionTimestamp != nil:
		return leak.WithHint(fmt.Errorf("namespace %s of this run was deleted", a.Namespace),
			"the objects of the run are gone with it; the rounds so far can be judged")
	case err != nil && !apierrors.IsForbidden(err): // a user may be one who cannot look
		return fmt.Errorf("namespace %s: %w", a.Namespace, err)
	}
	return nil
}

// Down deletes pods of the run. leakrig stops nothing else in a cluster that others use.
func (a *attached) Down(ctx context.Context, p leak.Part) (up func(context.Context) error, err error) {
	if p.Selector == "" || p.Namespace != "" && p.Namespace != a.Namespace {
		return nil, leak.WithHint(errors.New("leakrig stops only pods in the namespace of the run in an existing cluster"), "use --cluster kind, or embedded")
	}
	return a.DownPods(ctx, "", p.Selector)
}

// Close removes the run's namespace, with everything in it.
func (a *attached) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	start := time.Now()
	if err := a.RemoveNamespace(ctx); err != nil {
		return fmt.Errorf("after %s: %w", time.Since(start).Round(time.Second), err)
	}
	a.release()
	return nil
}
