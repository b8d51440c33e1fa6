package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/session"
)

// Defaults of observe.
const (
	defaultBudget = time.Minute
	controlRounds = 2
)

func (a *app) observeCommand() *cobra.Command {
	o := session.Observation{Options: session.Options{Process: a.process(), Cluster: "auto", Times: 1}, Name: "observe", By: "observe"}
	c := &cobra.Command{
		Use:   "observe URL... [flags] -- COMMAND [ARG...]",
		Short: "Observe a running process under the load of a command",
		Long: `Repeat a command in rounds, profile a process that serves net/http/pprof before and after each round,
and judge the growth of its goroutines and its memory. No scenario and no cluster are needed.
The exit code is 1 if the process leaks.

URL is http, https or unix (unix:///run/app.sock). If it has a path, leakrig looks for pprof below it.
The command gets URL and OP, the number of its first operation, in its environment. leakrig replaces
{{.Op}} in its arguments with OP.

Several URLs are replicas of one program. leakrig judges each of them and reports the worst. URL in the
environment of the command is then each address in turn.

The run directory contains the scenario of the run. Use leakrig soak for rounds over hours, and leakrig
fleet for many processes under their existing load.`,
		Example: `  leakrig observe http://127.0.0.1:6060 -- curl -sf http://127.0.0.1:8080/orders
  leakrig observe http://127.0.0.1:6060 --operations 100 -- hey -n 100 http://127.0.0.1:8080/
  leakrig observe https://127.0.0.1:8443/admin --ca ca.pem --cert me.pem --key me.key -- ./load.sh
  leakrig observe http://10.0.0.7:6060 http://10.0.0.8:6060 -- sh -c 'curl -sf $URL/orders'`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := split(c, &o, args); err != nil {
				return err
			}
			flags := c.Flags()
			fixed := flags.Changed("rounds") || flags.Changed("times") || flags.Changed("max-rounds")
			if fixed && flags.Changed("for") {
				return usage(c, errors.New("--for adds operations for a time, --rounds, --times and --max-rounds fix their number"))
			}
			if fixed {
				o.For, o.Control = 0, 0
			} else {
				o.Times = 1
			}
			a.code, err = o.Observe(c.Context(), c.OutOrStdout())
			return err
		},
	}
	c.SetFlagErrorFunc(movedFlags(map[string]string{
		"every": "soak URL --every 10m --for 72h -- COMMAND", "resume": "soak URL --resume -- COMMAND",
		"selector": "fleet --selector LABELS", "targets": "fleet --targets FILE",
	}))
	o.Control = controlRounds
	f := c.Flags()
	f.DurationVar(&o.For, "for", defaultBudget, "time budget for adding operations until every series is decided")
	f.IntVar(&o.Rounds, "rounds", 7, "fixed number of measured rounds, instead of --for")
	f.IntVar(&o.MaxRounds, "max-rounds", 0, "maximum number of rounds, added in batches of --rounds while a check is undecided (default: --rounds)")
	f.IntVar(&o.Times, "times", 10, "fixed number of invocations per round, instead of --for")
	f.StringVar(&o.MaxGoroutines, "max-goroutines", "", "budget of goroutines per operation, such as 0.05 (default: none, all sustained growth is a leak)")
	f.StringVar(&o.MaxHeap, "max-heap", "", "budget of heap per operation, such as 4KiB (default: none, all sustained growth is a leak)")
	addObservationFlags(c, &o)
	return c
}

// addObservationFlags adds the flags that observe and soak share.
func addObservationFlags(c *cobra.Command, o *session.Observation) {
	f := c.Flags()
	f.IntVar(&o.Warmup, "warmup", 1, "warm-up rounds before the baseline")
	f.IntVar(&o.Concurrency, "concurrency", 1, "maximum number of concurrent invocations")
	f.IntVar(&o.Operations, "operations", 1, "operations per invocation")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "timeout of an invocation")
	f.DurationVar(&o.Quiet, "quiet", 0, "length of a settling window (default: 300ms with a time budget, 1s otherwise)")
	f.IntVar(&o.PID, "pid", 0, "process on this machine that serves URL (default: the owner of the listening socket)")
	f.StringVar(&o.Name, "name", o.By, "name of the scenario, and of the folder of its runs")
	addRatchetFlags(c, &o.Ratchet)
	f.StringVar(&o.RunsDir, "runs-dir", "runs", "folder for run directories")
	addEndpointFlags(c, &o.Endpoint)
	addOutputFlags(c, &o.Output)
}

func addEndpointFlags(c *cobra.Command, e *session.Endpoint) {
	f := c.Flags()
	f.StringVar(&e.Pprof, "pprof", "/debug/pprof", "`path` of net/http/pprof below URL")
	f.StringVar(&e.CA, "ca", "", "PEM `file` with the certificate authorities of the server")
	f.StringVar(&e.Cert, "cert", "", "PEM `file` with the client certificate")
	f.StringVar(&e.Key, "key", "", "PEM `file` with the key of the client certificate")
	f.StringVar(&e.TokenFile, "token-file", "", "`file` with a bearer token")
	f.BoolVar(&e.Insecure, "insecure", false, "do not verify the certificate of the server")
}

// split parts the arguments into the URLs and the command.
func split(c *cobra.Command, o *session.Observation, args []string) error {
	n := max(1, c.ArgsLenAtDash())
	if n == len(args) {
		return usage(c, errors.New("a command is missing after --"))
	}
	o.URLs, o.Command = args[:n:n], args[n:]
	return nil
}

// movedFlags answers flags that c no longer has with the command that has them now.
func movedFlags(now map[string]string) func(*cobra.Command, error) error {
	return func(c *cobra.Command, err error) error {
		if command := now[strings.TrimPrefix(unknownFlag(err), "--")]; command != "" {
			err = leak.WithHint(err, "use `leakrig %s`", command)
		}
		return usage(c, err)
	}
}
