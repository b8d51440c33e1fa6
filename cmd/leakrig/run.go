package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/cluster/binaries"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/session"
)

func (a *app) runCommand() *cobra.Command {
	f := session.Options{Process: a.process()}
	c := &cobra.Command{
		Use:   "run NAME|FILE... | --all [DIR]",
		Short: "Run scenarios, judge them, and write their reports",
		Long: `Run a scenario of the library (see leakrig list) or a scenario file: build the variants, boot the
cluster, run the load, profile the subject before and after every round, judge, and write the report.

The last lines of the output name the run directory, which contains all measurements. Results go to
standard output, progress to standard error. With several scenarios, leakrig runs all of them, and the
exit code is the worst one, in the order 130, 2, 3, 1, 4, 0.

--all runs the library, or every scenario file in DIR, and writes nightly.md and index.html into the
runs directory. It skips and lists scenarios that do not support --cluster. A scenario that cannot run
here counts as "could not measure". Only one run with --all can use a runs directory at a time. With
--budget, the least recently run scenarios go first, and none starts after that time.`,
		Example: `  leakrig run watch-then-delete
  leakrig run watch-then-delete --variant leaky --variant fixed
  leakrig run ./my-service.yaml --rounds 12
  leakrig run --all --prune --budget 30m`,
		Args: func(c *cobra.Command, args []string) error { return checkNight(c, f.Night, args) },
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.code, err = f.Run(c.Context(), c.OutOrStdout(), args)
			return err
		},
	}
	addRunFlags(c, &f)
	return c
}

// addRunFlags adds the flags of `leakrig run`.
func addRunFlags(c *cobra.Command, f *session.Options) {
	addNightFlags(c, &f.Night)
	c.Flags().IntVar(&f.Rounds, "rounds", 0, "number of measured rounds, instead of the scenario's")
	c.Flags().DurationVar(&f.Budget, "for", 0, "time budget for adding operations until every check is decided, instead of the scenario's rounds")
	c.Flags().IntVar(&f.Times, "times", 1, "number of repetitions; prints how many were as expected")
	c.Flags().BoolVar(&f.Resume, "resume", false, resumeDoc)
	wordFlag(c, &f.Placement, "placement", "", []string{leak.PlacementProcess, leak.PlacementPod}, "placement of the subject, instead of the scenario's")
	c.Flags().BoolVar(&f.Clusters.Keep, "keep", false, "keep the kind cluster for --reuse (leakrig clean deletes it)")
	c.Flags().BoolVar(&f.Clusters.Reuse, "reuse", false, "reuse a kept kind cluster with the same image and nodes")
	workerFlags(c, &f.Clusters)
	wordFlag(c, &f.ExitCode, "exit-code", "verdict", []string{"verdict", session.ExitBisect}, "exit code of the verdict, or for git bisect run")
	addScenarioFlags(c, f)
	addRatchetFlags(c, &f.Ratchet)
	addOutputFlags(c, &f.Output)
	c.Flags().StringVar(&f.RunsDir, "runs-dir", "runs", "folder for run directories")
	completeFolders(c, "runs-dir", "source")
}

// addScenarioFlags adds the flags of a scenario that is run once or soaked.
func addScenarioFlags(c *cobra.Command, f *session.Options) {
	o := c.Flags()
	wordFlag(c, &f.Cluster, "cluster", "auto", append([]string{"auto"}, session.Kinds().Providers...), "provider of the cluster")
	controlPlaneFlag(c, &f.Clusters)
	o.StringSliceVar(&f.Variants, "variant", nil, "variant to run (repeatable; default: all without when: full)")
	o.BoolVar(&f.AllVariants, "all-variants", false, "also run variants with when: full")
	o.StringArrayVar(&f.Set, "set", nil, "value of a parameter of the scenario, `name=value` (repeatable)")
	o.StringSliceVar(&f.With, "with", nil, "version of a module to build the variants with, `module@version` (repeatable)")
	o.StringVar(&f.Source, "source", "", "checkout with subjects/ (default: the one around the current folder, otherwise the sources in leakrig)")
	o.StringVar(&f.Clusters.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of an existing cluster (default: as kubectl)")
	o.StringVar(&f.Clusters.Context, "context", "", "context of an existing cluster (default: the current one)")
	o.BoolVar(&f.Clusters.Yes, "yes", false, "run on a context that looks like production")
	c.ValidArgsFunction = scenarioArgs
	completeWith(c, "variant", variantsOf)
	completeWith(c, "set", parametersOf)
}

func controlPlaneFlag(c *cobra.Command, o *cluster.Options) {
	wordFlag(c, &o.ControlPlane, "control-plane", binaries.Auto, binaries.Modes(), "how to get the binaries of the embedded control plane")
}

func addNightFlags(c *cobra.Command, n *session.Night) {
	c.Flags().BoolVar(&n.All, "all", false, "run every scenario of the library, or of DIR")
	c.Flags().StringSliceVar(&n.Skip, "skip", nil, "with --all: scenario to skip (repeatable)")
	c.Flags().DurationVar(&n.Budget, "budget", 0, "with --all: time after which no scenario starts; the least recently run go first")
	c.Flags().BoolVar(&n.Prune, "prune", false, "with --all: delete old run directories at the end, as leakrig prune does")
}

func checkNight(c *cobra.Command, n session.Night, args []string) error {
	if n.Budget < 0 {
		return fmt.Errorf("--budget %s: it must be positive", n.Budget)
	}
	if n.All {
		for _, flag := range []string{"variant", "set"} {
			if c.Flags().Changed(flag) {
				return fmt.Errorf("--%s and --all: scenarios differ in what it may be", flag)
			}
		}
		return cobra.MaximumNArgs(1)(c, args)
	}
	if n.Prune || len(n.Skip) > 0 || n.Budget != 0 {
		return errors.New("--prune, --skip and --budget go with --all")
	}
	return cobra.MinimumNArgs(1)(c, args)
}
