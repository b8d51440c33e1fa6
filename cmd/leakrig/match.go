package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/compare"
	"github.com/leakrig/leakrig/scaffold"
	"github.com/leakrig/leakrig/session"
)

func (a *app) matchCommand() *cobra.Command {
	var f compare.MatchOptions
	skeleton := false
	c := &cobra.Command{
		Use:   "match RUN_DIR PROFILE | --skeleton PROFILE",
		Short: "Compare a production profile with a run",
		Long: `Compare a goroutine profile, heap profile or goroutine dump (debug=2) from production with the stacks
that grew in a run. match prints the variant that explains most of the profile, and which of its
growing stacks the profile has. It also prints the share of the profile that they explain, and the
rest.

With --skeleton, print a scenario whose fingerprints are the largest stacks of the profile.`,
		Example: `  leakrig match runs/watch-then-delete/20261120T140000Z production.pb.gz
  leakrig match --skeleton production.txt > my-service.yaml`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			switch {
			case skeleton != (len(args) == 1):
				return usage(c, errors.New("it takes a run directory and a profile, or --skeleton and a profile"))
			case skeleton:
				return scaffold.Skeleton(c.OutOrStdout(), args[0])
			}
			a.code, err = f.Match(c.OutOrStdout(), session.FindRun(args[0]), args[1])
			return err
		},
	}
	c.Flags().StringVar(&f.Variant, "variant", "", "variant to compare with (default: the one that explains most)")
	c.Flags().StringVar(&f.Probe, "probe", "", "probe to compare with, such as containerd/goroutine (default: the only one with such stacks)")
	c.Flags().IntVar(&f.Top, "top", 10, "number of explained and of unexplained stacks to print")
	c.Flags().Float64Var(&f.MinShare, "min-share", 0, "minimum explained share; the exit code is 1 below it")
	c.Flags().BoolVar(&skeleton, "skeleton", false, "print a scenario for the profile")
	acceptFlag(c, &f.Accept)
	wordFlag(c, &f.Format, "format", "text", textFormats(), "output format")
	return c
}
