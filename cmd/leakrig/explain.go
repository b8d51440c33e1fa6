package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/compare"
)

func (a *app) explainCommand() *cobra.Command {
	var f compare.ExplainOptions
	c := &cobra.Command{
		Use:   "explain PROFILE|DUMP|URL|RUN_DIR",
		Short: "Find known leaks and leak patterns in a profile",
		Long: `Compare the stacks of a goroutine profile, heap profile, goroutine dump (debug=2), running process, run
or fleet with a catalogue of known leaks and patterns. For each match, explain prints how much it explains,
whether the version in use is affected, and the version with the fix. It also prints the caller in your
code and what to look for. It lists the other stacks by wait state and place.

explain takes the version from --binary, the process on this machine behind URL, the run, or the file
names in the profile.`,
		Example: `  leakrig explain production.txt --binary ./my-service
  leakrig explain http://127.0.0.1:6060
  leakrig explain runs/watch-then-delete/20261120T140000Z`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.code, err = f.Explain(c.Context(), c.OutOrStdout(), args[0])
			return err
		},
	}
	c.Flags().StringVar(&f.Binary, "binary", "", "Go binary that the profile is from, for the versions of its modules")
	c.Flags().IntVar(&f.Top, "top", 10, "number of stacks outside the catalogue to print")
	addEndpointFlags(c, &f.Endpoint)
	acceptFlag(c, &f.Accept)
	wordFlag(c, &f.Format, "format", "text", textFormats(), "output format")
	return c
}
