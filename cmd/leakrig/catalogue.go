package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scenarios of the library",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, name := range scenarios.Names() {
				_, s, err := open(name, nil)
				if err != nil {
					return err
				}
				var variants []string
				for _, v := range s.Spec.Variants {
					variants = append(variants, v.Name)
				}
				fmt.Fprintf(w, "%s\t%s\n\tvariants: %s\n", name, s.Metadata.Description, strings.Join(variants, ", "))
			}
			return w.Flush()
		},
	}
}

func validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "validate FILE|NAME...",
		Short:   "Check scenario files, and tell all problems at once",
		Example: "  leakrig validate my-service.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				src, s, err := open(name, nil)
				if err == nil {
					if err = errors.Join(prepare(s, src), checks.Feasible(s, len(s.Spec.Variants))); err != nil {
						err = &leak.UsageError{Err: err}
					}
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: ok\n", name)
			}
			return errors.Join(errs...)
		},
	}
}

func kindsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kinds [NAME...]",
		Short: "Describe all that a scenario may hold: its fields, actions, probes, checks and providers",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			all := append(describeFile(), describe("action", kinds().Actions)...)
			all = append(all, describe("probe", kinds().Probes)...)
			all = append(all, describe("check", kinds().Checks)...)
			all = append(all, describe("provider", cluster.Kinds(cluster.Options{}))...)
			shown := 0
			for _, k := range all {
				if len(args) == 0 || slices.Contains(args, k.name) {
					k.print(c.OutOrStdout())
					shown++
				}
			}
			if shown < len(args) || shown == 0 {
				return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("no such kind among: %s", strings.Join(args, ", ")), "leakrig kinds lists them all")}
			}
			return nil
		},
	}
}

// kindDoc is the description of one kind.
type kindDoc struct {
	what, name, doc string
	metrics         []leak.Metric
	fields          []scenarios.Field
}

// describeFile documents what a scenario file holds around its kinds.
func describeFile() []kindDoc {
	s := scenarios.Defaults(kinds())
	return []kindDoc{
		{what: "scenario", name: "metadata", doc: "What the scenario is called.", fields: scenarios.Fields(&s.Metadata)},
		{what: "scenario", name: "spec", doc: "What is run, and what it is held to. An action or a check may carry a name: of its own.", fields: scenarios.Fields(&s.Spec)},
	}
}

func describe[T any](what string, list []leak.Kind[T]) []kindDoc {
	var docs []kindDoc
	for _, k := range list {
		docs = append(docs, kindDoc{what, k.Name, k.Doc, k.Metrics, scenarios.Fields(k.New())})
	}
	return docs
}

func (k kindDoc) print(out io.Writer) {
	fmt.Fprintf(out, "%s %s\n    %s\n", k.what, k.name, k.doc)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range k.fields {
		text := f.Doc
		if f.Default != "" && !strings.Contains(f.Doc, "(default") {
			text += " (default " + f.Default + ")"
		}
		fmt.Fprintf(w, "    %s\t%s\t%s\n", f.Name, f.Type, text)
	}
	for _, m := range k.metrics {
		fmt.Fprintf(w, "    metric %s\t%s\t%s\n", m.Name, m.Unit, m.Doc)
	}
	w.Flush()
	fmt.Fprintln(out)
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
