package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/subjects"
)

type explainFlags struct {
	endpoint
	binary, format string
	top            int
	accept         bool
}

// mostDumped is the number of goroutines of a process up to which explain takes a text dump, which stops the process.
const mostDumped = 20_000

func (a *app) explainCommand() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain PROFILE|DUMP|URL|RUN_DIR",
		Short: "Find known leaks and leak patterns in a profile",
		Long: `Compare the stacks of a goroutine profile, heap profile, goroutine dump (debug=2), running process or
run with a catalogue of known leaks and patterns. For each match, explain prints how much it explains,
whether the version in use is affected, the version with the fix, the caller in your code, and what to
look for. It lists the other stacks by wait state and place.

The version is that of --binary, of the process on this machine behind URL, of the run, or in the file
names of the profile.`,
		Example: `  leakrig explain production.txt --binary ./my-service
  leakrig explain http://127.0.0.1:6060
  leakrig explain runs/watch-then-delete/20261120T140000Z`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.code, err = f.explain(c, args[0])
			return err
		},
	}
	c.Flags().StringVar(&f.binary, "binary", "", "Go binary that the profile is from, for the versions of its modules")
	c.Flags().IntVar(&f.top, "top", 10, "number of stacks outside the catalogue to print")
	f.endpoint.addFlags(c)
	acceptFlag(c, &f.accept)
	wordFlag(c, &f.format, "format", "text", textFormats(), "output format")
	return c
}

func (f *explainFlags) explain(c *cobra.Command, source string) (int, error) {
	if f.top < 0 {
		return 0, &leak.UsageError{Err: errors.New("--top must not be negative")}
	}
	inputs, code, err := f.inputs(c.Context(), source)
	if err != nil {
		return 0, err
	}
	var binary *leak.SubjectInfo
	if f.binary != "" {
		if binary, err = readBinary(f.binary); err != nil {
			return 0, err
		}
	}
	explanations := []*catalogue.Explanation{}
	for _, in := range inputs {
		if binary != nil {
			in.Binary = binary
		}
		explanations = append(explanations, catalogue.Explain(in))
	}
	if f.format == "json" {
		out := json.NewEncoder(c.OutOrStdout())
		out.SetIndent("", " ")
		return code, out.Encode(explanations)
	}
	if len(explanations) == 0 {
		_, err = fmt.Fprintln(c.OutOrStdout(), "no variant of the run grew")
		return code, err
	}
	return code, reports.Explain(c.OutOrStdout(), explanations, f.top)
}

// inputs reads the stacks of a file, a running process or a run.
func (f *explainFlags) inputs(ctx context.Context, source string) ([]catalogue.Input, int, error) {
	if strings.Contains(source, "://") {
		inputs, err := f.readProcess(ctx, source)
		return inputs, leak.ExitMet, err
	}
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		return f.readGrowth(leak.RunDir(source))
	}
	p, err := profiles.Open(source)
	if err != nil {
		return nil, 0, err
	}
	return []catalogue.Input{explained(source, p)}, leak.ExitMet, nil
}

// explained is a profile as the catalogue reads it.
func explained(title string, p *profiles.Profile) catalogue.Input {
	in := catalogue.Input{Title: title, Unit: p.Unit()}
	for _, g := range p.Groups {
		in.Stacks = append(in.Stacks, catalogue.Amount{Stack: p.Stacks[g.Stack], N: p.Amount(g), OldestMinutes: g.OldestMinutes})
	}
	return in
}

// readProcess reads the goroutines and the heap of a running process.
func (f *explainFlags) readProcess(ctx context.Context, address string) ([]catalogue.Input, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, &leak.UsageError{Err: errors.New("not a URL")} // the reason may contain a password
	}
	if base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), f.Pprof); ok && u.Scheme != "unix" {
		u.Path = base
	}
	target, err := subjects.Remote(u.String(), f.Pprof, f.access())
	if err != nil {
		return nil, &leak.UsageError{Err: err}
	}
	var inputs []catalogue.Input
	for _, probe := range []leak.Probe{&profiles.Goroutine{DumpLimit: mostDumped}, &profiles.Heap{}} {
		reading, err := probe.Sample(ctx, target)
		if err != nil {
			return nil, err
		}
		for _, source := range []string{profiles.SourceDump, profiles.SourceProfile, profiles.SourceHeap} {
			if groups, ok := reading.Sample.Groups[source]; ok { // the first has the most information
				p := &profiles.Profile{Source: source, Groups: groups, Stacks: reading.Stacks}
				inputs = append(inputs, explained(leak.ShownURL(u)+" "+reading.Sample.Probe, p))
				break
			}
		}
	}
	if p, err := subjects.Behind(ctx, u.String(), f.Pprof, f.access(), 0); err == nil {
		if binary, err := readBinary(filepath.Join(p.Dir(), "exe")); err == nil {
			for i := range inputs {
				inputs[i].Binary = binary
			}
		}
	}
	return inputs, nil
}

// readGrowth reads the stacks that grew in the variants of a run.
func (f *explainFlags) readGrowth(dir leak.RunDir) ([]catalogue.Input, int, error) {
	s, record, seal, err := readRun(dir, "", leak.OfRecord)
	if err != nil {
		return nil, 0, err
	}
	warnSeal(string(dir), seal, f.accept)
	verdict := checks.Judge(s, record)
	record = record.Shown(verdict)
	var inputs []catalogue.Input
	for i := range verdict.Variants {
		if v := record.Variant(verdict.Variants[i].Variant); v != nil {
			inputs = append(inputs, catalogue.Growth(v, &verdict.Variants[i])...)
		}
	}
	return inputs, sealedCode(leak.ExitMet, seal, f.accept), nil
}

// readBinary reads the versions of the modules in a Go binary.
func readBinary(path string) (*leak.SubjectInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info := leak.ReadBinary(file)
	if info.GoVersion == "" {
		return nil, leak.WithHint(fmt.Errorf("%s: not a Go binary with build information", path), "`go version -m %s` shows it", path)
	}
	return &info, nil
}
