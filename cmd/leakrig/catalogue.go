package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/session"
)

func listCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios of the library",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c.OutOrStdout(), format)
		},
	}
	wordFlag(c, &format, "format", "text", textFormats(), "output format")
	return c
}

func validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "validate FILE|NAME...",
		Short:   "Check scenario files and report all problems",
		Example: "  leakrig validate my-service.yaml",
		Args:    cobra.MinimumNArgs(1),

		ValidArgsFunction: scenarioArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return session.Validate(c.OutOrStdout(), args)
		},
	}
}

func kindsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kinds [NAME...]",
		Short: "Describe the fields, actions, probes, checks and providers of scenarios",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return session.KindNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			return session.DescribeKinds(c.OutOrStdout(), args)
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintf(c.OutOrStdout(), "leakrig %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
