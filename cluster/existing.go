package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/leakrig/leakrig/leak"
)

func existingKind(o Options) leak.Kind[leak.Provider] {
	return leak.Kind[leak.Provider]{
		Name: "existing",
		Doc: "A cluster that is there already, by --kubeconfig and --context. " +
			"The run makes a namespace of its own, everything in it carries the label " + runLabel + ", and it is gone afterwards. " +
			"A context that looks like production is refused without --yes.",
		New: func() leak.Provider { return &Existing{Options: o} },
	}
}

// Existing attaches to clusters that are there.
type Existing struct{ Options }

// Preflight refuses what must not be touched, before anything is built.
func (x *Existing) Preflight(_ context.Context, o leak.BootOptions) error {
	if o.Pods {
		return usage("use --placement process", "a subject as a pod: its image could not be loaded into the nodes of an existing cluster")
	}
	if len(o.Node) > 0 {
		return usage("use --cluster kind", "commands of the node at other versions: an existing cluster is taken as it is")
	}
	if err := observable(o, leak.KubeAPIServer, leak.Kubelet); err != nil {
		return err
	}
	if err := noFixtures(o.Fixtures, "an existing cluster"); err != nil {
		return err
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
		o.Progress.Log("the scenario asks for %d nodes; an existing cluster is taken as it is", o.Spec.Nodes)
	}
	c := &attached{}
	if c.connection, err = connect(ctx, config, o); err != nil {
		return nil, leak.WithHint(err, "may this user create namespaces there? is the cluster up?")
	}
	version, err := c.version()
	if err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	c.info = leak.ClusterInfo{Provider: "existing", Kubernetes: version}
	return c, nil
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
	info leak.ClusterInfo
}

func (a *attached) Info() leak.ClusterInfo { return a.info }

// Close removes the run's namespace, with everything in it.
func (a *attached) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	start := time.Now()
	if err := a.removeNamespace(ctx); err != nil {
		return fmt.Errorf("after %s: %w", time.Since(start).Round(time.Second), err)
	}
	return nil
}
