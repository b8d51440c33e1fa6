// Package apiserver connects to the API server of a cluster: the namespace of the run, fixtures, port-forwards, the
// user's kubeconfig, and the claims by which a later run removes what a killed one left.
package apiserver

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

// Quiet stops client-go from printing errors that it also returns.
var Quiet = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// Connection is an API server and the namespace that the run has there.
type Connection struct {
	Config     *rest.Config
	Client     kubernetes.Interface
	kubeconfig string
	Namespace  string
	Run        string
	// Hint names the logs of an API server that no longer answers.
	Hint string
	// Crews and pods count the crews of workers and the subjects, for the names of their objects.
	Crews, Pods atomic.Int32
}

// Connect reaches the current context of config, makes the run's namespace, and writes the kubeconfig
// that subjects get into scratch.
func Connect(ctx context.Context, config *api.Config, o leak.BootOptions) (*Connection, error) {
	Quiet()
	c := &Connection{Run: o.Run, Namespace: leak.NamespaceOf(o.Run), Hint: "see the logs in " + o.Logs}
	var err error
	c.Config, err = clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// leakrig's own requests are few and bounded; client-side throttling would only delay them.
	c.Config.QPS = -1
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	creating, created := Outlive(ctx)
	_, err = c.Client.CoreV1().Namespaces().Create(creating,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace, Labels: c.Labels()}}, metav1.CreateOptions{})
	unanswered := creating.Err() != nil // it may still be carried out, after the deletion
	created()
	if err == nil {
		err = context.Cause(ctx) // it ended meanwhile
	}
	if err == nil {
		config.Contexts[config.CurrentContext].Namespace = c.Namespace
		c.kubeconfig = filepath.Join(o.Scratch, "kubeconfig")
		err = clientcmd.WriteToFile(*config, c.kubeconfig) // mode 0600
	}
	if apierrors.IsAlreadyExists(err) { // somebody else's
		return nil, fmt.Errorf("namespace %s: %w", c.Namespace, err)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
		defer cancel()
		err = fmt.Errorf("namespace %s: %w", c.Namespace, err)
		if gone, failed := c.DeleteNamespace(ctx); failed != nil || gone && unanswered {
			return nil, &LeftError{errors.Join(err, failed)}
		}
		return nil, err
	}
	return c, nil
}

// Outlive returns a context that ends some seconds after ctx. It is for requests that create objects which no other
// deletion removes: a request that is cancelled may still be executed, after the deletion of its object has found
// nothing.
func Outlive(ctx context.Context) (context.Context, context.CancelFunc) {
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

// StopTimeout bounds the requests that remove what one run has created in a cluster.
const StopTimeout = 30 * time.Second

// answerTimeout is how long an API server has to answer a request that was made when the user pressed Ctrl-C.
const answerTimeout = 5 * time.Second

// LeftError is one after which the run's namespace may still be there.
type LeftError struct{ error }

func (e *LeftError) Unwrap() error { return e.error }

func (c *Connection) Labels() map[string]string {
	return map[string]string{leak.RunLabel: c.Run, "app.kubernetes.io/managed-by": "leakrig"}
}

func (c *Connection) Kubeconfig() string { return c.kubeconfig }

// Version returns the version of the API server.
func (c *Connection) Version() (string, error) {
	v, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return v.GitVersion, nil
}

// CheckTimeout bounds each request of a Check.
const CheckTimeout = 10 * time.Second

// Check returns an error when the API server no longer answers.
func (c *Connection) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CheckTimeout)
	defer cancel()
	if _, err := c.Client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return leak.WithHint(fmt.Errorf("the API server no longer answers: %w", err), "%s", c.Hint)
	}
	return nil
}

// DeleteNamespace tells the cluster to delete the run's namespace, with all that is in it.
func (c *Connection) DeleteNamespace(ctx context.Context) (gone bool, err error) {
	err = c.Client.CoreV1().Namespaces().Delete(ctx, c.Namespace, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, leak.WithHint(fmt.Errorf("delete namespace %s: %w", c.Namespace, err),
			"kubectl delete namespace -l %s=%s", leak.RunLabel, c.Run)
	}
	return apierrors.IsNotFound(err), nil
}

// RemoveNamespace deletes the run's namespace and waits until it is gone.
func (c *Connection) RemoveNamespace(ctx context.Context) error {
	for {
		if gone, err := c.DeleteNamespace(ctx); gone || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return leak.WithHint(fmt.Errorf("namespace %s is not gone yet: %w", c.Namespace, context.Cause(ctx)),
				"kubectl get namespace %s -o yaml says what holds it", c.Namespace)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// IgnoreNotFound returns nil for the error of an object that does not exist.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
