package bisect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/subjects"
)

// maxCandidates bounds a search: more are a mistake, such as the whole of a large repository.
const maxCandidates = 20_000

// begin makes the record of a new search, with the resolved candidates.
func (b *Bisection) begin(ctx context.Context, s *leak.Scenario, progress leak.Progress) (*Record, error) {
	record := &Record{
		Schema: Schema, Scenario: s.Metadata.Name, Leakrig: b.Version, Args: b.Args,
		Started: time.Now().UTC().Truncate(time.Millisecond), Steps: []Step{},
	}
	var err error
	if b.Question.Kind == OfCommit {
		err = b.commits(ctx, record)
	} else {
		err = b.versions(ctx, record, progress)
	}
	if err != nil {
		return nil, err
	}
	record.Question = b.Question
	if n := len(record.Candidates); n > maxCandidates {
		return nil, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("%d candidates are too many", n), "choose --good and --bad nearer to each other")}
	}
	progress.Log("%d candidates, at most %d steps if all are decided", len(record.Candidates), record.Budget())
	return record, nil
}

// buildEnds reports an end that does not build before anything boots.
func (w *bench) buildEnds(ctx context.Context, record *Record) error {
	if w.Question.AllLines {
		return nil // a line begins with the first version that can be had
	}
	for _, end := range []string{w.Question.Bad, w.Question.Good} {
		c := record.Candidates[slices.IndexFunc(record.Candidates, func(c Candidate) bool { return c.Version == end })]
		w.progress.Status("%s: building", c.Name())
		_, err := w.works.get(ctx, c)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s, an end of the range: %w", c.Name(), err)
		var usage *leak.UsageError
		if ctx.Err() == nil && !errors.As(err, &usage) {
			err = leak.WithHint(err, "choose another end, or run this one alone: `%s`", w.Question.Command(end))
		}
		return err
	}
	return nil
}

// versions are the candidates among the versions of a module.
func (b *Bisection) versions(ctx context.Context, record *Record, progress leak.Progress) error {
	q := b.Question
	progress.Status("asking for the versions of %s", q.Module)
	words := slices.Concat([]string{q.Bad, q.Good}, q.Given)
	listed, err := subjects.Versions(ctx, q.Module)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		// The ends and the given candidates may be available without a list.
		progress.Log("no list of versions: %s", session.FirstLine(err.Error()))
	}
	for _, v := range listed {
		switch {
		case !Within(v, q.Bad, q.Good) || slices.Contains(words, v):
		case IsPre(v) && !q.Pre:
			record.LeftOut = append(record.LeftOut, Missing{Version: v, Why: "a pre-release (--pre takes them)"})
		default:
			words = append(words, v)
		}
	}
	for _, v := range q.Given {
		if !Within(v, q.Bad, q.Good) {
			return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--candidates %s: not between %s and %s", v, q.Bad, q.Good), "the search looks at nothing outside its ends")}
		}
	}
	words = Sort(words)
	progress.Status("resolving %d versions of %s", len(words), q.Module)
	var asked []leak.Module
	each := 0
	for _, v := range words {
		// A pattern is expanded at build time.
		exact := slices.DeleteFunc(b.modules(v), func(m leak.Module) bool { return strings.HasSuffix(m.Path, "*") })
		asked, each = append(asked, exact...), len(exact)
	}
	resolved, err := subjects.Resolve(ctx, asked)
	if err != nil {
		return err
	}
	for i, v := range words {
		var problems []string
		all := resolved[i*each : (i+1)*each]
		for _, l := range all {
			if l.Problem != "" {
				problems = append(problems, l.Problem)
			}
		}
		end := v == q.Bad || v == q.Good
		switch retracted := all[0].Retracted; {
		case len(problems) > 0 && end:
			return leak.WithHint(fmt.Errorf("%s, an end of the range, is unavailable: %s", v, problems[0]), "can the Go module proxy be reached, and does it have that version? `go list -m -versions %s` shows what it lists", q.Module)
		case len(problems) > 0:
			record.Missing = append(record.Missing, Missing{Version: v, Why: problems[0]})
		case retracted != "" && !end:
			record.LeftOut = append(record.LeftOut, Missing{Version: v, Why: "retracted: " + retracted})
		default:
			when, _ := time.Parse(time.RFC3339, all[0].Time) // only for people
			record.Candidates = append(record.Candidates, Candidate{Version: v, Line: Line(v), Time: when})
		}
	}
	return nil
}

// commits are the candidates among the commits of a repository.
func (b *Bisection) commits(ctx context.Context, record *Record) error {
	all, err := b.repo.Between(ctx, b.ends[0], b.ends[1])
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &leak.UsageError{Err: err}
	}
	for _, c := range all {
		record.Candidates = append(record.Candidates, Candidate{Version: c.Hash, Title: strings.TrimSpace(c.Title), Time: c.Time})
	}
	return nil
}
