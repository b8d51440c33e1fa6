package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/session"
)

func (a *app) historyCommand() *cobra.Command {
	var output string
	var accept bool
	c := &cobra.Command{
		Use:   "history [RUNS_DIR]",
		Short: "Write a page of all runs, night by night, with what is new",
		Long: `Write a page of all run directories in a folder (default: runs). For every scenario it has a calendar
of verdicts, the growth per operation from run to run with changed versions, and links to the reports.
For each of them it also shows what is new since the last expected result.

The page lists run directories that cannot be read, and altered records and verdicts. The exit code for
altered ones is 4 without --accept-altered. history does not check raw files.`,
		Example: `  leakrig history
  leakrig history artefacts --output nightly.html`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			dir := "runs"
			if len(args) > 0 {
				dir = args[0]
			}
			a.code, err = session.History(c.Context(), c.OutOrStdout(), dir, output, accept)
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "`file` to write to (default: index.html in RUNS_DIR)")
	acceptFlag(c, &accept)
	return c
}
