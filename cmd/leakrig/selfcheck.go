package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/session"
)

func (a *app) selfCheckCommand() *cobra.Command {
	f := &session.SelfCheck{Options: session.Options{Process: session.Process{Args: a.args, Version: version()}, Cluster: "auto", Times: 1}}
	c := &cobra.Command{
		Use:   "selfcheck",
		Short: "Test leakrig on this machine with planted leaks and look-alikes",
		Long: `Run the calibration suites: leaks of known size, and healthy look-alikes. The subject counts what it
retains, and selfcheck compares the measured sizes with that count.

A leak is found if its fingerprint leaks, and its measured size is within 5 %. A look-alike must never be called
leaking, but can be inconclusive. The floor is the smallest detectable growth on this machine.
subjects/calibration/defaults.yaml is a larger suite without bounds, which takes about an hour.`,
		Example: `  leakrig selfcheck
  leakrig selfcheck --suite calibration-rare --repeats 5
  leakrig selfcheck --suite subjects/calibration/defaults.yaml --parallel 2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			a.code, err = f.Check(c.Context(), c.OutOrStdout())
			return err
		},
	}
	suites := session.CalibrationSuites()
	c.Flags().IntVar(&f.Repeats, "repeats", 1, "number of runs of each suite")
	c.Flags().IntVar(&f.Parallel, "parallel", 1, "number of concurrent suites; a busy machine detects less")
	c.Flags().StringSliceVar(&f.Suites, "suite", suites, "suite or scenario file to run (repeatable)")
	c.Flags().StringSliceVar(&f.Variants, "variant", nil, "variant to run (repeatable)")
	c.Flags().StringVar(&f.RunsDir, "runs-dir", "", "`folder` to keep the run directories in")
	c.Flags().StringVar(&f.Source, "source", "", "checkout with subjects/ (default: the one around the current folder, otherwise the sources in leakrig)")
	wordFlag(c, &f.Format, "format", "text", textFormats(), "output format")
	completeFlag(c, "suite", suites)
	completeWith(c, "variant", func([]string) []string { return variantsOf(f.Suites) })
	completeFolders(c, "runs-dir", "source")
	return c
}
