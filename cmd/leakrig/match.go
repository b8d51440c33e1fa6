package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
)

type matchFlags struct {
	variant, probe, format string
	top                    int
	minShare               float64
	skeleton, accept       bool
}

func (a *app) matchCommand() *cobra.Command {
	var f matchFlags
	c := &cobra.Command{
		Use:   "match RUN_DIR PROFILE | --skeleton PROFILE",
		Short: "Compare a production profile with a run",
		Long: `Compare a goroutine profile, heap profile or goroutine dump (debug=2) from production with the stacks
that grew in a run. match prints which of these stacks the profile has, the share of the profile that
they explain, and the rest.

With --skeleton, print a scenario whose fingerprints are the largest stacks of the profile.`,
		Example: `  leakrig match runs/watch-then-delete/20261120T140000Z production.pb.gz
  leakrig match --skeleton production.txt > my-service.yaml`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: folderArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			switch {
			case f.skeleton != (len(args) == 1):
				return usage(c, errors.New("it takes a run directory and a profile, or --skeleton and a profile"))
			case f.skeleton:
				return printSkeleton(c.OutOrStdout(), args[0])
			}
			a.code, err = f.match(c.OutOrStdout(), leak.RunDir(args[0]), args[1])
			return err
		},
	}
	c.Flags().StringVar(&f.variant, "variant", "", "variant to compare with (default: the first that is expected to leak, or the first)")
	c.Flags().StringVar(&f.probe, "probe", "", "probe to compare with, such as containerd/goroutine (default: the only one with such stacks)")
	c.Flags().IntVar(&f.top, "top", 10, "number of explained and of unexplained stacks to print")
	c.Flags().Float64Var(&f.minShare, "min-share", 0, "minimum explained share; the exit code is 1 below it")
	c.Flags().BoolVar(&f.skeleton, "skeleton", false, "print a scenario for the profile")
	acceptFlag(c, &f.accept)
	wordFlag(c, &f.format, "format", "text", textFormats(), "output format")
	return c
}

func (f *matchFlags) match(out io.Writer, dir leak.RunDir, path string) (int, error) {
	if f.top < 0 || f.minShare < 0 || f.minShare > 1 {
		return 0, &leak.UsageError{Err: errors.New("--top must not be negative, --min-share is between 0 and 1")}
	}
	s, record, seal, err := session.ReadRun(dir, "", leak.OfRecord)
	if err != nil {
		return 0, err
	}
	session.WarnSeal(string(dir), seal, f.accept)
	v, err := f.chosen(s, record.Shown(checks.Judge(s, record)))
	if err != nil {
		return 0, err
	}
	production, err := profiles.Open(path)
	if err != nil {
		return 0, err
	}
	base, err := profiles.Recorded(v, &v.Snapshots[0], production.Source, f.probe)
	if err != nil {
		return 0, err
	}
	last, err := profiles.Recorded(v, v.Final(), production.Source, f.probe)
	if err != nil {
		return 0, err
	}
	grew, err := profiles.Diff(base, last)
	if err != nil {
		return 0, err
	}
	if operations := v.Final().Operations; operations > 0 {
		for i := range grew.Stacks {
			grew.Stacks[i].PerOperation = float64(grew.Stacks[i].To-grew.Stacks[i].From) / float64(operations)
		}
	}
	m, err := profiles.Match(grew, production)
	if err != nil {
		return 0, err
	}
	m.Variant = v.Name
	if f.format == "json" {
		m.Fit()
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		err = enc.Encode(m)
	} else {
		f.print(out, m)
	}
	if m.Share() < f.minShare {
		return leak.ExitNotMet, err
	}
	return session.SealedCode(leak.ExitMet, seal, f.accept), err
}

// chosen is the variant whose growth is looked for.
func (f *matchFlags) chosen(s *leak.Scenario, record *leak.Record) (*leak.VariantRecord, error) {
	name := f.variant
	for _, v := range s.Spec.Variants {
		if name == "" && v.Expect == leak.ExpectLeaking && record.Variant(v.Name) != nil {
			name = v.Name
		}
	}
	if name == "" && len(record.Variants) > 0 {
		name = record.Variants[0].Name
	}
	v := record.Variant(name)
	if v == nil {
		var names []string
		for _, v := range record.Variants {
			names = append(names, v.Name)
		}
		return nil, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--variant %s: the run has no such variant", name), "%s", scenarios.OneOf(name, names))}
	}
	if len(v.Snapshots) < 2 {
		return nil, fmt.Errorf("%s: no round was measured", v.Name)
	}
	return v, nil
}

func (f *matchFlags) print(out io.Writer, m *leak.Match) {
	value := func(n int64) string { return leak.FormatValue(float64(n), m.Unit) }
	share := func(n int64) string {
		return fmt.Sprintf("%5.1f %%", 100*float64(n)/float64(max(m.Total, 1)))
	}
	fmt.Fprintf(out, "%s of %s %s in production stand on stacks that grew in %s (%.0f %%)\n", value(m.Explained), value(m.Total), m.Unit, m.Variant, 100*m.Share())
	fmt.Fprintf(out, "\ngrew in the run\n")
	for i, s := range m.Stacks {
		if i == f.top {
			fmt.Fprintf(out, "  and %d more (--top)\n", len(m.Stacks)-i)
			break
		}
		fmt.Fprintf(out, "  %s  %s in production  %s/op in the run  %s\n           %s\n", share(s.Production), value(s.Production),
			leak.FormatRate(s.PerOperation, m.Unit), leak.Printable(s.Stack.String()), leak.Printable(s.Stack.Top().Position()))
	}
	fmt.Fprintf(out, "\nleft unexplained\n")
	for i, s := range m.Unexplained {
		if i == f.top {
			fmt.Fprintf(out, "  and %d more (--top)\n", len(m.Unexplained)-i)
			break
		}
		fmt.Fprintf(out, "  %s  %s  %s\n           %s\n", share(s.To), value(s.To), leak.Printable(s.Stack.String()), leak.Printable(s.Stack.Top().Position()))
	}
}

// skeletonStacks is how many fingerprints a skeleton has at most: a leak has a few stacks, not many.
const skeletonStacks = 3

// printSkeleton writes a scenario whose fingerprints are the largest stacks of a profile.
func printSkeleton(out io.Writer, path string) error {
	p, err := profiles.Open(path)
	if err != nil {
		return err
	}
	m, err := profiles.Match(&leak.Diff{Source: p.Source}, p) // nothing grew: all is left over, largest first
	if err != nil {
		return err
	}
	var names []string
	var checks strings.Builder
	for _, s := range m.Unexplained {
		frame, ok := telling(s.Stack)
		if !ok || len(names) == skeletonStacks || len(names) > 0 && 10*s.To < m.Total {
			continue // all fingerprints must show: only stacks that stand out are good for that
		}
		name := fmt.Sprintf("stack-%d", len(names)+1)
		names = append(names, name)
		fmt.Fprintf(&checks, "    # %s of %s %s in the profile\n    - stack:\n        name: %s\n        match: %s\n",
			leak.FormatValue(float64(s.To), m.Unit), leak.FormatValue(float64(m.Total), m.Unit), m.Unit, name, quoteYAML(regexp.QuoteMeta(frame.Func)))
		if s.Stack.State != "" {
			fmt.Fprintf(&checks, "        state: %s\n", quoteYAML(s.Stack.State))
		}
		if m.Unit == "bytes" {
			fmt.Fprint(&checks, "        probe: heap\n        maxPerOp: 1KiB\n")
		} else {
			fmt.Fprint(&checks, "        maxPerOp: 0.01\n")
		}
	}
	if len(names) == 0 {
		return errors.New("the profile has no stack outside of the standard library")
	}
	_, err = fmt.Fprintf(out, `apiVersion: leakrig.dev/v1
kind: Scenario
metadata:
  name: reproduction
  description: Made from a production profile; subject, load and what is expected are yours to fill in.
spec:
  subject:
    command: [./my-service] # or build: ./folder, or url: http://127.0.0.1:6060
  variants:
    - {name: current, expect: leaking, fingerprint: [%s]}
  round:
    - post: {path: /, times: 20, concurrency: 4} # what production was doing
  probes: [goroutine, heap, process]
  checks:
%s`, strings.Join(names, ", "), checks.String())
	return err
}

// telling is the innermost frame outside of the standard library.
func telling(s leak.Stack) (leak.Frame, bool) {
	for _, f := range s.Frames {
		if first, _, _ := strings.Cut(f.Package(), "/"); strings.Contains(first, ".") || first == "main" {
			return f, true
		}
	}
	return leak.Frame{}, false
}

// quoteYAML quotes any text for YAML.
func quoteYAML(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return strconv.QuoteToASCII(s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
