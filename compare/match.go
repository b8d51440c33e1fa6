package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

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
	variants, err := f.chosen(s, record.Shown(checks.Judge(s, record)))
	if err != nil {
		return 0, err
	}
	production, err := profiles.Open(path)
	if err != nil {
		return 0, err
	}
	m, err := f.best(variants, production)
	if err != nil {
		return 0, err
	}
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

// best compares a profile with each variant and returns the match that explains most of it. Among equals it is the
// first one.
func (f *MatchOptions) best(variants []*leak.VariantRecord, production *profiles.Profile) (*leak.Match, error) {
	var best *leak.Match
	var tried []leak.MatchedVariant
	var errs []error
	for _, v := range variants {
		m, err := f.explain(v, production)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.Name, err))
			tried = append(tried, leak.MatchedVariant{Variant: v.Name, Problem: err.Error()})
			continue
		}
		tried = append(tried, leak.MatchedVariant{Variant: v.Name, Explained: m.Explained})
		if best == nil || m.Explained > best.Explained {
			best = m
		}
	}
	if best == nil {
		return nil, errors.Join(errs...)
	}
	best.Variants = tried
	return best, nil
}

// explain compares a profile with what grew in one variant.
func (f *MatchOptions) explain(v *leak.VariantRecord, production *profiles.Profile) (*leak.Match, error) {
	if len(v.Snapshots) < 2 {
		return nil, errors.New("no round was measured")
	}
	base, err := profiles.Recorded(v, &v.Snapshots[0], production.Source, f.Probe)
	if err != nil {
		return nil, err
	}
	last, err := profiles.Recorded(v, v.Final(), production.Source, f.Probe)
	if err != nil {
		return nil, err
	}
	grew, err := profiles.Diff(base, last)
	if err != nil {
		return nil, err
	}
	if operations := v.Final().Operations; operations > 0 {
		for i := range grew.Stacks {
			grew.Stacks[i].PerOperation = float64(grew.Stacks[i].To-grew.Stacks[i].From) / float64(operations)
		}
	}
	m, err := profiles.Match(grew, production)
	if err == nil {
		m.Variant = v.Name
	}
	return m, err
}

// chosen returns the named variant or, without a name, all of them, those that are expected to leak first.
func (f *MatchOptions) chosen(s *leak.Scenario, record *leak.Record) ([]*leak.VariantRecord, error) {
	if f.Variant != "" {
		if v := record.Variant(f.Variant); v != nil {
			return []*leak.VariantRecord{v}, nil
		}
		var names []string
		for _, v := range record.Variants {
			names = append(names, v.Name)
		}
		return nil, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--variant %s: the run has no such variant", f.Variant), "%s", scenarios.OneOf(f.Variant, names))}
	}
	var leaking, others []*leak.VariantRecord
	for i := range record.Variants {
		v := &record.Variants[i]
		expected := slices.ContainsFunc(s.Spec.Variants, func(one leak.Variant) bool { return one.Name == v.Name && one.Expect == leak.ExpectLeaking })
		if expected {
			leaking = append(leaking, v)
		} else {
			others = append(others, v)
		}
	}
	if len(leaking)+len(others) == 0 {
		return nil, errors.New("the run has no variant")
	}
	return append(leaking, others...), nil
}
