package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/scenarios"
)

const (
	// nightLock and nightPage are files of a runs directory: the lock of `leakrig run --all`, and its page.
	nightLock   = ".nightly.lock"
	nightPage   = "nightly.md"
	historyPage = "index.html"
	// maxSummary bounds what is read of a run's summary for the page of the night.
	maxSummary = 1 << 20
)

// nightFlags are the flags of `leakrig run` that go with --all.
type nightFlags struct {
	all   bool
	prune bool
	skip  []string
}

func (n *nightFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&n.all, "all", false, "run every scenario of the library, or of DIR")
	c.Flags().StringSliceVar(&n.skip, "skip", nil, "with --all: scenario to skip (repeatable)")
	c.Flags().BoolVar(&n.prune, "prune", false, "with --all: delete old run directories at the end, as leakrig prune does")
}

func (n *nightFlags) check(c *cobra.Command, args []string) error {
	if n.all {
		for _, flag := range []string{"variant", "set"} {
			if c.Flags().Changed(flag) {
				return fmt.Errorf("--%s and --all: scenarios differ in what it may be", flag)
			}
		}
		return cobra.MaximumNArgs(1)(c, args)
	}
	if n.prune || len(n.skip) > 0 {
		return errors.New("--prune and --skip go with --all")
	}
	return cobra.MinimumNArgs(1)(c, args)
}

// planned is a scenario to be run.
type planned struct {
	name string
	// left is why it is not run after all, "" where it is.
	left string
	// without are flags of the command line that make no sense for it, since it has no cluster or must have
	// its own.
	without []string
}

func scheduled(names []string) []planned {
	var plan []planned
	for _, name := range names {
		plan = append(plan, planned{name: name})
	}
	return plan
}

// runNight runs the library, or every scenario file of a folder, while no one else does so in the same runs
// directory.
func (f *runFlags) runNight(c *cobra.Command, night nightFlags, args []string) (int, error) {
	plan, err := f.plan(night, args)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	unlock, err := lockRuns(f.runsDir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	f.night, f.folders = &night, args
	return f.runEach(c, plan)
}

// plan decides what is run. A scenario that cannot be read stays in it, so that it counts.
func (f *runFlags) plan(night nightFlags, args []string) ([]planned, error) {
	names, err := nightNames(args)
	if err != nil {
		return nil, err
	}
	for _, name := range night.skip {
		if !slices.Contains(names, name) {
			return nil, leak.WithHint(fmt.Errorf("--skip %s: unknown scenario", name), "it is one of: %s", strings.Join(names, ", "))
		}
	}
	if f.cluster != "auto" && !slices.Contains(kinds().Providers, f.cluster) {
		return nil, leak.WithHint(fmt.Errorf("--cluster %s: no such provider", f.cluster), "it is auto or one of: %s", strings.Join(kinds().Providers, ", "))
	}
	plan := scheduled(names)
	for i := range plan {
		p := &plan[i]
		if slices.Contains(night.skip, p.name) {
			p.left = "--skip names it"
			continue
		}
		_, s, err := open(p.name, nil)
		switch {
		case err != nil:
		case s.Spec.Cluster == nil:
			p.without = []string{"cluster", "placement", "keep", "reuse"}
		case f.cluster != "auto" && !slices.Contains(s.Spec.Cluster.Providers, f.cluster):
			p.left = fmt.Sprintf("it runs on %s, not on %s", strings.Join(s.Spec.Cluster.Providers, ", "), f.cluster)
		case s.Spec.OwnClusters():
			p.without = []string{"keep", "reuse"}
		}
	}
	return plan, nil
}

// nightNames are the scenarios of the library, or the scenario files of the one folder in args.
func nightNames(args []string) ([]string, error) {
	if len(args) == 0 {
		return scenarios.Names(), nil
	}
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("--all: %w", err), "it takes a folder with scenario files, or nothing for the library; leakrig run --help")
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			names = append(names, "."+string(filepath.Separator)+filepath.Join(args[0], e.Name()))
			if filepath.IsAbs(args[0]) {
				names[len(names)-1] = filepath.Join(args[0], e.Name())
			}
		}
	}
	if len(names) == 0 {
		return nil, leak.WithHint(fmt.Errorf("--all: no scenario file in %s", args[0]), "their names end in .yaml")
	}
	return names, nil
}

// lockRuns locks a runs directory. It never waits: two nightly runs in one folder are a mistake, and the second would
// measure the first. The kernel releases the lock when the process ends, also when it crashes or is killed.
func lockRuns(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, leak.WithHint(fmt.Errorf("runs directory: %w", err), "is the disk full or the folder read-only? --runs-dir names another one")
	}
	path := filepath.Join(dir, nightLock)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("runs directory: %w", err), "--runs-dir names another one")
	}
	defer file.Close()
	unlock, free := upstream.TryLock(path)
	if !free {
		holder, _ := io.ReadAll(io.LimitReader(file, 1<<10))
		return nil, leak.WithHint(fmt.Errorf("%s is in use by another leakrig: %s", dir, cmp.Or(firstLine(string(holder)), "it has not said which")),
			"wait for it or end it; --runs-dir names another folder, but two at a time disturb each other's measurements")
	}
	host, _ := os.Hostname()
	about := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	// Not leak.WriteFile: the lock is on this very file, not on its name.
	if _, err := file.WriteAt([]byte(about), 0); err != nil || file.Truncate(int64(len(about))) != nil {
		unlock()
		return nil, leak.WithHint(fmt.Errorf("runs directory: %w", err), "is the disk full? --runs-dir names another one")
	}
	return unlock, nil
}

// runEach runs scenarios one after another and ends with a line for each, and with their history. It reports results
// also after an interruption.
func (f *runFlags) runEach(c *cobra.Command, plan []planned) (int, error) {
	night := reports.Night{Command: f.args, Started: time.Now()}
	flags := f.flagsAlone(plan)
	var codes []int
	interrupted := false
	for _, p := range plan {
		if interrupted && p.left == "" {
			p.left = "interrupted before it began"
		}
		if p.left != "" {
			night.Runs = append(night.Runs, reports.NightRun{Scenario: p.name, Left: p.left})
			continue
		}
		one := *f
		one.args = append([]string{"run", p.name}, flags...) // what makes this run alone
		one.leaveOut(p.without)
		run := one.runOne(c, p.name)
		f.made = one.made
		night.Runs = append(night.Runs, run)
		codes = append(codes, run.ExitCode)
		interrupted = run.ExitCode == leak.ExitInterrupted || c.Context().Err() != nil
	}
	if len(codes) == 0 {
		codes = []int{leak.ExitUnmeasured} // nothing was measured, and that is no pass
	}
	night.ExitCode = leak.WorstExit(codes...)
	night.Command = keptArgs(f.args, nil, *f.hidden)
	// After Ctrl-C the context has ended, but the results are still reported. A second Ctrl-C ends leakrig at once.
	ctx := context.WithoutCancel(c.Context())
	if err := errors.Join(reports.NightText(c.OutOrStdout(), night), f.keepNight(ctx, c.OutOrStdout(), night, interrupted)); err != nil {
		night.ExitCode = leak.WorstExit(night.ExitCode, complain(err, *f.hidden))
	}
	return night.ExitCode, nil
}

// leaveOut takes flags back.
func (f *runFlags) leaveOut(flags []string) {
	for _, name := range flags {
		switch name {
		case "cluster":
			f.cluster = "auto"
		case "placement":
			f.placement = ""
		case "keep":
			f.options.Keep = false
		case "reuse":
			f.options.Reuse = false
		}
		f.args = without(f.args, "--"+name)
	}
}

// runOne runs one scenario of several. It reports and counts errors, and does not return them.
func (f *runFlags) runOne(c *cobra.Command, name string) reports.NightRun {
	begun, made := time.Now(), len(f.made)
	run := reports.NightRun{Scenario: name}
	var err error
	if run.ExitCode, err = f.run(c, name); err != nil {
		err = cleaned(err, *f.hidden)
		run.ExitCode = complain(err, nil)
		run.Why = firstLine(err.Error())
		if hint := leak.Hint(err); hint != "" {
			run.Why += ". Hint: " + firstLine(hint)
		}
	}
	run.Took = time.Since(begun)
	if len(f.made) == made {
		return run
	}
	dir := f.made[len(f.made)-1]
	run.Dir = string(dir)
	if v, err := dir.ReadVerdict(); err == nil && run.Why == "" {
		run.Why = v.Sentence
	}
	if file, err := os.Open(dir.Path(leak.SummaryFile)); err == nil {
		defer file.Close()
		if text, err := io.ReadAll(io.LimitReader(file, maxSummary)); err == nil {
			run.Summary = string(text)
		}
	}
	return run
}

// keepNight writes the pages of the runs directory: that of the night, and that over all runs.
func (f *runFlags) keepNight(ctx context.Context, w io.Writer, night reports.Night, interrupted bool) error {
	var errs []error
	if f.night != nil {
		var page bytes.Buffer
		path := filepath.Join(f.runsDir, nightPage)
		err := reports.NightMarkdown(&page, night)
		if err == nil {
			err = leak.WriteFile(path, page.Bytes())
		}
		if errs = append(errs, err); err == nil {
			fmt.Fprintln(w, path)
		}
		if f.night.prune && !interrupted {
			_, err := prune(ctx, w, f.runsDir, defaultRule())
			errs = append(errs, err)
		}
	}
	if len(f.made) > 0 {
		_, err := writeHistory(ctx, w, f.runsDir, filepath.Join(f.runsDir, historyPage), false) // altered runs are warned of, and are not of this night
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// flagsAlone returns the flags with which each of the scenarios could run alone.
func (f *runFlags) flagsAlone(plan []planned) []string {
	flags := without(f.args, "--skip")
	return slices.DeleteFunc(flags, func(a string) bool {
		return slices.Contains([]string{"run", "--all", "--prune"}, a) || slices.Contains(f.folders, a) ||
			slices.ContainsFunc(plan, func(p planned) bool { return p.name == a })
	})
}

// without is args without a flag and its values.
func without(args []string, flag string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == flag && (flag == "--keep" || flag == "--reuse"):
		case args[i] == flag:
			i++ // its value
		case strings.HasPrefix(args[i], flag+"="):
		default:
			kept = append(kept, args[i])
		}
	}
	return kept
}
