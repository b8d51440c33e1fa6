package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/bisect"
	"github.com/leakrig/leakrig/session"
)

func (a *app) bisectCommand() *cobra.Command {
	b := &bisect.Bisection{Options: session.Options{Process: a.process(), Times: 1}}
	c := &cobra.Command{
		Use:   "bisect NAME|FILE",
		Short: "Find the version or commit that introduced or fixed a leak",
		Long: `Search the versions of a module, or with --repo the commits of a repository, between a leaky one and a
clean one. Each step builds a variant of the scenario with another version and runs it. The checks of
the scenario and the fingerprint of the variant decide whether a version leaks.

Candidates are the versions that the module proxy lists, except pre-releases and retracted versions,
plus those of --candidates. bisect skips and lists versions that do not build or that stay undecided.
It measures both ends first, and the versions on both sides of the answer twice.

Run the same command again, or --resume DIR, to resume an interrupted search.

Exit codes:   0 found · 1 an end does not show the given outcome · 2 bad usage · 3 could not measure
              4 no reliable answer · 130 interrupted`,
		Example: `  leakrig bisect watch-then-delete --module k8s.io/apimachinery --with k8s.io/client-go,k8s.io/api \
      --bad v0.18.8 --good v0.21.0 --candidates v0.21.0-beta.0,v0.21.0-beta.1
  leakrig bisect parallel-exec --module github.com/containerd/ttrpc --bad v1.0.2 --good v1.1.0
  leakrig bisect ./my-service.yaml --repo . --good v2.3.0 --bad main`,
		Args: func(c *cobra.Command, args []string) error {
			if b.Resume != "" {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				b.Question.Scenario = args[0]
			}
			a.code, err = b.Run(c.Context(), c.OutOrStdout())
			return err
		},
	}
	q := &b.Question
	f := c.Flags()
	f.StringVar(&q.Module, "module", "", "`path` of the module to search")
	f.StringSliceVar(&q.With, "with", nil, "`path` of a module with the same version (repeatable)")
	f.StringVar(&q.Bad, "bad", "", "leaky `version` or commit")
	f.StringVar(&q.Good, "good", "", "clean `version` or commit")
	f.StringSliceVar(&q.Given, "candidates", nil, "`versions` in addition to those of the module proxy")
	f.BoolVar(&q.Pre, "pre", false, "include pre-releases of the module proxy")
	f.BoolVar(&q.AllLines, "all-lines", false, "search each release line (v0.20, v0.21) separately")
	f.StringVar(&q.Repo, "repo", "", "`folder` of a repository with the subject, to search its commits")
	f.StringVar(&q.Make, "make", "", "shell `command` that builds subject.command in each commit")
	f.StringVar(&b.Variant, "variant", "", "variant to build (default: the first that is expected to leak and has a modfile or node commands)")
	f.IntVar(&q.Repeats, "repeats", 1, "number of repeated measurements of each neighbour of the answer")
	f.IntVar(&q.Spots, "spots", 2, "maximum number of versions far from the answer to check for a second boundary")
	f.StringVar(&b.Resume, "resume", "", "`folder` of the bisection to resume")
	acceptFlag(c, &b.Accept)
	f.BoolVar(&b.Fresh, "fresh", false, "do not resume an interrupted search")
	f.IntVar(&q.Rounds, "rounds", 0, "number of measured rounds, instead of the scenario's")
	wordFlag(c, &q.Cluster, "cluster", "auto", append([]string{"auto"}, session.Kinds().Providers...), "provider of the cluster")
	f.StringVar(&q.Placement, "placement", "", "placement of the subject, process or pod, instead of the scenario's")
	f.StringVar(&q.Source, "source", "", "checkout with subjects/ (default: the one around the current folder, otherwise the sources in leakrig)")
	f.StringArrayVar(&b.Set, "set", nil, "value of a parameter of the scenario, `name=value` (repeatable)")
	f.StringVar(&b.RunsDir, "runs-dir", "runs", "folder for run directories")
	f.StringVar(&b.Clusters.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of an existing cluster (default: as kubectl)")
	f.StringVar(&b.Clusters.Context, "context", "", "context of an existing cluster (default: the current one)")
	f.BoolVar(&b.Clusters.Yes, "yes", false, "run on a context that looks like production")
	controlPlaneFlag(c, &b.Clusters)
	workerFlags(c, &b.Clusters)
	var names []string
	for _, format := range bisect.Formats() {
		names = append(names, format.Name)
	}
	wordFlag(c, &b.Format, "format", "text", names, "output format")
	c.ValidArgsFunction = scenarioArgs
	completeWith(c, "variant", variantsOf)
	completeWith(c, "set", parametersOf)
	completeFolders(c, "repo", "resume", "runs-dir", "source")
	return c
}
