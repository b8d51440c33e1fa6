package session

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

	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/scenarios"
)

const (
	// nightLock and nightPage are files of a runs directory: the lock of `leakrig run --all`, and its page.
	nightLock   = ".nightly.lock"
	nightPage   = "nightly.md"
	historyPage = "index.html"
	// maxSummary bounds the size of a run's summary on the page of the night, in bytes.
	maxSummary = 1 << 20
)

// Night are the flags of `leakrig run` that go with --all.
type Night struct {
	All   bool
	Prune bool
	Skip  []string
	// Budget, if positive, is the time after which no scenario starts. The scenarios that ran longest ago go first.
	Budget time.Duration
}

// planned is a scenario to be run.
type planned struct {
	name string
	// left is why the scenario is not run, "" if it is.
	left string
	// noCluster is set if it has no cluster, ownCluster if it must have its own: some options make no sense then.
	noCluster, ownCluster bool
	// last is the name of the newest run directory, "" if there is none. Such names sort by time.
	last string
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
func (f *Options) runNight(ctx context.Context, out io.Writer, args []string) (int, error) {
	plan, err := f.plan(args)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	unlock, err := lockRuns(f.RunsDir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	f.AllVariants = true
	return f.runEach(ctx, out, plan)
}

// plan selects the scenarios to run. It includes scenarios that cannot be read, so that they count.
func (f *Options) plan(args []string) ([]planned, error) {
	names, err := NightNames(args)
	if err != nil {
		return nil, err
	}
	for _, name := range f.Night.Skip {
		if !slices.Contains(names, name) {
			return nil, leak.WithHint(fmt.Errorf("--skip %s: unknown scenario", name), "it is one of: %s", strings.Join(names, ", "))
		}
	}
	if f.Cluster != "auto" && !slices.Contains(Kinds().Providers, f.Cluster) {
		return nil, leak.WithHint(fmt.Errorf("--cluster %s: no such provider", f.Cluster), "it is auto or one of: %s", strings.Join(Kinds().Providers, ", "))
	}
	plan := scheduled(names)
	for i := range plan {
		p := &plan[i]
		if slices.Contains(f.Night.Skip, p.name) {
			p.left = "--skip names it"
			continue
		}
		_, s, err := Open(p.name, nil)
		if err == nil {
			p.last = f.lastRun(s.Metadata.Name)
		}
		switch {
		case err != nil:
		case s.Spec.Cluster == nil:
			p.noCluster = true
		case f.Cluster != "auto" && !slices.Contains(s.Spec.Cluster.Providers, f.Cluster):
			p.left = fmt.Sprintf("it runs on %s, not on %s", strings.Join(s.Spec.Cluster.Providers, ", "), f.Cluster)
		case s.Spec.OwnClusters():
			p.ownCluster = true
		}
	}
	if f.Night.Budget > 0 {
		slices.SortStableFunc(plan, func(a, b planned) int { return cmp.Compare(a.last, b.last) })
	}
	return plan, nil
}

// lastRun returns the name of the scenario's newest run directory, "" if it has none.
func (f *Options) lastRun(scenario string) string {
	entries, err := os.ReadDir(filepath.Join(f.RunsDir, scenario))
	if err != nil {
		return ""
	}
	for _, e := range slices.Backward(entries) { // sorted by name
		if e.IsDir() && runDirName.MatchString(e.Name()) {
			return e.Name()
		}
	}
	return ""
}

// NightNames are the scenarios of the library, or the scenario files of the one folder in args.
func NightNames(args []string) ([]string, error) {
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
		return nil, leak.WithHint(fmt.Errorf("%s is in use by another leakrig: %s", dir, cmp.Or(FirstLine(string(holder)), "it has not said which")),
			"wait for it or end it; --runs-dir names another folder, but two at a time disturb each other's measurements")
	}
	host, _ := os.Hostname()
	about := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	// Not rundir.WriteFile: the lock is on this very file, not on its name.
	if _, err := file.WriteAt([]byte(about), 0); err != nil || file.Truncate(int64(len(about))) != nil {
		unlock()
		return nil, leak.WithHint(fmt.Errorf("runs directory: %w", err), "is the disk full? --runs-dir names another one")
	}
	return unlock, nil
}

// runEach runs scenarios one after another and ends with a line for each, and with their history. It reports results
// also after an interruption.
func (f *Options) runEach(ctx context.Context, out io.Writer, plan []planned) (int, error) {
	night := reports.Night{Command: f.Args, Started: time.Now()}
	var codes []int
	interrupted := false
	for _, p := range plan {
		if interrupted && p.left == "" {
			p.left = "interrupted before it began"
		}
		if b := f.Night.Budget; b > 0 && p.left == "" && len(codes) > 0 && time.Since(night.Started) >= b {
			p.left = fmt.Sprintf("the budget of %s is used up; it is earlier in the next run", b)
		}
		if p.left != "" {
			night.Runs = append(night.Runs, reports.NightRun{Scenario: p.name, Left: p.left})
			continue
		}
		one := *f
		if p.noCluster {
			one.Cluster, one.Placement = "auto", ""
		}
		if p.noCluster || p.ownCluster {
			one.Clusters.Keep, one.Clusters.Reuse = false, false
		}
		one.Args = one.Argv(p.name)
		run := one.runOne(ctx, out, p.name)
		f.made = one.made
		night.Runs = append(night.Runs, run)
		codes = append(codes, run.ExitCode)
		interrupted = run.ExitCode == leak.ExitInterrupted || ctx.Err() != nil
	}
	if len(codes) == 0 {
		codes = []int{leak.ExitUnmeasured} // nothing was measured, and that is no pass
	}
	night.ExitCode = leak.WorstExit(codes...)
	night.Command = KeptArgs(f.Args, nil, *f.Hidden)
	// After Ctrl-C the context has ended, but the results are still reported. A second Ctrl-C ends leakrig at once.
	ctx = context.WithoutCancel(ctx)
	if err := errors.Join(reports.NightText(out, night), f.keepNight(ctx, out, night, interrupted)); err != nil {
		night.ExitCode = leak.WorstExit(night.ExitCode, Complain(err, *f.Hidden))
	}
	return night.ExitCode, nil
}

// runOne runs one scenario of several. It reports and counts errors, and does not return them.
func (f *Options) runOne(ctx context.Context, out io.Writer, name string) reports.NightRun {
	begun, made := time.Now(), len(f.made)
	run := reports.NightRun{Scenario: name}
	var err error
	if run.ExitCode, err = f.runScenario(ctx, out, name); err != nil {
		err = cleaned(err, *f.Hidden)
		run.ExitCode = Complain(err, nil)
		run.Why = FirstLine(err.Error())
		if hint := leak.Hint(err); hint != "" {
			run.Why += ". Hint: " + FirstLine(hint)
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
	if file, err := os.Open(dir.Path(rundir.SummaryFile)); err == nil {
		defer file.Close()
		if text, err := io.ReadAll(io.LimitReader(file, maxSummary)); err == nil {
			run.Summary = string(text)
		}
	}
	return run
}

// keepNight writes the pages of the runs directory: that of the night, and that over all runs.
func (f *Options) keepNight(ctx context.Context, w io.Writer, night reports.Night, interrupted bool) error {
	var errs []error
	if f.Night.All {
		var page bytes.Buffer
		path := filepath.Join(f.RunsDir, nightPage)
		err := reports.NightMarkdown(&page, night)
		if err == nil {
			err = rundir.WriteFile(path, page.Bytes())
		}
		if errs = append(errs, err); err == nil {
			fmt.Fprintln(w, path)
		}
		if f.Night.Prune && !interrupted {
			_, err := prune(ctx, w, f.RunsDir, DefaultRule())
			errs = append(errs, err)
		}
	}
	if len(f.made) > 0 {
		_, err := History(ctx, w, f.RunsDir, HistoryOptions{}) // altered runs are warned of, and are not of this night
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
