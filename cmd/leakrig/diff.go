package main

import (
	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/compare"
)

func (a *app) diffCommand() *cobra.Command {
	var f compare.DiffOptions
	c := &cobra.Command{
		Use:   "diff BASE NOW",
		Short: "Compare two profiles or heap dumps, stack by stack",
		Long: `Compare two goroutine profiles, heap profiles or goroutine dumps (debug=2), gzipped or not. diff pairs
stacks by wait state, functions and creator. For profiles of different builds, it uses names that do
not depend on the compiler version, inlining or line numbers.

For two heap dumps of one process, diff also prints who holds the memory that grew.

With --max, the exit code is 1 if a stack gained more than that.`,
		Example: `  leakrig diff before.pb.gz after.pb.gz
  leakrig diff before.pb.gz after.pb.gz --html what-changed.html
  leakrig diff monday.txt friday.txt --operations 5000 --max 10
  leakrig diff before.dump after.dump --binary ./server`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.code, err = f.Diff(c.OutOrStdout(), args[0], args[1])
			return err
		},
	}
	c.Flags().IntVar(&f.Operations, "operations", 0, "number of operations between the profiles, for growth per operation")
	c.Flags().IntVar(&f.Top, "top", 10, "number of growing and of shrinking stacks to print")
	c.Flags().BoolVar(&f.Whole, "whole", false, "print whole stacks")
	c.Flags().StringVar(&f.Max, "max", "", "maximum gain of one stack, such as 10 or 2MiB (default: no limit)")
	c.Flags().StringVar(&f.HTML, "html", "", "`file` for a page with a flame graph of the change and all stacks")
	c.Flags().StringVar(&f.Binary, "binary", "", "`file` of the dumped program, for names and types in heap dumps")
	wordFlag(c, &f.Format, "format", "text", textFormats(), "output format")
	return c
}
