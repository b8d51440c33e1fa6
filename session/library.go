package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
)

// List prints the scenarios of the library.
func List(out io.Writer, format string) error {
	var all []listed
	for _, name := range scenarios.Names() {
		_, s, err := Open(name, nil)
		if err != nil {
			return err
		}
		l := listed{Name: name, Group: scenarios.Group(name), Description: s.Metadata.Description, Cluster: s.Spec.Cluster != nil}
		for _, v := range s.Spec.Variants {
			l.Variants = append(l.Variants, listedVariant{v.Name, v.Expect, v.When})
		}
		all = append(all, l)
	}
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		return enc.Encode(all)
	}
	return printList(out, all)
}

// printList prints each scenario with its variants, and then each group, with a line for each scenario.
func printList(out io.Writer, all []listed) error {
	slices.SortStableFunc(all, func(a, b listed) int { return strings.Compare(a.Group, b.Group) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	group := ""
	for _, l := range all {
		if l.Group != group {
			group = l.Group
			fmt.Fprintf(w, "\n%s:\n", group)
		}
		if group != "" {
			first, _, _ := strings.Cut(l.Description, ". ")
			fmt.Fprintf(w, "%s\t%s\n", l.Name, first)
			continue
		}
		var variants, further []string
		for _, v := range l.Variants {
			if v.When == leak.WhenFull {
				further = append(further, v.Name)
			} else {
				variants = append(variants, v.Name)
			}
		}
		fmt.Fprintf(w, "%s\t%s\n\tvariants: %s\n", l.Name, l.Description, strings.Join(variants, ", "))
		if len(further) > 0 {
			fmt.Fprintf(w, "\twith --all-variants: %s\n", strings.Join(further, ", "))
		}
	}
	return w.Flush()
}

// Validate loads scenarios and reports all problems.
func Validate(out io.Writer, names []string) error {
	var errs []error
	for _, name := range names {
		src, s, err := Open(name, nil)
		if err == nil {
			if err = errors.Join(Prepare(s, src), checks.Feasible(s, len(s.Spec.Variants))); err != nil {
				err = &leak.UsageError{Err: err}
			}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(out, "%s: ok\n", name)
	}
	return errors.Join(errs...)
}

// DescribeKinds prints the named kinds, or all.
func DescribeKinds(out io.Writer, names []string) error {
	all := describeAll()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(k kindDoc) bool { return k.name == name }) {
			return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("no such kind: %s", name), "%s", scenarios.OneOf(name, KindNames()))}
		}
	}
	for _, k := range all {
		if len(names) == 0 || slices.Contains(names, k.name) {
			k.print(out)
		}
	}
	return nil
}

// listed is a scenario of the library in `list --format json`.
type listed struct {
	Name string `json:"name"`
	// Group is its folder in the library, such as museum, or "".
	Group       string `json:"group,omitempty"`
	Description string `json:"description"`
	// Cluster is whether it needs one.
	Cluster  bool            `json:"cluster"`
	Variants []listedVariant `json:"variants"`
}

type listedVariant struct {
	Name   string           `json:"name"`
	Expect leak.Expectation `json:"expect"`
	When   string           `json:"when,omitempty"`
}

// describeAll documents all that a scenario may hold.
func describeAll() []kindDoc {
	all := append(describeFile(), describe("action", Kinds().Actions)...)
	for i, k := range Kinds().Actions {
		all[len(all)-len(Kinds().Actions)+i].fields = scenarios.ActionFields(k.New())
	}
	all = append(all, describe("probe", Kinds().Probes)...)
	all = append(all, describe("check", Kinds().Checks)...)
	return append(all, describe("provider", cluster.Kinds(cluster.Options{}))...)
}

// KindNames are the names that DescribeKinds takes.
func KindNames() []string {
	var names []string
	for _, k := range describeAll() {
		names = append(names, k.name)
	}
	return names
}

// kindDoc is the description of one kind.
type kindDoc struct {
	what, name, doc string
	metrics         []leak.Metric
	fields          []scenarios.Field
}

// describeFile documents what a scenario file holds around its kinds.
func describeFile() []kindDoc {
	s := scenarios.Defaults(Kinds())
	return []kindDoc{
		{what: "scenario", name: "metadata", doc: "Name and description of the scenario.", fields: scenarios.Fields(&s.Metadata)},
		{what: "scenario", name: "spec", doc: "The load, the measurement and the checks. Actions and checks may have a name.", fields: scenarios.Fields(&s.Spec)},
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
