package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/fleet"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/session"
)

func (a *app) judgeCommand() *cobra.Command {
	var out session.Output
	var o session.JudgeOptions
	var bounds fleet.Bounds
	c := &cobra.Command{
		Use:   "judge RUN_DIR",
		Short: "Judge the record of a run again",
		Long: `Judge the record of a run again, without a cluster, a network or the subject, and write verdict and
reports into the run directory. With --scenario, use the checks of another scenario and only print the
verdict. For a fleet, judge only prints the verdict.

With --ratchet, compare variants that are expected clean with a stored verdict. They fail only on leaks
that are new or worse, so that a known leak does not hide a new one.

A record that was altered, or that has no seal, gets a warning, and its verdict is never "as
expected" without --accept-altered.`,
		Example: `  leakrig judge runs/watch-then-delete/20261120T140000Z
  leakrig judge runs/watch-then-delete/20261120T140000Z --scenario stricter.yaml
  leakrig judge runs/my-service/20261120T140000Z --ratchet known.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := out.Report()
			if err != nil {
				return err
			}
			dir := session.FindRun(args[0])
			if fleet.Is(dir) {
				a.code, err = fleet.Rejudge(c.OutOrStdout(), dir, out.Format, bounds, changedBounds(c, bounds), o.Accept)
				return err
			}
			a.code, err = o.Judge(c.OutOrStdout(), dir, f)
			return err
		},
	}
	c.Flags().StringVar(&o.Scenario, "scenario", "", "scenario `file` with the checks to use")
	addRatchetFlags(c, &o.Ratchet)
	acceptFlag(c, &o.Accept)
	addBoundFlags(c, &bounds)
	addOutputFlags(c, &out)
	return c
}

func (a *app) reportCommand() *cobra.Command {
	var out session.Output
	var o session.ReportOptions
	c := &cobra.Command{
		Use:   "report RUN_DIR",
		Short: "Render the reports of a run again",
		Long: `Render the reports of a run from its record and verdict.

Without --format, write all report files of the run directory and print the text report. With --format,
write only that report, to standard output or --output.

An altered record or verdict gets a warning, and the exit code is 4 without --accept-altered.`,
		Example: `  leakrig report runs/watch-then-delete/20261120T140000Z
  leakrig report runs/watch-then-delete/20261120T140000Z --format html --output leak.html`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := out.Report()
			if err != nil {
				return err
			}
			dir := session.FindRun(args[0])
			if fleet.Is(dir) {
				a.code, err = fleet.Report(c.OutOrStdout(), dir, out.Format, o.Accept)
				return err
			}
			o.All = !c.Flags().Changed("format") && o.Output == ""
			a.code, err = o.Report(c.OutOrStdout(), dir, f)
			return err
		},
	}
	addOutputFlags(c, &out)
	c.Flags().StringVarP(&o.Output, "output", "o", "", "`file` to write to instead of standard output")
	acceptFlag(c, &o.Accept)
	return c
}

func addRatchetFlags(c *cobra.Command, r *session.Ratchet) {
	c.Flags().StringVar(&r.File, "ratchet", "", "verdict.json `file` or run directory; fail only on leaks that are new or worse")
	c.Flags().BoolVar(&r.Update, "update-ratchet", false, "store the verdict in the --ratchet file if it is not worse, or if there is no file yet")
}

func addOutputFlags(c *cobra.Command, o *session.Output) {
	var names []string
	for _, f := range reports.Formats() {
		names = append(names, f.Name)
	}
	wordFlag(c, &o.Format, "format", "text", names, "output format")
	c.Flags().BoolVarP(&o.Brief, "brief", "q", false, "print only the verdict line of the text report")
	c.Flags().BoolVarP(&o.Verbose, "verbose", "v", false, "print the gates of every check in the text report")
}
