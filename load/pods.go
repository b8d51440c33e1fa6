package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/leakrig/leakrig/leak"
)

// maxPods bounds how many pods the operations of a round are spread over.
const maxPods = 1000

// podsOf says which pods an action is about. It is part of its configuration.
type podsOf struct {
	Namespace string `yaml:"namespace,omitempty" doc:"namespace of the selected pods (default: the run's)"`
	Selector  string `yaml:"selector,omitempty" doc:"label selector of pods, as in app=web (default: the subject's own pod)"`
}

func (p podsOf) validate(bad *problems) {
	if _, err := labels.Parse(p.Selector); err != nil {
		bad.add("selector", "as in app=web,tier!=cache", "%v", err)
	}
	if p.Namespace != "" && p.Selector == "" {
		bad.add("namespace", "give a selector, or leave the namespace out for the subject's own pod", "needs a selector")
	}
}

// where returns the namespace and selector of the pods, from the configuration and else from the target. The selector
// is "" if the target is no pod.
func (p podsOf) where(a *api, t leak.Target) (namespace, selector string) {
	return cmp.Or(p.Namespace, a.namespace), cmp.Or(p.Selector, t.Selector)
}

// podsTimeout is how long pods may take to be reported as running: the kubelet reports them about a second after they
// start to answer. It is a variable for tests.
var podsTimeout = 10 * time.Second

// pods lists the names of the running pods that match.
func (a *api) pods(ctx context.Context, namespace, selector string) ([]string, error) {
	for start := time.Now(); ; {
		names, err := a.podsNow(ctx, namespace, selector)
		if !errors.Is(err, errNoPod) || time.Since(start) > podsTimeout {
			return names, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// errNoPod says that no running pod matches.
var errNoPod = errors.New("no running pod")

func (a *api) podsNow(ctx context.Context, namespace, selector string) ([]string, error) {
	const hint = "set selector and namespace; the default is the subject's pod"
	if selector == "" {
		return nil, leak.WithHint(errors.New("the subject is not a pod, and no selector is given"), hint)
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	list, err := a.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector, FieldSelector: "status.phase=Running", Limit: maxPods,
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var names []string
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil, leak.WithHint(fmt.Errorf("%w in namespace %s matches %s", errNoPod, namespace, selector), hint)
	}
	return names, nil
}
