package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/scaffold"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scenario files for editors",
		Long: `Print the JSON Schema (2020-12) of scenario files, for completion and checks in editors. leakrig init
writes a comment into scenarios that refers to the schema:

  # yaml-language-server: $schema=` + scaffold.SchemaFile,
		Example: "  leakrig schema > " + scaffold.SchemaFile,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := scenarios.Schema(session.Kinds())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), string(text))
			return err
		},
	}
}
