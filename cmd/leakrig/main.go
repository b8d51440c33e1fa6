// Command leakrig replays a load against real Go software, reads goroutines and heap around every
// round of it, and says with numbers whether the software leaks, where, and by how much per operation.
//
// This package holds flags and exit codes. A command fills an options struct and calls it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/terminal"
)

func main() {
	cluster.Child() // does not return in a child
	leak.LimitMemory()
	os.Exit(run(os.Args[1:]))
}

// run is main without the exit, so that test scripts can call it.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A reader of the output that goes away (| head) must not end leakrig with a cluster running.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	unheard := context.AfterFunc(ctx, func() {
		stop() // the next signal ends leakrig at once
		fmt.Fprintln(os.Stderr, "\nleakrig: interrupted: cleaning up (press Ctrl-C again to skip)")
	})
	defer unheard() // runs before stop, which would set it off
	if err := servePprof(os.Getenv(pprofVariable)); err != nil {
		return session.Complain(err, nil)
	}
	a := &app{args: args}
	root := a.command()
	root.SetArgs(args)
	out := display.NewOutput(terminal.Coloured(os.Stdout))
	root.SetOut(out)
	err := root.ExecuteContext(ctx)
	if unwritten := out.Flush(); err == nil && errors.Is(unwritten, display.ErrOutput) {
		err = unwritten
	}
	if err != nil {
		return session.ForGitBisect(args, session.Complain(err, a.hidden))
	}
	return a.code
}

// app carries the command line, and the exit code of a command that ended without an error.
type app struct {
	args []string
	code int
	// hidden are the secrets of the runs so far, which errors must not contain.
	hidden rundir.Secrets
}

// process is what commands learn of this process.
func (a *app) process() session.Process {
	return session.Process{Args: a.args, Version: version(), Hidden: &a.hidden}
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "leakrig",
		Short: "Reproduce leaks of Go programs and verify fixes",
		Long: `leakrig replays a load against Go software, profiles goroutines and heap before and after every round,
and reports whether the software leaks, where, and by how much per operation.

  leakrig run watch-then-delete                 run a scenario (see leakrig list)
  leakrig observe http://host:6060 -- COMMAND   observe a running process

Exit codes:   0 as expected · 1 not as expected · 2 bad usage or scenario · 3 could not measure
              4 inconclusive · 130 interrupted`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(usage)
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"daily", "Daily:", []*cobra.Command{
			a.runCommand(), a.observeCommand(), a.soakCommand(), a.fleetCommand(), a.judgeCommand(), a.reportCommand(),
			a.explainCommand(), a.diffCommand(), a.matchCommand(), a.bisectCommand(), a.historyCommand(),
		}},
		{"scenarios", "Scenarios:", []*cobra.Command{listCommand(), initCommand(), validateCommand(), kindsCommand(), schemaCommand()}},
		{"environment", "Environment:", []*cobra.Command{doctorCommand(), nodeImageCommand(), imageCommand(), cleanCommand()}},
		{"maintenance", "Maintenance:", []*cobra.Command{pruneCommand(), a.selfCheckCommand(), versionCommand(), workerCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.id
			root.AddCommand(c)
		}
	}
	root.SetCompletionCommandGroupID("maintenance")
	root.SetHelpCommandGroupID("maintenance")
	root.InitDefaultCompletionCmd()
	refuse(root)
	return root
}

// refuse makes wrong arguments of c, and of the commands below it, errors of the command line.
func refuse(c *cobra.Command) {
	if !c.Runnable() {
		c.Args, c.RunE = noCommand, func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error { return usage(c, operands(c, args, check(c, args))) }
	for _, sub := range c.Commands() {
		refuse(sub)
	}
}
