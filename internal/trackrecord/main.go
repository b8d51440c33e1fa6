// Command trackrecord updates the table of known leaks in docs/track-record.md from the catalogue and the newest runs of
// its scenarios, as `leakrig run --all` leaves them:
//
//	go run ./internal/trackrecord RUNS_DIR
//
// A leak whose scenario has no run there keeps its row. The command fails for a run that is not as expected, and if
// `leakrig explain` does not name the entry first for the leaking variant, or a known leak for a clean one.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/compare"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/session"
)

const (
	page  = "docs/track-record.md"
	begin = "<!-- known leaks: go run ./internal/trackrecord RUNS_DIR -->\n"
	end   = "<!-- end of known leaks -->\n"
	head  = `| leak | issue | module | leaky, per operation | fixed, per operation | operations | last reproduced | command |
| --- | --- | --- | --- | --- | --- | --- | --- |
`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/trackrecord RUNS_DIR")
		os.Exit(2)
	}
	if err := update(page, os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "trackrecord: %v\n", err)
		os.Exit(1)
	}
}

// update rewrites the table of the page, also if some runs are not as they should be.
func update(page, runs string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q", page, begin, end)
	}
	var table strings.Builder
	table.WriteString(head)
	var errs []error
	for _, e := range catalogue.All() {
		if !e.Leak() || e.Scenario == "" {
			continue
		}
		row, err := rowOf(e, runs)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.ID, err))
		}
		if row == "" {
			row = kept(old, e.ID)
		}
		table.WriteString(row)
	}
	return errors.Join(append(errs, os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644))...)
}

// kept is the row that the page has for a leak, "" if it has none.
func kept(table, id string) string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| "+id+" |") {
			return line
		}
	}
	return ""
}

// rowOf is the row of a leak from its newest run, "" if it has none.
func rowOf(e *catalogue.Entry, runs string) (string, error) {
	dirs, err := filepath.Glob(filepath.Join(runs, e.Scenario, "2*Z*"))
	if err != nil || len(dirs) == 0 {
		return "", err
	}
	dir := rundir.Dir(slices.Max(dirs))
	s, record, seal, err := session.ReadRun(dir, "", rundir.OfRecord)
	if err != nil {
		return "", err
	}
	if !seal.Holds() {
		return "", fmt.Errorf("%s: %s", dir, seal)
	}
	verdict := checks.Judge(s, record)
	if verdict.Result != leak.Met {
		return "", fmt.Errorf("%s is %s", dir, verdict.Result)
	}
	leaky, fixed := pair(verdict)
	if leaky == nil || fixed == nil {
		return "", fmt.Errorf("%s has no leaking and clean variant", dir)
	}
	if err := errors.Join(explained(e, string(dir)), notExplained(dir, fixed.Variant)); err != nil {
		return "", err
	}
	return fmt.Sprintf("| %s | [%s](%s) | %s %s → %s | %s | %s | %d | %s | `leakrig run %s` |\n",
		e.ID, e.Reference(), e.Links[0], e.Module, version(record, leaky.Variant, e.Module), version(record, fixed.Variant, e.Module),
		growth(leaky), growth(fixed), operations(leaky), record.Started.UTC().Format("2006-01-02"), e.Scenario), nil
}

// pair are the first variant that is expected to leak, and the first that is expected to be clean.
func pair(v *leak.Verdict) (leaky, fixed *leak.VariantVerdict) {
	for i := range v.Variants {
		switch x := &v.Variants[i]; {
		case x.Expect == leak.ExpectLeaking && leaky == nil:
			leaky = x
		case x.Expect == leak.ExpectClean && fixed == nil:
			fixed = x
		}
	}
	return leaky, fixed
}

// version is that of a module in the program of a variant, or in one of its components.
func version(r *leak.Record, variant, module string) string {
	v := r.Variant(variant)
	for _, binary := range append([]leak.SubjectInfo{v.Subject}, components(v)...) {
		for _, m := range binary.Modules {
			if m.Path == module {
				return m.Version
			}
		}
	}
	return "–"
}

func components(v *leak.VariantRecord) []leak.SubjectInfo {
	var all []leak.SubjectInfo
	for _, c := range v.Components {
		all = append(all, c.SubjectInfo)
	}
	return all
}

// growth is the growth of each metric that leaks, or else of each stack. It is "0" if none does.
func growth(v *leak.VariantVerdict) string {
	for _, metrics := range []bool{true, false} {
		var parts []string
		for _, f := range v.Findings {
			if f.Outcome == leak.Leaking && (f.Series != "" && f.Kind == "growth") == metrics {
				parts = append(parts, strings.TrimSuffix(display.Rate(f.PerOperation, f.Unit)+" "+f.Unit, " bytes"))
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, ", ")
		}
	}
	return "0"
}

func operations(v *leak.VariantVerdict) int {
	most := 0
	for _, f := range v.Findings {
		for _, p := range f.Points {
			most = max(most, p.Operations)
		}
	}
	return most
}

// explained fails unless the entry comes first in a part of what has grown, or after entries of the same scenario.
func explained(e *catalogue.Entry, run string) error {
	all, err := explain(run)
	if err != nil {
		return err
	}
	for _, x := range all {
		for _, m := range x.Matches {
			if m.Status != catalogue.KnownLeak || m.Scenario != e.Scenario {
				break
			}
			if m.ID == e.ID {
				return nil
			}
		}
	}
	return fmt.Errorf("explain %s does not name it first", run)
}

// notExplained fails if a profile of the last round of a clean variant shows a known leak.
func notExplained(dir rundir.Dir, variant string) error {
	files, err := filepath.Glob(dir.Path(variant, "idle", "*.pb.gz"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no profiles of %s after idling: %w", dir, variant, err)
	}
	for _, file := range files {
		all, err := explain(file)
		if err != nil {
			return err
		}
		for _, x := range all {
			for _, m := range x.Matches {
				if m.Status == catalogue.KnownLeak {
					return fmt.Errorf("explain %s: %s", file, m.Sentence())
				}
			}
		}
	}
	return nil
}

func explain(source string) ([]struct{ Matches []catalogue.Match }, error) {
	var out bytes.Buffer
	o := compare.ExplainOptions{Format: "json"}
	if _, err := o.Explain(context.Background(), &out, source); err != nil {
		return nil, err
	}
	var all []struct{ Matches []catalogue.Match }
	return all, json.Unmarshal(out.Bytes(), &all)
}
