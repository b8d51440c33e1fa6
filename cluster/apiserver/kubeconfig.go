package apiserver

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/leakrig/leakrig/leak"
)

// Access says how a cluster is reached that exists.
type Access struct {
	// KubeconfigFile and Context name it; "" is what kubectl would take.
	KubeconfigFile, Context string
	// Yes permits a context that looks like production: one with a word of Protected in its name.
	Yes       bool
	Protected []string
	// Account is the folder of the pod's service account, for a leakrig in the cluster; "" is where every pod has it.
	Account string
}

// Load reads the kubeconfig and leaves only the chosen context in it.
func (a Access) Load() (*api.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.KubeconfigFile
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).RawConfig()
	if err != nil {
		return nil, leak.Usage("--kubeconfig names the file", "kubeconfig: %w", err)
	}
	if len(config.Contexts) == 0 && a.KubeconfigFile == "" && a.Context == "" {
		if pod, err := PodConfig(cmp.Or(a.Account, ServiceAccount)); pod != nil || err != nil {
			return pod, err
		}
	}
	if a.Context != "" {
		config.CurrentContext = a.Context
	}
	chosen, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return nil, leak.Usage("--context names one; kubectl config get-contexts lists them", "the kubeconfig has no context %q", config.CurrentContext)
	}
	if word := a.protected(config.CurrentContext, chosen.Cluster); word != "" && !a.Yes {
		return nil, leak.Usage("--yes runs it all the same; LEAKRIG_PROTECTED_CONTEXTS is the list of words",
			"context %s looks like production: it has %q in its name", config.CurrentContext, word)
	}
	// Only the one context goes into the file that subjects get, with the files that it names taken in.
	err = api.MinifyConfig(&config)
	if err == nil {
		err = api.FlattenConfig(&config)
	}
	if err != nil {
		return nil, leak.Usage("are the certificate files that it names there?", "kubeconfig: %w", err)
	}
	return &config, nil
}

const (
	// ServiceAccount is where every pod finds who it is.
	ServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	inCluster      = "in-cluster"
)

// PodConfig returns a configuration for the cluster in which leakrig runs as a pod, nil if it does not. It contains the
// name of the token's file and not the token, because the kubelet renews it. account is the folder of the service
// account.
func PodConfig(account string) (*api.Config, error) {
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
		return nil, leak.Usage("the pod needs serviceAccountName, and automountServiceAccountToken must not be false", "in a pod without a service account: %w", err)
	}
	config := api.NewConfig()
	config.CurrentContext = inCluster
	config.Clusters[inCluster] = &api.Cluster{Server: "https://" + net.JoinHostPort(host, port), CertificateAuthorityData: ca}
	config.AuthInfos[inCluster] = &api.AuthInfo{TokenFile: token}
	config.Contexts[inCluster] = &api.Context{Cluster: inCluster, AuthInfo: inCluster}
	return config, nil
}

// protected returns the word that makes a context look like production, "" where none does.
func (a Access) protected(names ...string) string {
	for _, word := range a.Protected {
		for _, name := range names {
			if word != "" && strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
				return word
			}
		}
	}
	return ""
}

// Claim returns what a run will have in the cluster.
func (a Access) Claim(run string) Claim {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.KubeconfigFile
	files := rules.GetLoadingPrecedence()
	for i, f := range files {
		if abs, err := filepath.Abs(f); err == nil {
			files[i] = abs
		}
	}
	return Claim{Kubeconfig: strings.Join(files, string(filepath.ListSeparator)), Context: a.Context, Run: run, Namespace: leak.NamespaceOf(run)}
}
