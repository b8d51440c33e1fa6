package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/session"
)

// resumeDoc describes --resume of run and soak.
const resumeDoc = "resume the newest interrupted soak of this scenario if its process is still the same; start one otherwise"

// Defaults of a soak.
const (
	soakEvery = 10 * time.Minute
	soakFor   = 24 * time.Hour
)

// A soak has either a command or a scenario for its load; these flags need the one and the other.
var (
	loadFlags     = []string{"times", "name", "warmup", "concurrency", "operations", "timeout", "quiet", "pid", "pprof", "ca", "cert", "key", "token-file", "insecure"}
	scenarioFlags = []string{"cluster", "variant", "set", "with", "source", "kubeconfig", "context", "yes"}
)

func (a *app) soakCommand() *cobra.Command {
	o := session.Observation{Options: session.Options{Process: a.process(), Times: 1}, Name: "soak", By: "soak"}
	c := &cobra.Command{
		Use:   "soak URL... [flags] -- COMMAND [ARG...] | soak NAME|FILE",
		Short: "Run rounds at a fixed interval for hours or days",
		Long: `Run rounds at a fixed interval, on a running process under the load of a command, or on a scenario.
The run directory stays small. A soak ends early if it finds a leak; the exit code is then 1.

With --resume, the same command starts a soak and resumes it after an interruption.`,
		Example: `  leakrig soak http://10.0.0.7:6060 --every 10m --for 72h --resume -- ./load.sh
  leakrig soak ./my-service.yaml --every 1m --for 8h`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if c.ArgsLenAtDash() < 0 && len(args) == 1 {
				if err := refuseFlags(c, loadFlags, "the scenario has its own"); err != nil {
					return err
				}
				o.Soak = &leak.SoakSpec{Every: leak.Duration(o.Every), For: leak.Duration(o.For)}
				o.SoakPreset = !c.Flags().Changed("every") && !c.Flags().Changed("for")
				a.code, err = o.Options.Run(c.Context(), c.OutOrStdout(), args)
				return err
			}
			if err := refuseFlags(c, scenarioFlags, "it belongs to a scenario"); err != nil {
				return err
			}
			if err := split(c, &o, args); err != nil {
				return err
			}
			a.code, err = o.Observe(c.Context(), c.OutOrStdout())
			return err
		},
	}
	f := c.Flags()
	f.DurationVar(&o.Every, "every", soakEvery, "interval between the starts of rounds")
	f.DurationVar(&o.For, "for", soakFor, "time after which no round starts")
	f.BoolVar(&o.Resume, "resume", false, resumeDoc)
	f.IntVar(&o.Times, "times", 10, "invocations of the command per round")
	addObservationFlags(c, &o)
	addScenarioFlags(c, &o.Options)
	return c
}

// refuseFlags returns an error if the command line has one of these flags.
func refuseFlags(c *cobra.Command, names []string, reason string) error {
	for _, name := range names {
		if c.Flags().Changed(name) {
			return usage(c, leak.WithHint(fmt.Errorf("--%s: %s", name, reason), "leave it out"))
		}
	}
	return nil
}
