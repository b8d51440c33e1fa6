package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
)

// MatchOptions are the flags of `leakrig match`.
type MatchOptions struct {
	Variant, Probe, Format string
	Top                    int
	MinShare               float64
	Accept                 bool
}

// Match prints how much of a production profile the stacks explain that grew in a run, and returns the exit code.
func (f *MatchOptions) Match(out io.Writer, dir rundir.Dir, path string) (int, error) {
	if f.Top < 0 || f.MinShare < 0 || f.MinShare > 1 {
		return 0, &leak.UsageError{Err: errors.New("--top must not be negative, --min-share is between 0 and 1")}
	}
	s, record, seal, err := session.ReadRun(dir, "", rundir.OfRecord)
	if err != nil {
		return 0, err
	}
	session.WarnSeal(string(dir), seal, f.Accept)
	v, err := f.chosen(s, record.Shown(checks.Judge(s, record)))
	if err != nil {
		return 0, err
	}
	production, err := profiles.Open(path)
	if err != nil {
		return 0, err
	}
	base, err := profiles.Recorded(v, &v.Snapshots[0], production.Source, f.Probe)
	if err != nil {
		return 0, err
	}
	last, err := profiles.Recorded(v, v.Final(), production.Source, f.Probe)
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
	if f.Format == "json" {
		m.Fit()
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		err = enc.Encode(m)
	} else {
		reports.MatchText(out, m, f.Top)
	}
	if m.Share() < f.MinShare {
		return leak.ExitNotMet, err
	}
	return session.SealedCode(leak.ExitMet, seal, f.Accept), err
}

// chosen is the variant whose growth is looked for.
func (f *MatchOptions) chosen(s *leak.Scenario, record *leak.Record) (*leak.VariantRecord, error) {
	name := f.Variant
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
