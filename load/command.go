package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/group"
)

var commandKind = leak.Kind[leak.Action]{
	Name: "command",
	Doc: "Runs any program as the load: kubectl, k6, a script. An operation succeeds if the program exits with the expected code. " +
		"times, concurrency, rate and timeout apply to invocations; operations sets how many operations one invocation counts for. " +
		"Its environment has KUBECONFIG, NAMESPACE, POD (the first pod that matches the selector), URL (the subject, or each replica in turn), and OP, the number of its first operation, which is also {{.Op}} in argv. " +
		"It runs in its own process group. leakrig kills the group at the deadline, or a second after the program has exited. Processes in another session (setsid) are not killed. " +
		"curl fails on a status of 400 or more, as with --fail, unless --no-fail is given. Other programs must exit with an error themselves.",
	New: func() leak.Action {
		p := defaultPace()
		p.Timeout = leak.Duration(5 * time.Minute)
		return &Command{pace: p, Operations: 1}
	},
}

// maxPrograms is how many programs run at once: each keeps a thread of leakrig, of which Go has 10,000.
const maxPrograms = 1000

// Command runs a program.
type Command struct {
	Argv       []string `yaml:"argv,omitempty" doc:"program and arguments; relative paths start at the current folder"`
	Shell      string   `yaml:"shell,omitempty" doc:"text for sh -c, instead of argv"`
	Operations int      `yaml:"operations,omitempty" doc:"operations per invocation; if the invocation fails, all of them fail"`
	podsOf     `yaml:",inline"`
	pace       `yaml:",inline"`
	expected   `yaml:",inline"`
	Rules      []leak.PolicyRule `yaml:"rules,omitempty" doc:"permissions in the namespace if workers run it, as in an RBAC Role"`
}

// Scaled has factor times the operations (leak.Scaler).
func (c *Command) Scaled(factor int) leak.Action {
	scaled := *c
	scaled.pace = c.pace.scaled(factor)
	return &scaled
}

// Validate returns all problems.
func (c *Command) Validate() error {
	var bad problems
	switch {
	case len(c.Argv) > 0 && c.Shell != "":
		bad.add("shell", "leave one of them out", "argv and shell are both given")
	case c.Shell == "" && (len(c.Argv) == 0 || c.Argv[0] == ""):
		bad.add("argv", "as in [kubectl, get, pods], or shell: kubectl get pods", "is missing")
	}
	for _, arg := range c.Argv {
		bad.template("argv", arg)
	}
	c.podsOf.validate(&bad)
	c.pace.validate(&bad)
	for field, n := range map[string]int{"concurrency": c.Concurrency, "arrival.maxInFlight": c.Arrival.MaxInFlight} {
		if n > maxPrograms {
			bad.add(field, "each is a process; operations says for how many operations one counts", "must be at most %d, is %d", maxPrograms, n)
		}
	}
	if c.Operations < 1 || c.Operations > maxTimes/max(c.Times, 1) {
		bad.add("operations", "", "must be at least 1, and with times make at most %d a round; is %d", maxTimes, c.Operations)
	}
	c.expected.validate(&bad)
	for _, r := range c.Rules {
		if len(r.Resources) == 0 || len(r.Verbs) == 0 {
			bad.add("rules", "as in [{resources: [configmaps], verbs: [list, watch]}]", "one of them is without resources or verbs")
		}
	}
	return errors.Join(bad...)
}

// killDelay is how long a program that the load left running may keep its output open.
const killDelay = time.Second

// Run runs the program.
func (c *Command) Run(ctx context.Context, t leak.Target, first int) (leak.Tally, error) {
	tally, err := summed(c.run(ctx, t, first))
	multiply(&tally, c.Operations)
	return tally, err
}

// run returns the outcome of the invocations.
func (c *Command) run(ctx context.Context, t leak.Target, first int) (*outcome, error) {
	argv := c.Argv
	if c.Shell != "" {
		argv = []string{"sh", "-c"}
	}
	templates, err1 := parseTemplates(argv)
	judge, err2 := c.judge()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	var envs [][]string // by replica
	for _, t := range targets(t) {
		env, err := c.environ(ctx, t)
		if err != nil {
			return nil, err
		}
		envs = append(envs, env)
	}
	filled, err := fillAll(templates, first)
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(filled[0]); err != nil {
		return nil, leak.WithHint(err, "is the program there, and may it be run?")
	}
	in := inTurn(t, 0)
	return perform(ctx, c.pace, 0, in, func(ctx context.Context, invocation int) error {
		op := first + invocation*c.Operations
		args, err := fillAll(templates, op)
		if err != nil {
			return err
		}
		if c.Shell != "" {
			args = append(args, c.Shell)
		}
		var stdout, stderr captured
		state, err := invoke(ctx, args, append(slices.Clip(envs[in.of(invocation)]), "OP="+strconv.Itoa(op)), &stdout, &stderr)
		switch {
		case err != nil:
			return err
		case state.ExitCode() < 0:
			return &failure{errors.New(state.String()), stderr.lastLine()}
		}
		return judge(state.ExitCode(), &stdout, &stderr)
	}), nil
}

// multiply makes of a tally of invocations one of operations.
func multiply(t *leak.Tally, operations int) {
	t.Attempted *= operations
	t.Succeeded *= operations
	t.Failed *= operations
	t.TimedOut *= operations
	t.Silent *= operations
	if t.Open != nil {
		t.Open.Waited *= operations
		t.Open.Rate *= float64(operations)
	}
	for i := range t.Errors {
		t.Errors[i].Count *= operations
	}
	for i := range t.Shares {
		multiply(&t.Shares[i], operations)
	}
	for i := range t.Workers {
		w := &t.Workers[i]
		w.Operations *= operations
		w.Attempted *= operations
		w.Succeeded *= operations
	}
}

// failsWithBody reports whether curl has --fail-with-body, which excludes --fail.
func (c *Command) failsWithBody() bool {
	return strings.Contains(strings.Join(c.Argv, " ")+c.Shell, "fail-with-body")
}

// environ is leakrig's own environment without what leads to a cluster, as subjects get it, and what
// leads to this one.
func (c *Command) environ(ctx context.Context, t leak.Target) ([]string, error) {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "KUBERNETES_SERVICE_") || strings.HasPrefix(kv, "URL=")
	})
	env = append(env, "KUBECONFIG="+cmp.Or(t.Kubeconfig, os.DevNull))
	if !c.failsWithBody() {
		env = append(env, t.Env...)
	}
	if t.URL != "" {
		env = append(env, "URL="+t.URL)
	}
	if t.Kubeconfig == "" {
		return env, nil
	}
	a, err := reach(t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	namespace, selector := c.where(a, t)
	env = append(env, "NAMESPACE="+namespace)
	if selector == "" {
		return env, nil
	}
	pods, err := a.pods(ctx, namespace, selector)
	if err != nil {
		return nil, err
	}
	return append(env, "POD="+pods[0]), nil
}

// invoke runs a program to its end, or to that of ctx, and with it all that it started.
func invoke(ctx context.Context, argv, env []string, stdout, stderr *captured) (*os.ProcessState, error) {
	// The kernel kills the child when the thread that made it ends (see ownGroup).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, stdout, stderr
	cmd.SysProcAttr = group.Own()
	cmd.Cancel = func() error {
		group.Kill(cmd.Process.Pid)
		return nil
	}
	cmd.WaitDelay = killDelay
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start: %w", cause(err))
	}
	err := cmd.Wait()
	group.Kill(cmd.Process.Pid)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, cause(ctx.Err())
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return nil, err
	}
	return cmd.ProcessState, nil
}
