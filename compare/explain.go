package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/subjects"
)

// ExplainOptions are the flags of `leakrig explain`.
type ExplainOptions struct {
	session.Endpoint
	Binary, Format string
	Top            int
	Accept         bool
}

// mostDumped is the number of goroutines of a process up to which explain takes a text dump, which stops the process.
const mostDumped = 20_000

// Explain prints which known leaks and patterns match the stacks of a profile, a process or a run, and returns the exit
// code.
func (f *ExplainOptions) Explain(ctx context.Context, out io.Writer, source string) (int, error) {
	if f.Top < 0 {
		return 0, &leak.UsageError{Err: errors.New("--top must not be negative")}
	}
	inputs, code, err := f.inputs(ctx, source)
	if err != nil {
		return 0, err
	}
	var binary *leak.SubjectInfo
	if f.Binary != "" {
		if binary, err = readBinary(f.Binary); err != nil {
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
	if f.Format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		return code, enc.Encode(explanations)
	}
	if len(explanations) == 0 {
		_, err = fmt.Fprintln(out, "no variant of the run grew")
		return code, err
	}
	return code, reports.Explain(out, explanations, f.Top)
}

// inputs reads the stacks of a file, a running process or a run.
func (f *ExplainOptions) inputs(ctx context.Context, source string) ([]catalogue.Input, int, error) {
	if strings.Contains(source, "://") {
		inputs, err := f.readProcess(ctx, source)
		return inputs, leak.ExitMet, err
	}
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		dir := session.FindRun(source)
		if inputs, err := ofFleet(dir); len(inputs) > 0 || err != nil {
			return inputs, leak.ExitMet, err
		}
		return f.readGrowth(dir)
	}
	p, err := profiles.Open(source)
	if err != nil {
		return nil, 0, err
	}
	return []catalogue.Input{explained(source, p)}, leak.ExitMet, nil
}

// ofFleet reads the stacks that leak in a fleet, none if the run directory has no such profiles.
func ofFleet(dir rundir.Dir) ([]catalogue.Input, error) {
	var inputs []catalogue.Input
	for _, unit := range []string{"goroutines", "bytes"} {
		path := dir.Path(rundir.GrowthFile(unit))
		p, err := profiles.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in := explained(path, p)
		in.Grew, in.Leaking = true, true
		inputs = append(inputs, in)
	}
	return inputs, nil
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
func (f *ExplainOptions) readProcess(ctx context.Context, address string) ([]catalogue.Input, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, &leak.UsageError{Err: errors.New("not a URL")} // the reason may contain a password
	}
	if base, ok := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), f.Pprof); ok && u.Scheme != "unix" {
		u.Path = base
	}
	target, err := subjects.Remote(u.String(), f.Pprof, f.Access())
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
				inputs = append(inputs, explained(rundir.ShownURL(u)+" "+reading.Sample.Probe, p))
				break
			}
		}
	}
	if p, err := subjects.Behind(ctx, u.String(), f.Pprof, f.Access(), 0); err == nil {
		if binary, err := readBinary(filepath.Join(p.Dir(), "exe")); err == nil {
			for i := range inputs {
				inputs[i].Binary = binary
			}
		}
	}
	return inputs, nil
}

// readGrowth reads the stacks that grew in the variants of a run.
func (f *ExplainOptions) readGrowth(dir rundir.Dir) ([]catalogue.Input, int, error) {
	s, record, seal, err := session.ReadRun(dir, "", rundir.OfRecord)
	if err != nil {
		return nil, 0, err
	}
	session.WarnSeal(string(dir), seal, f.Accept)
	verdict := checks.Judge(s, record)
	record = record.Shown(verdict)
	var inputs []catalogue.Input
	for i := range verdict.Variants {
		if v := record.Variant(verdict.Variants[i].Variant); v != nil {
			inputs = append(inputs, catalogue.Growth(v, &verdict.Variants[i])...)
		}
	}
	return inputs, session.SealedCode(leak.ExitMet, seal, f.Accept), nil
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
