package main

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

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/terminal"
)

// selfCheckPrefix marks the scenarios of the library that calibrate leakrig.
const selfCheckPrefix = "calibration"

// maxParallel bounds --parallel.
const maxParallel = 16

type selfCheck struct {
	runFlags
	repeats, parallel int
	suites            []string

	mu     sync.Mutex
	recall checks.Recall
	done   int // suites
}

func (a *app) selfCheckCommand() *cobra.Command {
	f := &selfCheck{runFlags: runFlags{args: a.args, cluster: "auto", times: 1}}
	c := &cobra.Command{
		Use:   "selfcheck",
		Short: "Test leakrig on this machine with planted leaks and look-alikes",
		Long: `Run the calibration suites: leaks of known size, and healthy look-alikes. The subject counts what it
retains, and selfcheck compares the measured sizes with that count.

A leak is found if its fingerprint leaks with its size within 5 %. A look-alike must never be called
leaking, but can be inconclusive. The floor is the smallest detectable growth on this machine.
subjects/calibration/defaults.yaml is a larger suite without bounds, which takes about an hour.`,
		Example: `  leakrig selfcheck
  leakrig selfcheck --suite calibration-rare --repeats 5
  leakrig selfcheck --suite subjects/calibration/defaults.yaml --parallel 2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			a.code, err = f.check(c)
			return err
		},
	}
	suites := calibrationSuites()
	c.Flags().IntVar(&f.repeats, "repeats", 1, "number of runs of each suite")
	c.Flags().IntVar(&f.parallel, "parallel", 1, "number of concurrent suites; a busy machine detects less")
	c.Flags().StringSliceVar(&f.suites, "suite", suites, "suite or scenario file to run (repeatable)")
	c.Flags().StringSliceVar(&f.variants, "variant", nil, "variant to run (repeatable)")
	c.Flags().StringVar(&f.runsDir, "runs-dir", "", "`folder` to keep the run directories in")
	c.Flags().StringVar(&f.source, "source", "", "checkout with subjects/ (default: searched from the current folder up)")
	wordFlag(c, &f.format, "format", "text", textFormats(), "output format")
	completeFlag(c, "suite", suites)
	completeWith(c, "variant", func([]string) []string { return variantsOf(f.suites) })
	completeFolders(c, "runs-dir", "source")
	return c
}

func calibrationSuites() []string {
	return slices.DeleteFunc(scenarios.Names(), func(name string) bool { return !strings.HasPrefix(name, selfCheckPrefix) })
}

func (f *selfCheck) check(c *cobra.Command) (int, error) {
	switch {
	case f.repeats < 1:
		return 0, &leak.UsageError{Err: errors.New("--repeats must be 1 or more")}
	case f.parallel < 1 || f.parallel > maxParallel:
		return 0, &leak.UsageError{Err: fmt.Errorf("--parallel must be between 1 and %d", maxParallel)}
	}
	for _, suite := range f.suites {
		if !slices.Contains(calibrationSuites(), suite) && !strings.HasSuffix(suite, ".yaml") {
			return 0, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--suite %s: no such suite", suite), "%s", oneOfHint(suite, calibrationSuites()))}
		}
	}
	if f.runsDir == "" {
		dir, remove, err := newScratch()
		if err != nil {
			return 0, err
		}
		defer remove()
		f.runsDir = dir
	}
	var err error
	if f.options.Cache, err = cacheDir(); err != nil {
		return 0, err
	}
	progress := terminal.NewProgress(os.Stderr)
	defer progress.Done()
	group, ctx := errgroup.WithContext(c.Context())
	group.SetLimit(f.parallel)
	for i := range f.repeats {
		for _, suite := range f.suites {
			group.Go(func() error {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				progress.Log("%s, %d of %d", suite, i+1, f.repeats)
				if err := f.suite(ctx, suite, progress); err != nil {
					return fmt.Errorf("%s: %w", suite, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil && c.Context().Err() == nil {
		return 0, err
	}
	progress.Done()
	if all := f.repeats * len(f.suites); f.done < all && c.Context().Err() != nil { // hours may have gone into the rest
		fmt.Fprintf(os.Stderr, "leakrig: interrupted: the tables are of the %d of %d suites that were done\n", f.done, all)
	}
	if f.format == "json" {
		out := json.NewEncoder(c.OutOrStdout())
		out.SetIndent("", " ")
		err = out.Encode(&f.recall)
	} else {
		err = printRecall(c.OutOrStdout(), &f.recall)
	}
	return leak.ExitCode(c.Context().Err() != nil, false, false, f.recall.Result()), err
}

// suite runs one calibration scenario once.
func (f *selfCheck) suite(ctx context.Context, name string, p leak.Progress) error {
	src, s, err := open(name, nil)
	if err != nil {
		return err
	}
	run := f.runFlags
	if len(f.variants) > 0 { // a suite need not have all of them
		run.variants = nil
		for _, v := range s.Spec.Variants {
			if slices.Contains(f.variants, v.Name) {
				run.variants = append(run.variants, v.Name)
			}
		}
		if len(run.variants) == 0 {
			return nil
		}
	}
	variants, err := run.apply(s)
	if err == nil {
		err = prepare(s, src)
	}
	if err != nil {
		return &leak.UsageError{Err: err}
	}
	private, err := run.hide(src, s)
	if err != nil {
		return err
	}
	launcher := run.launcher(src, s, "")
	if err := launcher.Check(variants); err != nil {
		return &leak.UsageError{Err: err}
	}
	dir, err := newRunDir(f.runsDir, s.Metadata.Name)
	if err == nil {
		err = dir.WriteFile(leak.ScenarioFile, private.text)
	}
	if err != nil {
		return err
	}
	record, err := run.measure(ctx, s, variants, leak.Kind[leak.Provider]{}, launcher, dir, p, private)
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
			fmt.Fprintf(w, "%s\t%s\t%.1f %%\n", planted(s), leak.FormatRate(s.Found, s.Unit), 100*s.Error())
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
	fmt.Fprintf(w, "\nfloor: could not have been seen\tbound per operation\tfloor per operation\t\t\t\n")
	for _, f := range r.Floors {
		bound := "none"
		if f.Bound > 0 {
			bound = leak.FormatValue(f.Bound, f.Unit)
		}
		fmt.Fprintf(w, "  %s/%s\t%s\t%s\t\t\t\n", f.Scenario, f.Check, bound, leak.FormatRate(f.Floor, f.Unit))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nrecall        %d of %d planted leaks found with their size, worst error %.1f %%\n", found, leaks, 100*worst)
	fmt.Fprintf(out, "false alarms  %d of %d look-alikes called leaking, %d undecided (budget %g a run)\n", alarms, healthy, undecided, r.FalseAlarmBudget)
	for _, row := range r.Rows {
		if !row.AsExpected() {
			for _, reason := range row.Reasons {
				fmt.Fprintf(out, "✗ %s/%s: %s\n", row.Scenario, row.Variant, leak.Printable(reason))
			}
		}
	}
	return nil
}

func planted(s checks.Size) string {
	return leak.FormatRate(s.Planted, s.Unit) + " " + strings.TrimSuffix(s.Unit, "bytes")
}

func mark(row checks.RecallRow) string {
	if row.AsExpected() {
		return "✓"
	}
	return "✗"
}
