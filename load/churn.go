package load

import (
	"context"
	"errors"
	"time"

	"github.com/leakrig/leakrig/leak"
)

var churnKind = leak.Kind[leak.Action]{
	Name: "churn",
	Doc: "Creates and deletes an object per operation, as load for the API server and controllers. " +
		"The objects are in the run's namespace; a round ends when all of them are gone.",
	New: func() leak.Action { return &Churn{pace: defaultPace()} },
}

// Churn creates and deletes objects.
type Churn struct {
	Template string        `yaml:"template" doc:"the object as YAML text; {{.Op}}, the number of the operation, must be in its name"`
	Lifetime leak.Duration `yaml:"lifetime,omitempty" doc:"time between the creation of an object and its deletion (default: none)"`
	pace     `yaml:",inline"`
}

// UsesPods is false: the objects need not come to life.
func (*Churn) UsesPods() bool { return false }

// Scaled has factor times the operations (leak.Scaler).
func (c *Churn) Scaled(factor int) leak.Action {
	scaled := *c
	scaled.pace = c.pace.scaled(factor)
	return &scaled
}

// Validate returns all problems.
func (c *Churn) Validate() error {
	var bad problems
	validateObject(&bad, c.Template)
	if err := c.underWay(c.Template); err != nil {
		bad.add("template", underWayHint, "%v", err)
	}
	c.pace.validate(&bad)
	if c.Lifetime < 0 || c.Lifetime > 0 && c.Lifetime >= c.Timeout {
		bad.add("lifetime", "the timeout is that of the whole operation", "must be less than the timeout, is %s", c.Lifetime)
	}
	return errors.Join(bad...)
}

// Run creates and deletes the objects.
func (c *Churn) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	return summed(c.run(ctx, t, first))
}

func (c *Churn) run(ctx context.Context, t leak.Target, first int) (*outcome, error) {
	a, err := reach(t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	objects, err := a.objects(ctx, c.Template, first)
	if err != nil {
		return nil, err
	}
	done := perform(ctx, c.pace, first, nil, func(ctx context.Context, op int) error {
		name, err := objects.create(ctx, op)
		if err != nil {
			return err
		}
		if c.Lifetime > 0 {
			select {
			case <-ctx.Done():
				return cause(ctx.Err())
			case <-time.After(c.Lifetime.D()):
			}
		}
		return objects.delete(ctx, name)
	})
	return done, objects.clear(ctx)
}
