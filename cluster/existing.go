package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/leakrig/leakrig/leak"
)

func existingKind(o Options) leak.Kind[leak.Provider] {
	return leak.Kind[leak.Provider]{
		Name: "existing",
		Doc: "An existing cluster, by --kubeconfig and --context; in a pod without these flags, the cluster of the pod. " +
			"The run creates its own namespace; everything in it has the label " + leak.RunLabel + ", and it is gone afterwards. " +
			"A context that looks like production is refused without --yes.",
		New: func() leak.Provider { return &Existing{Options: o, account: serviceAccount} },
	}
}

// Existing attaches to clusters that are there.
type Existing struct {
	Options
	// account is the folder of the pod's service account, for a leakrig in the cluster.
	account string
}

// Preflight refuses what must not be touched, before anything is built.
func (x *Existing) Preflight(_ context.Context, o leak.BootOptions) error {
	if o.Pods {
		return usage("use --placement process", "a subject as a pod: its image could not be loaded into the nodes of an existing cluster")
	}
	if len(o.Node) > 0 {
		return usage("use --cluster kind", "commands of the node at other versions: leakrig does not change an existing cluster")
	}
	if err := observable(o, leak.KubeAPIServer, leak.Kubelet); err != nil {
		return err
	}
	if err := noFixtures(o.Fixtures, "an existing cluster"); err != nil {
		return err
	}
	if o.Workers && x.WorkerImage == "" {
		return usage("--worker-image names one that its nodes can pull; `leakrig image` makes it, to be pushed to a registry of yours",
			"load from workers: an image could not be loaded into the nodes of an existing cluster")
	}
	_, err := x.load()
	return err
}

// load reads the kubeconfig and leaves only the chosen context in it.
func (x *Existing) load() (*api.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = x.KubeconfigFile
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).RawConfig()
	if err != nil {
		return nil, usage("--kubeconfig names the file", "kubeconfig: %w", err)
	}
	if len(config.Contexts) == 0 && x.KubeconfigFile == "" && x.Context == "" {
		if pod, err := podConfig(x.account); pod != nil || err != nil {
			return pod, err
		}
	}
	if x.Context != "" {
		config.CurrentContext = x.Context
	}
	chosen, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return nil, usage("--context names one; kubectl config get-contexts lists them", "the kubeconfig has no context %q", config.CurrentContext)
	}
	if word := x.protected(config.CurrentContext, chosen.Cluster); word != "" && !x.Yes {
		return nil, usage("--yes runs it all the same; LEAKRIG_PROTECTED_CONTEXTS is the list of words",
			"context %s looks like production: it has %q in its name", config.CurrentContext, word)
	}
	// Only the one context goes into the file that subjects get, with the files that it names taken in.
	err = api.MinifyConfig(&config)
	if err == nil {
		err = api.FlattenConfig(&config)
	}
	if err != nil {
		return nil, usage("are the certificate files that it names there?", "kubeconfig: %w", err)
	}
	return &config, nil
}

const (
	// serviceAccount is where every pod finds who it is.
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	inCluster      = "in-cluster"
)

// podConfig returns a configuration for the cluster in which leakrig runs as a pod, nil if it does not. It contains the
// name of the token's file and not the token, because the kubelet renews it. account is the folder of the service
// account.
func podConfig(account string) (*api.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, nil
	}
	token := filepath.Join(account, "token")
	ca, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err == nil {
		_, err = os.Stat(token)
	}
	if err != nil {
		return nil, usage("the pod needs serviceAccountName, and automountServiceAccountToken must not be false", "in a pod without a service account: %w", err)
	}
	config := api.NewConfig()
	config.CurrentContext = inCluster
	config.Clusters[inCluster] = &api.Cluster{Server: "https://" + net.JoinHostPort(host, port), CertificateAuthorityData: ca}
	config.AuthInfos[inCluster] = &api.AuthInfo{TokenFile: token}
	config.Contexts[inCluster] = &api.Context{Cluster: inCluster, AuthInfo: inCluster}
	return config, nil
}

func usage(hint, format string, args ...any) error {
	return &leak.UsageError{Err: leak.WithHint(fmt.Errorf(format, args...), "%s", hint)}
}

// Boot reaches the cluster and makes the run's namespace in it.
func (x *Existing) Boot(ctx context.Context, o leak.BootOptions) (leak.Cluster, error) {
	config, err := x.load()
	if err != nil {
		return nil, err
	}
	if o.Spec.Nodes > 1 {
		o.Progress.Log("the scenario needs %d nodes; leakrig does not change an existing cluster", o.Spec.Nodes)
	}
	c := &attached{workerImage: x.WorkerImage}
	mine := x.claim(o)
	if left, err := sweep(ctx, x.Cache, func(c claim) bool { return c.Kubeconfig == mine.Kubeconfig && c.Context == mine.Context }); err != nil {
		o.Progress.Log("%v", err) // it is not this run's business
	} else if len(left) > 0 {
		o.Progress.Log("removed what a run that was killed has left: namespace %s", strings.Join(left, ", "))
	}
	if c.release, err = mine.take(x.Cache); err != nil {
		return nil, err
	}
	if c.connection, err = connect(ctx, config, o); err != nil {
		if left := new(leftError); !errors.As(err, &left) { // otherwise the next run, or leakrig clean, tries again
			c.release()
		}
		return nil, leak.WithHint(err, "may this user create namespaces there? is the cluster up?")
	}
	version, err := c.version()
	if err == nil {
		err = context.Cause(ctx) // it ended meanwhile
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	c.info = leak.ClusterInfo{Provider: "existing", Kubernetes: version}
	return c, nil
}

// claim is what this run will have in the cluster.
func (x *Existing) claim(o leak.BootOptions) claim {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = x.KubeconfigFile
	files := rules.GetLoadingPrecedence()
	for i, f := range files {
		if abs, err := filepath.Abs(f); err == nil {
			files[i] = abs
		}
	}
	return claim{Kubeconfig: strings.Join(files, string(filepath.ListSeparator)), Context: x.Context, Run: o.Run, Namespace: leak.NamespaceOf(o.Run)}
}

// protected returns the word that makes a context look like production, "" where none does.
func (x *Existing) protected(names ...string) string {
	for _, word := range x.Protected {
		for _, name := range names {
			if word != "" && strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
				return word
			}
		}
	}
	return ""
}

// attached is a cluster that was there before and will be there afterwards.
type attached struct {
	*connection
	info    leak.ClusterInfo
	release func() // forgets the claim
	// workerImage is what the nodes pull for workers.
	workerImage string
}

func (a *attached) Info() leak.ClusterInfo { return a.info }

// Check returns an error when the API server no longer answers, and when the run's namespace was taken away.
func (a *attached) Check(ctx context.Context) error {
	if err := a.connection.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := a.client.CoreV1().Namespaces().Get(ctx, a.namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && found.DeletionTimestamp != nil:
		return leak.WithHint(fmt.Errorf("namespace %s of this run was deleted", a.namespace),
			"the objects of the run are gone with it; the rounds so far can be judged")
	case err != nil && !apierrors.IsForbidden(err): // a user may be one who cannot look
		return fmt.Errorf("namespace %s: %w", a.namespace, err)
	}
	return nil
}

// Close removes the run's namespace, with everything in it.
func (a *attached) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	start := time.Now()
	if err := a.removeNamespace(ctx); err != nil {
		return fmt.Errorf("after %s: %w", time.Since(start).Round(time.Second), err)
	}
	a.release()
	return nil
}
