package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// command is a Command with its defaults, as a scenario would change it.
func command(change func(*Command)) *Command {
	c := commandKind.New().(*Command)
	change(c)
	return c
}

func runCommand(t *testing.T, c *Command, target leak.Target, first int) leak.Tally {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	tally, err := c.Run(t.Context(), target, first)
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

// TestCommandOperations checks that an invocation counts for its number of operations and gets the number of the
// first.
func TestCommandOperations(t *testing.T) {
	for _, c := range []struct {
		times, operations int
		want              []int
	}{
		{4, 1, []int{11, 12, 13, 14}},
		{3, 100, []int{11, 111, 211}},
	} {
		dir := t.TempDir()
		tally := runCommand(t, command(func(c2 *Command) {
			c2.Argv = []string{"touch", filepath.Join(dir, "{{.Op}}")}
			c2.Times, c2.Concurrency, c2.Operations = c.times, 2, c.operations
		}), leak.Target{}, 11)
		entries, _ := os.ReadDir(dir)
		var ops []int
		for _, e := range entries {
			op, _ := strconv.Atoi(e.Name())
			ops = append(ops, op)
		}
		slices.Sort(ops)
		if n := c.times * c.operations; !slices.Equal(ops, c.want) || tally.Attempted != n || tally.Succeeded != n {
			t.Errorf("%+v: operations %v, %+v", c, ops, tally)
		}
	}
}

// TestCommandEnvironment checks that the environment of a program refers to the run's cluster and to no other.
func TestCommandEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/user/.kube/config")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	s := serveAPI(t, "subject-1-abc", "subject-1-def")
	s.URL = "http://127.0.0.1:4711"
	const show = `echo "$KUBECONFIG|$NAMESPACE|$POD|$URL|$OP|$KUBERNETES_SERVICE_HOST|"`
	for _, c := range []struct {
		name   string
		target leak.Target
		change func(*Command)
		want   string
	}{
		{"in a cluster", s.Target, func(*Command) {}, s.Kubeconfig + "|run-1|subject-1-abc|http://127.0.0.1:4711|7||"},
		{
			"other pods", s.Target, func(c *Command) { c.Namespace, c.Selector = "kube-system", "k8s-app=kube-dns" },
			s.Kubeconfig + "|kube-system|subject-1-abc|http://127.0.0.1:4711|7||",
		},
		{"no pod", leak.Target{Kubeconfig: s.Kubeconfig}, func(*Command) {}, s.Kubeconfig + "|of-the-context|||7||"},
		{"no cluster", leak.Target{URL: "http://x"}, func(*Command) {}, "/dev/null|||http://x|7||"},
	} {
		tally := runCommand(t, command(func(c2 *Command) {
			c2.Shell, c2.Output = show, "^"+strings.ReplaceAll(c.want, "|", `\|`)+"\n$"
			c.change(c2)
		}), c.target, 7)
		if tally.Succeeded != 1 {
			t.Errorf("%s: %+v", c.name, tally.Errors)
		}
	}
}

// How a program can end, and how it is counted.
func TestCommandEnds(t *testing.T) {
	const times = 4
	for _, c := range []struct {
		name             string
		change           func(*Command)
		timedOut, silent int
		want             string // "" is success
	}{
		{"well", func(c *Command) { c.Argv = []string{"true"} }, 0, 0, ""},
		{"another exit code", func(c *Command) { c.Shell = "echo first >&2; echo no $OP >&2; exit 3" }, 0, 0, "exit code 3, want 0: no "},
		{"the exit code that is asked for", func(c *Command) { c.Shell, c.Exit = "exit 3", 3 }, 0, 0, ""},
		{"by a signal", func(c *Command) { c.Shell = "kill -9 $$" }, 0, 0, "signal: killed"},
		{"without its output", func(c *Command) { c.Shell, c.Output = "echo nothing", "bin" }, 0, times, "returned without its output: nothing"},
		{"not in time", func(c *Command) { c.Shell = "sleep 60 & wait" }, times, 0, "timed out"},
		{"deaf to other signals", func(c *Command) { c.Shell = "trap '' TERM INT; sleep 60; sleep 60" }, times, 0, "timed out"},
		{"much output", func(c *Command) {
			c.Shell, c.Output = "head -c 1000000 /dev/zero | tr '\\0' x; echo the end >&2; exit 0", "^x{999}"
		}, 0, 0, ""},
		{"no end of output", func(c *Command) { c.Argv = []string{"yes"} }, times, 0, "timed out"},
		{"no standard input", func(c *Command) { c.Argv = []string{"cat"} }, 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally := runCommand(t, command(func(c2 *Command) {
				c2.Times, c2.Concurrency = times, 2
				c.change(c2)
				if c.timedOut > 0 {
					c2.Timeout = leak.Duration(200 * time.Millisecond)
				}
			}), leak.Target{}, 1)
			if tally.Attempted != times || tally.TimedOut != c.timedOut || tally.Silent != c.silent || (tally.Failed != 0) != (c.want != "") {
				t.Errorf("%+v", tally)
			}
			if c.want != "" && (len(tally.Errors) != 1 || tally.Errors[0].Count != times || !strings.HasPrefix(tally.Errors[0].Message, c.want)) {
				t.Errorf("errors %+v, want one like %q", tally.Errors, c.want)
			}
		})
	}
}

// Nothing that a program started is left: not at its deadline, not when it left it running, not after an
// interrupt.
func TestCommandLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name, shell string
		timeout     time.Duration
		interrupt   bool
		succeeded   int
	}{
		{"at the deadline", "sleep 600 & echo $! >$PIDS; wait", 300 * time.Millisecond, false, 0},
		{"left running", "sleep 600 & echo $! >$PIDS", time.Minute, false, 1},
		{"after an interrupt", "sleep 600 & echo $! >$PIDS; wait", time.Minute, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			t.Setenv("PIDS", pids)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.interrupt {
				go func() {
					eventually(t, func() string {
						if b, _ := os.ReadFile(pids); len(b) == 0 {
							return "it has not started"
						}
						return ""
					})
					cancel(errors.New("interrupted"))
				}()
			}
			tally, err := command(func(c2 *Command) { c2.Shell, c2.Timeout = c.shell, leak.Duration(c.timeout) }).Run(ctx, leak.Target{}, 1)
			if err != nil || tally.Attempted != 1 || tally.Succeeded != c.succeeded || tally.Seconds > 10 {
				t.Errorf("%+v, %v", tally, err)
			}
			b, err := os.ReadFile(pids)
			pid, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() string {
				if running(pid) {
					return fmt.Sprintf("process %d still runs", pid)
				}
				return ""
			})
		})
	}
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestCommandCannotRun(t *testing.T) {
	t.Parallel() // it waits for pods that do not come
	for name, c := range map[string]*Command{
		"no such program": command(func(c *Command) { c.Argv = []string{"no-such-program"} }),
		"a folder":        command(func(c *Command) { c.Argv = []string{t.TempDir()} }),
	} {
		if _, err := c.Run(t.Context(), leak.Target{}, 1); err == nil || leak.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := serveAPI(t) // without pods
	if _, err := command(func(c *Command) { c.Shell = "true" }).Run(t.Context(), s.Target, 1); err == nil || !strings.Contains(err.Error(), "no running pod") {
		t.Errorf("no pod: %v", err)
	}
}

func TestCommandValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Command)
		want   string
	}{
		{"argv", func(c *Command) { c.Argv = []string{"true"} }, ""},
		{"shell, as it stands", func(c *Command) { c.Shell = "docker ps --format '{{.Names}}'" }, ""},
		{"neither", func(*Command) {}, "argv"},
		{"both", func(c *Command) { c.Argv, c.Shell = []string{"true"}, "true" }, "shell"},
		{"everything at once", func(c *Command) {
			*c = Command{Argv: []string{"", "{{.Opp}}"}, podsOf: podsOf{Namespace: "x"}, expected: expected{Exit: -1}}
		}, "argv argv namespace times concurrency timeout operations exit"},
		{"the maximum", func(c *Command) { c.Shell, c.Times, c.Operations = "true", 1000, 1000 }, ""},
		{"too many", func(c *Command) { c.Shell, c.Times, c.Operations = "true", 1000, 1001 }, "operations"},
	} {
		problemFields(t, c.name, command(c.change).Validate(), c.want)
	}
}
