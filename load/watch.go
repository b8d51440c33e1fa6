package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/leakrig/leakrig/leak"
)

var watchKind = leak.Kind[leak.Action]{
	Name: "watch",
	Doc: "Watches with leakrig's own client-go, as load for the API server: an operation opens a watch on one object, creates the object, receives its event, and deletes it. " +
		"Then it stops the watch after the deletion event, or abandons it: it stops reading, and closes the connection at the end of the round. " +
		"The objects are in the run's namespace; a round ends when all of them are gone.",
	New: func() leak.Action { return &Watch{End: endStop, pace: defaultPace()} },
}

// Ends of a watch.
const (
	endStop    = "stop"
	endAbandon = "abandon"
)

const watchedObject = `{apiVersion: v1, kind: ConfigMap, metadata: {name: "watch-{{.Op}}"}}`

// Watch opens watches.
type Watch struct {
	Template string `yaml:"template,omitempty" doc:"the object as YAML text; {{.Op}}, the number of the operation, must be in its name (default: a ConfigMap)"`
	End      string `yaml:"end,omitempty" doc:"how the watch ends: stop or abandon"`
	pace     `yaml:",inline"`
}

// UsesPods is false: the objects need not come to life.
func (*Watch) UsesPods() bool { return false }

// Scaled has factor times the operations (leak.Scaler).
func (w *Watch) Scaled(factor int) leak.Action {
	scaled := *w
	scaled.pace = w.pace.scaled(factor)
	return &scaled
}

// Validate returns all problems.
func (w *Watch) Validate() error {
	var bad problems
	validateObject(&bad, cmp.Or(w.Template, watchedObject))
	if w.End != endStop && w.End != endAbandon {
		bad.add("end", "it is stop or abandon", "%q is neither stop nor abandon", w.End)
	}
	w.pace.validate(&bad)
	if w.End == endAbandon && w.Times > maxConcurrency {
		bad.add("times", "abandoned watches stay open until the end of the round", "must be at most %d where watches are abandoned, is %d", maxConcurrency, w.Times)
	}
	return errors.Join(bad...)
}

// Run opens the watches.
func (w *Watch) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	return summed(w.run(ctx, t, first))
}

func (w *Watch) run(ctx context.Context, t leak.Target, first int) (*outcome, error) {
	a, err := reach(t)
	if err != nil {
		return nil, err
	}
	var open watches
	defer open.stop() // after the connections were cut: for leakrig's own sake
	defer a.close()
	objects, err := a.objects(ctx, cmp.Or(w.Template, watchedObject), first)
	if err != nil {
		return nil, err
	}
	done := perform(ctx, w.pace, first, nil, func(op context.Context, number int) error {
		watched, err := objects.watch(ctx, op, number)
		if err != nil {
			return err
		}
		if w.End == endAbandon {
			open.add(watched)
		} else {
			defer watched.Stop()
		}
		name, err := objects.create(op, number)
		if err == nil {
			err = await(op, watched, watch.Added)
		}
		if err == nil {
			err = objects.delete(op, name)
		}
		if err == nil && w.End == endStop {
			err = await(op, watched, watch.Deleted)
		}
		return err
	})
	return done, objects.clear(ctx)
}

// watch opens a watch on the object of one operation, which ends with the round. op bounds the opening.
func (o *objects) watch(round, op context.Context, number int) (watch.Interface, error) {
	watched, err := object(o.template, number)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(round)
	stop := context.AfterFunc(op, cancel)
	w, err := o.resource.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + watched.GetName()})
	if err == nil && !stop() {
		w.Stop()
		err = op.Err()
	}
	if err != nil {
		cancel()
		return nil, apiError(err)
	}
	return &owned{w, cancel}, nil
}

// owned is a watch with its own context.
type owned struct {
	watch.Interface
	cancel context.CancelFunc
}

func (o *owned) Stop() {
	o.Interface.Stop()
	o.cancel()
}

// await reads events until one is of the wanted type.
func await(ctx context.Context, w watch.Interface, want watch.EventType) error {
	for {
		select {
		case <-ctx.Done():
			return &failure{cause(ctx.Err()), "no event " + string(want)}
		case event, ok := <-w.ResultChan():
			switch {
			case !ok:
				return fmt.Errorf("the watch ended before the event %s", want)
			case event.Type == watch.Error:
				return apiError(apierrors.FromObject(event.Object))
			case event.Type == want:
				return nil
			}
		}
	}
}

// watches are the abandoned watches.
type watches struct {
	mu   sync.Mutex
	list []watch.Interface
}

func (w *watches) add(one watch.Interface) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, one)
}

func (w *watches) stop() {
	for _, one := range w.list {
		one.Stop()
	}
}
