package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
)

// PruneRule selects run directories to remove: older than Days (a soak since its last round), not among the Last newest
// of their scenario, and not the newest of their scenario with their result.
type PruneRule struct{ Days, Last int }

// DefaultRule keeps runs of the last 30 days, and the last ten runs of each scenario.
func DefaultRule() PruneRule { return PruneRule{Days: 30, Last: 10} }

// Clean removes the old run directories below dir, and updates the page of all runs. With dry, it only lists them.
func (p PruneRule) Clean(ctx context.Context, out io.Writer, dir string, dry bool) error {
	if p.Days < 1 || p.Last < 1 {
		return &leak.UsageError{Err: leak.WithHint(errors.New("--keep-days and --keep-last must be 1 or more"), "a run that goes on now is never older than a day")}
	}
	if _, err := os.Stat(dir); err != nil {
		return leak.WithHint(fmt.Errorf("prune: %w", err), "the folder is the one that `leakrig run --runs-dir` was given")
	}
	if dry {
		return dryPrune(ctx, out, dir, p)
	}
	unlock, err := lockRuns(dir)
	if err != nil {
		return err
	}
	defer unlock()
	removed, err := prune(ctx, out, dir, p)
	page := filepath.Join(dir, historyPage)
	if _, none := os.Stat(page); removed > 0 && none == nil {
		_, failed := History(ctx, out, dir, HistoryOptions{Output: page})
		err = errors.Join(err, failed)
	}
	return err
}

// dryPrune lists what prune would remove.
func dryPrune(ctx context.Context, w io.Writer, dir string, rule PruneRule) error {
	runs, foreign, err := ownRuns(ctx, dir)
	if err != nil {
		return err
	}
	for _, f := range foreign {
		fmt.Fprintf(w, "left alone  %s\n", display.Printable(f))
	}
	old := rule.old(runs, time.Now())
	for _, r := range old {
		fmt.Fprintf(w, "would remove  %s  %s\n", r.Dir, resultOf(r))
	}
	fmt.Fprintf(w, "%d of %d run directories\n", len(old), len(runs))
	return nil
}

// prune removes old run directories and returns how many. If one cannot be removed, it removes the others and returns
// an error.
func prune(ctx context.Context, w io.Writer, dir string, rule PruneRule) (int, error) {
	runs, _, err := ownRuns(ctx, dir)
	if err != nil {
		return 0, err
	}
	removed := 0
	var errs []error
	for _, r := range rule.old(runs, time.Now()) {
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		if err := removeRun(rundir.Dir(r.Dir)); err != nil {
			errs = append(errs, fmt.Errorf("prune: %w", err))
			continue
		}
		removed++
		fmt.Fprintf(w, "removed  %s  %s\n", r.Dir, resultOf(r))
	}
	fmt.Fprintf(w, "%d of %d run directories removed\n", removed, len(runs))
	return removed, errors.Join(errs...)
}

// ownRuns returns the run directories that may be removed, and why others may not.
func ownRuns(ctx context.Context, dir string) (own []reports.HistoryRun, foreign []string, err error) {
	dirs, err := findRuns(ctx, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("prune: %w", err)
	}
	for _, d := range dirs {
		r, _ := readHistoryRun(d, dir)
		if why := notOurs(r); why != "" {
			foreign = append(foreign, fmt.Sprintf("%s  %s", d, why))
			continue
		}
		own = append(own, r)
	}
	return own, foreign, nil
}

// notOurs returns why a folder with a run.json is not a run directory, "" if it is.
func notOurs(r reports.HistoryRun) string {
	switch {
	case r.Problem != "":
		return FirstLine(r.Problem)
	case !runDirName.MatchString(filepath.Base(r.Dir)):
		return "its name is not the time of a run"
	case r.Record.Scenario == "" || r.Record.Started.IsZero():
		return "its record names no scenario or no time"
	}
	return ""
}

// resultOf is what became of a run; one that ended early, or was not judged, measured nothing.
func resultOf(r reports.HistoryRun) leak.Result {
	if r.Verdict == nil || r.Record.Interrupted || r.Record.Failure != nil {
		return leak.Unmeasured
	}
	return r.Verdict.Result
}

// old are the runs that the rule gives up.
func (p PruneRule) old(runs []reports.HistoryRun, now time.Time) []reports.HistoryRun {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b reports.HistoryRun) int { return b.Record.Started.Compare(a.Record.Started) })
	newer := map[string]int{}
	type kind struct {
		scenario string
		result   leak.Result
	}
	seen := map[kind]bool{}
	var old []reports.HistoryRun
	for _, r := range runs {
		k := kind{r.Record.Scenario, resultOf(r)}
		if now.Sub(r.Record.Seen()) > time.Duration(p.Days)*24*time.Hour && newer[k.scenario] >= p.Last && seen[k] {
			old = append(old, r)
		}
		newer[k.scenario]++
		seen[k] = true
	}
	return old
}

// removeRun removes a run directory. The record goes last, so that what an interruption leaves is still a
// run directory, and goes the next time.
func removeRun(dir rundir.Dir) error {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == rundir.RecordFile {
			continue
		}
		if err := os.RemoveAll(dir.Path(e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(os.Remove(dir.Path(rundir.RecordFile)), os.Remove(string(dir)))
}
