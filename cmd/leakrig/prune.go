package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/session"
)

func pruneCommand() *cobra.Command {
	rule := session.DefaultRule()
	dry := false
	c := &cobra.Command{
		Use:   "prune [RUNS_DIR]",
		Short: "Delete old run directories",
		Long: `Delete run directories in a folder (default: runs) that are older than --keep-days and not among the
--keep-last newest of their scenario. prune always keeps the newest run of each scenario with each
result (as expected, not as expected, undecided, could not measure).

prune deletes only run directories: folders named after the time of a run, with a run.json that this
version can read. It also updates the page of all runs.`,
		Example: `  leakrig prune --dry-run
  leakrig prune --keep-days 14 --keep-last 5`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "runs"
			if len(args) > 0 {
				dir = args[0]
			}
			return rule.Clean(c.Context(), c.OutOrStdout(), dir, dry)
		},
	}
	c.Flags().IntVar(&rule.Days, "keep-days", rule.Days, "maximum age in days of runs to keep")
	c.Flags().IntVar(&rule.Last, "keep-last", rule.Last, "number of newest runs to keep per scenario")
	c.Flags().BoolVar(&dry, "dry-run", false, "only list what would be deleted")
	return c
}
