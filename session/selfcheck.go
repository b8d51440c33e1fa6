package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/terminal"
)

// selfCheckPrefix marks the scenarios of the library that calibrate leakrig.
const selfCheckPrefix = "calibration"

// maxParallel bounds --parallel.
const maxParallel = 16

// SelfCheck are the flags of `leakrig selfcheck`.
type SelfCheck struct {
	Options
	Repeats, Parallel int
	Suites            []string

	mu     sync.Mutex
	recall checks.Recall
	done   int // suites
}

// CalibrationSuites are the scenarios of the library that calibrate leakrig.
func CalibrationSuites() []string {
	return slices.DeleteFunc(scenarios.Names(), func(name string) bool { return !strings.HasPrefix(name, selfCheckPrefix) })
}

// Check runs the suites, prints the tables, and returns the exit code.
func (f *SelfCheck) Check(ctx context.Context, out io.Writer) (int, error) {
	switch {
	case f.Repeats < 1:
		return 0, &leak.UsageError{Err: errors.New("--repeats must be 1 or more")}
	case f.Parallel < 1 || f.Parallel > maxParallel:
		return 0, &leak.UsageError{Err: fmt.Errorf("--parallel must be between 1 and %d", maxParallel)}
	}
	for _, suite := range f.Suites {
		if !slices.Contains(CalibrationSuites(), suite) && !strings.HasSuffix(suite, ".yaml") {
			return 0, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--suite %s: no such suite", suite), "%s", scenarios.OneOf(suite, CalibrationSuites()))}
		}
	}
	if f.RunsDir == "" {
		dir, remove, err := NewScratch()
		if err != nil {
			return 0, err
		}
		defer remove()
		f.RunsDir = dir
	}
	err := f.openCache()
	if err != nil {
		return 0, err
	}
	progress := terminal.NewProgress(os.Stderr)
	defer progress.Done()
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(f.Parallel)
	for i := range f.Repeats {
		for _, suite := range f.Suites {
			group.Go(func() error {
				if err := context.Cause(running); err != nil {
					return err
				}
				progress.Log("%s, %d of %d", suite, i+1, f.Repeats)
				if err := f.suite(running, suite, progress); err != nil {
					return fmt.Errorf("%s: %w", suite, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return 0, err
	}
	progress.Done()
	if all := f.Repeats * len(f.Suites); f.done < all && ctx.Err() != nil { // hours may have gone into the rest
		fmt.Fprintf(os.Stderr, "leakrig: interrupted: the tables are of the %d of %d suites that were done\n", f.done, all)
	}
	if f.Format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		err = enc.Encode(&f.recall)
	} else {
		err = printRecall(out, &f.recall)
	}
	return leak.ExitCode(ctx.Err() != nil, false, false, f.recall.Result()), err
}

// suite runs one calibration scenario once.
func (f *SelfCheck) suite(ctx context.Context, name string, p leak.Progress) error {
	src, s, err := Open(name, nil)
	if err != nil {
		return err
	}
	run := f.Options
	if len(f.Variants) > 0 { // a suite need not have all of them
		run.Variants = nil
		for _, v := range s.Spec.Variants {
			if slices.Contains(f.Variants, v.Name) {
				run.Variants = append(run.Variants, v.Name)
			}
		}
		if len(run.Variants) == 0 {
			return nil
		}
	}
	r, err := run.resolve(src, s)
	if err != nil {
		return err
	}
	if err := r.launcher.Check(r.variants); err != nil {
		return &leak.UsageError{Err: err}
	}
	dir, release, err := run.newPlace(s, r.private.Text)
	if err != nil {
		return err
	}
	defer release()
	record, err := run.measure(ctx, r, dir, p)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	verdict := checks.Judge(s, record)
	truth := map[string]checks.Truth{}
	for _, vv := range verdict.Variants {
		log, err := os.ReadFile(dir.Path(vv.Variant, "subject.log"))
		if err == nil {
			truth[vv.Variant], err = checks.ParseTruth(string(log))
		}
		if err != nil && vv.Result != leak.Unmeasured {
			return fmt.Errorf("%s: %w", vv.Variant, err)
		}
	}
	f.mu.Lock()
	f.recall.Add(verdict, truth)
	f.done++
	f.mu.Unlock()
	return dir.WriteVerdict(verdict)
}

// printRecall prints the tables.
func printRecall(out io.Writer, r *checks.Recall) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	leaks, found, healthy, alarms, undecided := 0, 0, 0, 0, 0
	worst := 0.0
	fmt.Fprintf(w, "planted leaks\truns\tfound\tplanted per operation\tmeasured\tworst error\n")
	for _, row := range r.Rows {
		if row.Expect != leak.ExpectLeaking {
			continue
		}
		leaks, found = leaks+row.Runs, found+row.Sized
		fmt.Fprintf(w, "%s %s/%s\t%d\t%d\t", mark(row), row.Scenario, row.Variant, row.Runs, row.Sized)
		for i, s := range row.Sizes {
			if i > 0 {
				fmt.Fprint(w, "\t\t\t")
			}
			worst = max(worst, s.Error())
			fmt.Fprintf(w, "%s\t%s\t%.1f %%\n", planted(s), display.Rate(s.Found, s.Unit), 100*s.Error())
		}
		if len(row.Sizes) == 0 {
			fmt.Fprint(w, "\t\t\n")
		}
	}
	fmt.Fprintf(w, "\nhealthy look-alikes\truns\tclean\tundecided\tcalled leaking\t\n")
	for _, row := range r.Rows {
		if row.Expect != leak.ExpectClean {
			continue
		}
		healthy, alarms, undecided = healthy+row.Runs, alarms+row.Leaking, undecided+row.Inconclusive
		fmt.Fprintf(w, "%s %s/%s\t%d\t%d\t%d\t%d\t\n", mark(row), row.Scenario, row.Variant, row.Runs, row.Clean, row.Inconclusive, row.Leaking)
	}
	fmt.Fprintf(w, "\nfloor: would not be detected\tbound per operation\tfloor per operation\t\t\t\n")
	for _, f := range r.Floors {
		bound := "none"
		if f.Bound > 0 {
			bound = display.Value(f.Bound, f.Unit)
		}
		fmt.Fprintf(w, "  %s/%s\t%s\t%s\t\t\t\n", f.Scenario, f.Check, bound, display.Rate(f.Floor, f.Unit))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nrecall        %d of %d planted leaks found with their size, worst error %.1f %%\n", found, leaks, 100*worst)
	fmt.Fprintf(out, "false alarms  %d of %d look-alikes called leaking, %d undecided (budget %g a run)\n", alarms, healthy, undecided, r.FalseAlarmBudget)
	for _, row := range r.Rows {
		if !row.AsExpected() {
			for _, reason := range row.Reasons {
				fmt.Fprintf(out, "✗ %s/%s: %s\n", row.Scenario, row.Variant, display.Printable(reason))
			}
		}
	}
	return nil
}

func planted(s checks.Size) string {
	return display.Rate(s.Planted, s.Unit) + " " + strings.TrimSuffix(s.Unit, "bytes")
}

func mark(row checks.RecallRow) string {
	if row.AsExpected() {
		return "✓"
	}
	return "✗"
}
