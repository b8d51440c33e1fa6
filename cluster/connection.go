package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/leakrig/leakrig/leak"
)

// quiet stops client-go from printing errors that it also returns.
var quiet = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// connection is an API server and the namespace that the run has there.
type connection struct {
	config     *rest.Config
	client     kubernetes.Interface
	kubeconfig string
	namespace  string
	run        string
	// hint names the logs of an API server that no longer answers.
	hint string
	// crews counts the workers that were had, for the names of their objects.
	crews atomic.Int32
}

// connect reaches the current context of config, makes the run's namespace, and writes the kubeconfig
// that subjects get into scratch.
func connect(ctx context.Context, config *api.Config, o leak.BootOptions) (*connection, error) {
	quiet()
	c := &connection{run: o.Run, namespace: leak.NamespaceOf(o.Run), hint: "see the logs in " + o.Logs}
	var err error
	c.config, err = clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// leakrig's own requests are few and bounded; client-side throttling would only delay them.
	c.config.QPS = -1
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	creating, created := outlive(ctx)
	_, err = c.client.CoreV1().Namespaces().Create(creating,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace, Labels: c.labels()}}, metav1.CreateOptions{})
	unanswered := creating.Err() != nil // it may still be carried out, after the deletion
	created()
	if err == nil {
		err = context.Cause(ctx) // it ended meanwhile
	}
	if err == nil {
		config.Contexts[config.CurrentContext].Namespace = c.namespace
		c.kubeconfig = filepath.Join(o.Scratch, "kubeconfig")
		err = clientcmd.WriteToFile(*config, c.kubeconfig) // mode 0600
	}
	if apierrors.IsAlreadyExists(err) { // somebody else's
		return nil, fmt.Errorf("namespace %s: %w", c.namespace, err)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = fmt.Errorf("namespace %s: %w", c.namespace, err)
		if gone, failed := c.deleteNamespace(ctx); failed != nil || gone && unanswered {
			return nil, &leftError{errors.Join(err, failed)}
		}
		return nil, err
	}
	return c, nil
}

// outlive returns a context that ends some seconds after ctx. It is for requests that create objects which no other
// deletion removes: a request that is cancelled may still be executed, after the deletion of its object has found
// nothing.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(answerTimeout):
			cancel(context.Cause(ctx))
		}
	})
	return late, func() { stop(); cancel(context.Canceled) }
}

// answerTimeout is how long an API server has to answer a request that was made when the user pressed Ctrl-C.
const answerTimeout = 5 * time.Second

// leftError is one after which the run's namespace may still be there.
type leftError struct{ error }

func (e *leftError) Unwrap() error { return e.error }

func (c *connection) labels() map[string]string {
	return map[string]string{leak.RunLabel: c.run, "app.kubernetes.io/managed-by": "leakrig"}
}

func (c *connection) Kubeconfig() string { return c.kubeconfig }

// version returns the version of the API server.
func (c *connection) version() (string, error) {
	v, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return v.GitVersion, nil
}

// checkTimeout bounds each request of a Check.
const checkTimeout = 10 * time.Second

// Check returns an error when the API server no longer answers.
func (c *connection) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if _, err := c.client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return leak.WithHint(fmt.Errorf("the API server no longer answers: %w", err), "%s", c.hint)
	}
	return nil
}

// deleteNamespace tells the cluster to delete the run's namespace, with all that is in it.
func (c *connection) deleteNamespace(ctx context.Context) (gone bool, err error) {
	err = c.client.CoreV1().Namespaces().Delete(ctx, c.namespace, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, leak.WithHint(fmt.Errorf("delete namespace %s: %w", c.namespace, err),
			"kubectl delete namespace -l %s=%s", leak.RunLabel, c.run)
	}
	return apierrors.IsNotFound(err), nil
}

// removeNamespace deletes the run's namespace and waits until it is gone.
func (c *connection) removeNamespace(ctx context.Context) error {
	for {
		if gone, err := c.deleteNamespace(ctx); gone || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return leak.WithHint(fmt.Errorf("namespace %s is not gone yet: %w", c.namespace, context.Cause(ctx)),
				"kubectl get namespace %s -o yaml says what holds it", c.namespace)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
