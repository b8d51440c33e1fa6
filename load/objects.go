package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/leakrig/leakrig/leak"
)

// loadLabel is on every object that an action creates. Its value identifies the round.
const loadLabel = "leakrig.dev/load"

const (
	// setupTimeout bounds the requests to the API server before the first operation of an action.
	setupTimeout = 30 * time.Second
	// clearTimeout bounds how long objects may take to go at the end of a round.
	clearTimeout = 30 * time.Second
)

// objects are the objects that an action creates in a round. They have the same kind and are in the namespace of the
// run.
type objects struct {
	resource dynamic.ResourceInterface
	// group and name are those of the resource, "" and configmaps.
	group, name string
	template    *pattern
	round       string // the value of loadLabel
	run         string // the value of leak.RunLabel
}

// validateObject checks a template of objects.
func validateObject(bad *problems, text string) {
	const field = "template"
	t, err := parseTemplate(text)
	if err != nil {
		bad.add(field, templateHint, "%v", err)
		return
	}
	one, err1 := object(t, 1)
	two, err2 := object(t, 2)
	switch {
	case err1 != nil || err2 != nil:
		bad.add(field, "one object with apiVersion, kind and metadata.name, as kubectl create takes it", "%v", errors.Join(err1, err2))
	case one.GetNamespace() != "":
		bad.add(field, "leave metadata.namespace out", "objects are made in the run's own namespace")
	case one.GetName() == two.GetName() || one.GroupVersionKind() != two.GroupVersionKind():
		bad.add(field, "as in name: object-{{.Op}}", "operations need objects of one kind with distinct names")
	}
}

// maxObject limits the size of a decoded object: an API server accepts requests of 3 MiB.
const maxObject = 3 << 20

// alias matches a YAML alias. Each alias is decoded again at the place where it is used.
var alias = regexp.MustCompile(`(?m)(?:^|[\s,:\[{-])\*[^\s,\]}]`)

// object is the object of one operation.
func object(t *pattern, op int) (*unstructured.Unstructured, error) {
	text, err := fill(t, op)
	if err != nil {
		return nil, err
	}
	aliases := len(alias.FindAllStringIndex(text, -1))
	if (aliases+1)*len(text) > maxObject {
		return nil, fmt.Errorf("%d bytes with %d aliases, written out, may be more than %d MiB", len(text), aliases, maxObject>>20)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text)+1)
	o := &unstructured.Unstructured{}
	if err := decoder.Decode(&o.Object); err != nil {
		return nil, err
	}
	if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
		return nil, errors.New("apiVersion, kind or metadata.name is missing")
	}
	if err := decoder.Decode(&map[string]any{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one object")
	}
	return o, nil
}

// objects asks the API server how the kind of the template is called in URLs.
func (a *api) objects(ctx context.Context, text string, first int) (*objects, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	sample, err := object(t, first)
	if err != nil {
		return nil, err
	}
	known, err := discovery.NewDiscoveryClientForConfigAndClient(a.config, a.http)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfigAndClient(a.config, a.http)
	if err != nil {
		return nil, err
	}
	kind := sample.GroupVersionKind()
	list, err := known.ServerResourcesForGroupVersionWithContext(ctx, sample.GetAPIVersion())
	if err != nil {
		return nil, fmt.Errorf("ask the API server for %s: %w", kind, err)
	}
	for _, r := range list.APIResources {
		if r.Kind != kind.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		if !r.Namespaced {
			return nil, fmt.Errorf("%s has no namespace: only objects in the run's own are made", kind)
		}
		gvr := kind.GroupVersion().WithResource(r.Name)
		return &objects{client.Resource(gvr).Namespace(a.namespace), gvr.Group, gvr.Resource, t, "from-" + strconv.Itoa(first), leak.RunOf(a.namespace)}, nil
	}
	return nil, leak.WithHint(fmt.Errorf("the API server does not know %s", kind), "kubectl api-resources lists what it knows")
}

// create makes the object of one operation and returns its name.
func (o *objects) create(ctx context.Context, op int) (string, error) {
	made, err := object(o.template, op)
	if err != nil {
		return "", err
	}
	labels := made.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[loadLabel], labels[leak.RunLabel] = o.round, o.run
	made.SetLabels(labels)
	_, err = o.resource.Create(ctx, made, metav1.CreateOptions{})
	return made.GetName(), apiError(err)
}

func (o *objects) delete(ctx context.Context, name string) error {
	background := metav1.DeletePropagationBackground
	return apiError(o.resource.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// clear deletes what operations that failed have left, and waits until everything is gone. When ctx has
// ended it tries, and that is all: the round does not count, and the namespace goes with the run.
func (o *objects) clear(ctx context.Context) error {
	if ctx.Err() != nil {
		_ = o.remove(context.WithoutCancel(ctx), clearTimeout/10)
		return nil
	}
	return o.remove(ctx, clearTimeout)
}

func (o *objects) remove(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		list, err := o.resource.List(ctx, metav1.ListOptions{LabelSelector: loadLabel + "=" + o.round, Limit: 500})
		if err != nil {
			return fmt.Errorf("clear up: %w", err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		for _, left := range list.Items {
			if left.GetDeletionTimestamp() == nil {
				if err := o.delete(ctx, left.GetName()); err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("clear up: %w", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return leak.WithHint(fmt.Errorf("clear up: %s is still there %s after the round", list.Items[0].GetName(), timeout),
				"a finalizer, or a controller that is not there, holds it")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// apiError groups errors of the API server by their reason, because messages contain the name of the object.
func apiError(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status) && status.Status().Reason != "":
		return &failure{&reason{err, string(status.Status().Reason)}, err.Error()}
	}
	return cause(err)
}

// reason is an error of the API server under the name of its reason.
type reason struct {
	error
	name string
}

func (r *reason) Error() string { return r.name }
func (r *reason) Unwrap() error { return r.error }
