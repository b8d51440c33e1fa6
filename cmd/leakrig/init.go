package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/scaffold"
)

func initCommand() *cobra.Command {
	var s scaffold.Start
	c := &cobra.Command{
		Use:   "init NAME",
		Short: "Write a commented scenario, and optionally a subject",
		Long: `Write NAME.yaml, a commented scenario for a program that serves net/http/pprof, and its schema for
editors. With --subject, also write a small service with an optional leak into the folder NAME. The
scenario then runs without changes.

init does not overwrite files.`,
		Example: `  leakrig init my-service
  leakrig init my-service --url http://127.0.0.1:6060
  leakrig init try-it --subject && leakrig run ./try-it.yaml`,
		Args: cobra.ExactArgs(1),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			s.Name = args[0]
			if s.Subject && s.URL != "" {
				return usage(c, errors.New("--subject and --url: a program is either written or runs already"))
			}
			return s.Write(c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&s.Subject, "subject", false, "also write a small service into the folder NAME")
	c.Flags().StringVar(&s.URL, "url", "", "address of a running program, instead of a command")
	c.Flags().StringVar(&s.Dir, "dir", ".", "`folder` to write to")
	completeFolders(c, "dir")
	return c
}
