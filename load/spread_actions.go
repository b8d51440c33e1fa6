package load

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/leakrig/leakrig/leak"
)

// The actions that workers can perform: all but cancel, whose connections are to a process of this machine.

// Spread sends the requests from workers.
func (p *Post) Spread(ctx context.Context, t leak.Target, first, workers int, crew leak.Crew) (leak.Tally, error) {
	return spread(ctx, postKind.Name, p, t, first, workers, crew)
}

// Spread runs the commands from workers.
func (e *Exec) Spread(ctx context.Context, t leak.Target, first, workers int, crew leak.Crew) (leak.Tally, error) {
	return spread(ctx, execKind.Name, e, t, first, workers, crew)
}

// Spread opens the watches from workers.
func (w *Watch) Spread(ctx context.Context, t leak.Target, first, workers int, crew leak.Crew) (leak.Tally, error) {
	return spread(ctx, watchKind.Name, w, t, first, workers, crew)
}

// Spread creates and deletes the objects from workers.
func (c *Churn) Spread(ctx context.Context, t leak.Target, first, workers int, crew leak.Crew) (leak.Tally, error) {
	return spread(ctx, churnKind.Name, c, t, first, workers, crew)
}

// Spread runs the program from workers, whose image must hold it.
func (c *Command) Spread(ctx context.Context, t leak.Target, first, workers int, crew leak.Crew) (leak.Tally, error) {
	tally, err := spread(ctx, commandKind.Name, c, t, first, workers, crew)
	multiply(&tally, c.Operations)
	return tally, err
}

// Program is the program that workers need in addition to leakrig.
func (c *Command) Program() string {
	if c.Shell != "" || len(c.Argv) == 0 {
		return "sh"
	}
	return c.Argv[0]
}

// split keeps the number of operations per invocation.
func (c *Command) split(first, n int) []part {
	parts := c.pace.split(first, n)
	for i := range parts {
		parts[i].First, parts[i].Each = first+(parts[i].First-first)*c.Operations, c.Operations
	}
	return parts
}

// workerTransport keeps one connection per concurrent operation.
func workerTransport() http.RoundTripper {
	return &http.Transport{MaxIdleConnsPerHost: maxConcurrency}
}

func (*Post) rules(context.Context, leak.Target) ([]leak.WorkerRule, error) { return nil, nil }

func (*Post) address(ctx context.Context, t leak.Target) (string, error) {
	if t.InCluster != nil {
		return t.InCluster(ctx)
	}
	return "", leak.WithHint(errors.New("workers cannot reach the subject: it has no address in the cluster"),
		"as a pod it has one (placement: pod); or leave workers out")
}

// A program may have no use for the subject's address, so that it need not have one.
func (*Command) address(ctx context.Context, t leak.Target) (string, error) {
	if t.InCluster == nil {
		return "", nil
	}
	return t.InCluster(ctx)
}

// The others use the API server, which a pod finds without configuration.

func (*Exec) address(context.Context, leak.Target) (string, error)  { return "", nil }
func (*Watch) address(context.Context, leak.Target) (string, error) { return "", nil }
func (*Churn) address(context.Context, leak.Target) (string, error) { return "", nil }

func (*Post) turns(t leak.Target) int    { return len(t.Replicas) }
func (*Command) turns(t leak.Target) int { return len(t.Replicas) }
func (*Watch) turns(leak.Target) int     { return 0 }
func (*Churn) turns(leak.Target) int     { return 0 }

func (*Post) clearUp(context.Context, leak.Target, int) error    { return nil }
func (*Command) clearUp(context.Context, leak.Target, int) error { return nil }
func (*Exec) clearUp(context.Context, leak.Target, int) error    { return nil }

func (e *Exec) turns(t leak.Target) int {
	if e.Selector != "" {
		return 0
	}
	return len(t.Replicas)
}

// rules are for the protocol that is spoken: an upgrade to WebSockets is a GET, which API servers ask both
// verbs for, by version.
func (e *Exec) rules(_ context.Context, t leak.Target) ([]leak.WorkerRule, error) {
	verbs := []string{"create"}
	if e.Protocol == protocolWebSocket {
		verbs = []string{"create", "get"}
	}
	in := cmp.Or(e.Namespace, t.Namespace)
	return []leak.WorkerRule{
		{Namespace: in, PolicyRule: leak.PolicyRule{Resources: []string{"pods"}, Verbs: []string{"list"}}},
		{Namespace: in, PolicyRule: leak.PolicyRule{Resources: []string{"pods/exec"}, Verbs: verbs}},
	}, nil
}

func (c *Command) rules(_ context.Context, t leak.Target) ([]leak.WorkerRule, error) {
	var rules []leak.WorkerRule
	for _, r := range c.Rules {
		rules = append(rules, leak.WorkerRule{Namespace: c.Namespace, PolicyRule: r})
	}
	if c.Selector != "" || t.Selector != "" { // for POD
		rules = append(rules, leak.WorkerRule{Namespace: cmp.Or(c.Namespace, t.Namespace), PolicyRule: leak.PolicyRule{Resources: []string{"pods"}, Verbs: []string{"list"}}})
	}
	return rules, nil
}

func (w *Watch) rules(ctx context.Context, t leak.Target) ([]leak.WorkerRule, error) {
	return objectRules(ctx, t, cmp.Or(w.Template, watchedObject), "create", "delete", "list", "watch")
}

func (c *Churn) rules(ctx context.Context, t leak.Target) ([]leak.WorkerRule, error) {
	return objectRules(ctx, t, c.Template, "create", "delete", "list")
}

// objectRules are for the objects of a template, in the run's namespace.
func objectRules(ctx context.Context, t leak.Target, template string, verbs ...string) ([]leak.WorkerRule, error) {
	a, err := reach(t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	o, err := a.objects(ctx, template, 1)
	if err != nil {
		return nil, err
	}
	return []leak.WorkerRule{{PolicyRule: leak.PolicyRule{APIGroups: []string{o.group}, Resources: []string{o.name}, Verbs: verbs}}}, nil
}

func (w *Watch) clearUp(ctx context.Context, t leak.Target, first int) error {
	return clearFrom(ctx, t, cmp.Or(w.Template, watchedObject), first)
}

func (c *Churn) clearUp(ctx context.Context, t leak.Target, first int) error {
	return clearFrom(ctx, t, c.Template, first)
}

// clearFrom removes the objects of a load whose first operation was this.
func clearFrom(ctx context.Context, t leak.Target, template string, first int) error {
	a, err := reach(t)
	if err != nil {
		return err
	}
	defer a.close()
	o, err := a.objects(ctx, template, first)
	if err != nil {
		return err
	}
	return o.clear(ctx)
}
