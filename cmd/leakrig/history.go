package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/session"
)

func (a *app) historyCommand() *cobra.Command {
	var o session.HistoryOptions
	c := &cobra.Command{
		Use:   "history [RUNS_DIR]",
		Short: "Write a page of all runs, night by night, and of changes between them",
		Long: `Write a page of all run directories in a folder (default: runs). A board sums up every scenario in one
sentence. Below it, each scenario has a calendar of verdicts, and charts of its numbers from run to run
with links to the reports. For each number that changed its level, the page lists what else changed that
night. It also lists what is new since the last expected result.

A change needs three runs at the new level. history prints the changes in the newest seven runs, and
--fail-on-change makes them exit code 1.

The page lists run directories that cannot be read, and altered records and verdicts. The exit code for
altered ones is 4 without --accept-altered. history does not check raw files.`,
		Example: `  leakrig history
  leakrig history artefacts --output nightly.html
  leakrig history --fail-on-change`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			dir := "runs"
			if len(args) > 0 {
				dir = args[0]
			}
			a.code, err = session.History(c.Context(), c.OutOrStdout(), dir, o)
			return err
		},
	}
	c.Flags().StringVarP(&o.Output, "output", "o", "", "`file` to write to (default: index.html in RUNS_DIR)")
	c.Flags().BoolVar(&o.FailOnChange, "fail-on-change", false, "exit with 1 if a number changed its level in the newest seven runs")
	acceptFlag(c, &o.Accept)
	return c
}
