package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/runner"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/subjects"
)

// checkEvery is how often a run asks whether its cluster still answers: often enough that a cluster
// which vanished ends the run in well under a minute.
const checkEvery = 5 * time.Second

// maxTimes bounds --times.
const maxTimes = 1000

// runFlags are the flags of `leakrig run`.
type runFlags struct {
	cluster   string
	placement string
	variants  []string
	rounds    int
	times     int
	set       []string
	runsDir   string
	source    string
	format    string
	options   cluster.Options
	args      []string // the command line, for the record
}

func (a *app) runCommand() *cobra.Command {
	f := runFlags{args: a.args}
	all := false
	c := &cobra.Command{
		Use:   "run NAME|FILE...",
		Short: "Run scenarios, judge them, and write their reports",
		Long: `Run a scenario of the library (see leakrig list) or a scenario file: build the variants, boot the
cluster, put the load on, read goroutines and heap around every round, judge, and write the report.

Everything that was measured is in the run directory, which the last lines name. Results go to
standard output, progress to standard error. Of several scenarios each is run, whatever became of the ones
before; the exit code is the worst.`,
		Example: `  leakrig run watch-then-delete
  leakrig run watch-then-delete --variant leaky --variant fixed
  leakrig run ./my-service.yaml --rounds 12`,
		Args: func(c *cobra.Command, args []string) error {
			if all {
				return cobra.NoArgs(c, args)
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if all {
				args = scenarios.Names()
			}
			if len(args) == 1 {
				a.code, err = f.run(c, args[0])
				return err
			}
			a.code, err = f.runEach(c, args)
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "run every scenario of the library")
	c.Flags().StringVar(&f.cluster, "cluster", "auto", "provider: auto, "+strings.Join(kinds().Providers, ", "))
	c.Flags().StringSliceVar(&f.variants, "variant", nil, "run only this variant (may be given several times)")
	c.Flags().IntVar(&f.rounds, "rounds", 0, "measured rounds, instead of the scenario's")
	c.Flags().IntVar(&f.times, "times", 1, "run it so often, and say how often it went as expected")
	c.Flags().StringArrayVar(&f.set, "set", nil, "value of one of the scenario's parameters, `name=value` (may be given several times)")
	c.Flags().StringVar(&f.runsDir, "runs-dir", "runs", "folder for run directories")
	c.Flags().StringVar(&f.source, "source", "", "checkout that holds subjects/ (default: looked for from here up)")
	c.Flags().StringVar(&f.placement, "placement", "", "process or pod, instead of the scenario's")
	c.Flags().BoolVar(&f.options.Keep, "keep", false, "leave a kind cluster running for --reuse (leakrig clean removes it)")
	c.Flags().BoolVar(&f.options.Reuse, "reuse", false, "use a kind cluster that --keep has left, if it fits")
	c.Flags().StringVar(&f.options.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of an existing cluster (default: as kubectl)")
	c.Flags().StringVar(&f.options.Context, "context", "", "context of an existing cluster (default: the current one)")
	c.Flags().BoolVar(&f.options.Yes, "yes", false, "run on a context that looks like production all the same")
	formatFlag(c, &f.format)
	return c
}

func (f *runFlags) run(c *cobra.Command, name string) (int, error) {
	set, err := f.parameters()
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	src, s, err := open(name, set)
	if err != nil {
		return 0, err
	}
	format, err := findFormat(f.format)
	if err != nil {
		return 0, err
	}
	if f.placement != "" && f.placement != leak.PlacementProcess && f.placement != leak.PlacementPod {
		return 0, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--placement %s: no such placement", f.placement), "it is process or pod")}
	}
	variants, err := f.apply(s)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	if err := prepare(s, src); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	progress := newProgress(os.Stderr)
	defer progress.Done()
	provider, err := f.provider(c.Context(), s, variants, progress)
	if err != nil {
		return 0, err
	}
	launcher := f.launcher(src, s, provider.Name)
	if err := launcher.Check(variants); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	once := func() (int, error) {
		return f.once(c, src, s, variants, provider, launcher, progress, format)
	}
	if f.times == 1 {
		return once()
	}
	return repeat(c.OutOrStdout(), f.times, once)
}

// runEach runs scenarios one after another and ends with a line for each, and with their history.
func (f *runFlags) runEach(c *cobra.Command, names []string) (int, error) {
	var codes []int
	var lines []string
	flags := slices.DeleteFunc(slices.Clone(f.args), func(a string) bool { return a == "run" || a == "--all" || slices.Contains(names, a) })
	for _, name := range names {
		start := time.Now()
		f.args = append([]string{"run", name}, flags...) // what makes this run alone
		code, err := f.run(c, name)
		if err != nil {
			code = complain(err)
		}
		codes = append(codes, code)
		lines = append(lines, fmt.Sprintf("  %-24s %-22s %s", name, meaning(code), time.Since(start).Round(time.Second)))
		if code == leak.ExitInterrupted || c.Context().Err() != nil {
			break
		}
	}
	fmt.Fprintf(c.OutOrStdout(), "\n%s\n", strings.Join(lines, "\n"))
	if _, err := os.Stat(f.runsDir); err != nil {
		return leak.WorstExit(codes...), nil // nothing was run
	}
	return leak.WorstExit(codes...), writeHistory(c, f.runsDir, filepath.Join(f.runsDir, "index.html"))
}

// meaning is an exit code in words.
func meaning(code int) string {
	switch code {
	case leak.ExitMet:
		return leak.Met.String()
	case leak.ExitNotMet:
		return leak.NotMet.String()
	case leak.ExitUnmeasured:
		return leak.Unmeasured.String()
	case leak.ExitInconclusive:
		return leak.Undecided.String()
	case leak.ExitInterrupted:
		return "interrupted"
	}
	return "bad usage or scenario"
}

// repeat runs a scenario several times and tells how often it went as expected.
func repeat(w io.Writer, times int, once func() (int, error)) (int, error) {
	var codes []int
	met := 0
	for range times {
		code, err := once()
		if err != nil {
			return 0, err
		}
		codes = append(codes, code)
		if code == leak.ExitInterrupted {
			break
		}
		if code == leak.ExitMet {
			met++
		}
	}
	low, high := checks.Share(met, len(codes))
	_, err := fmt.Fprintf(w, "\n%d of %d runs as expected (95 %% interval of the share: %.0f to %.0f %%)\n", met, len(codes), 100*low, 100*high)
	return leak.WorstExit(codes...), err
}

// once is one run: measured, judged, reported.
func (f *runFlags) once(c *cobra.Command, src scenarios.Source, s *leak.Scenario, variants []leak.Variant, provider leak.Kind[leak.Provider], launcher *subjects.Launcher, progress *progress, format reports.Format) (int, error) {
	dir, err := newRunDir(f.runsDir, s.Metadata.Name)
	if err != nil {
		return 0, err
	}
	if err := dir.WriteFile(leak.ScenarioFile, src.Data); err != nil {
		return 0, err
	}
	record, err := f.measure(c.Context(), s, variants, provider, launcher, dir, progress)
	progress.Done()
	if err != nil {
		return 0, err
	}
	return conclude(c.OutOrStdout(), dir, s, record, format, conclusion{write: true, fresh: true})
}

// parameters are the values of --set.
func (f *runFlags) parameters() (map[string]string, error) {
	set := map[string]string{}
	for _, s := range f.set {
		name, value, ok := strings.Cut(s, "=")
		if _, again := set[name]; !ok || again {
			return nil, leak.WithHint(fmt.Errorf("--set %s: not a name and its value, once", s), "as in --set nodes=200")
		}
		set[name] = value
	}
	return set, nil
}

// apply puts the flags over the scenario and returns the variants to run.
func (f *runFlags) apply(s *leak.Scenario) ([]leak.Variant, error) {
	if f.rounds < 0 || f.rounds > scenarios.MaxRounds {
		return nil, fmt.Errorf("--rounds must be between 1 and %d", scenarios.MaxRounds)
	}
	if f.times < 1 || f.times > maxTimes {
		return nil, fmt.Errorf("--times must be between 1 and %d", maxTimes)
	}
	if f.rounds > 0 {
		s.Spec.Rounds = f.rounds
		s.Spec.MaxRounds = max(s.Spec.MaxRounds, f.rounds)
	}
	if len(f.variants) == 0 {
		return s.Spec.Variants, checks.Feasible(s, len(s.Spec.Variants))
	}
	var chosen []leak.Variant
	var names []string
	for _, v := range s.Spec.Variants {
		names = append(names, v.Name)
		if slices.Contains(f.variants, v.Name) {
			chosen = append(chosen, v)
		}
	}
	for _, name := range f.variants {
		if !slices.Contains(names, name) {
			return nil, leak.WithHint(fmt.Errorf("--variant %s: %s has no such variant", name, s.Metadata.Name), "it has %s", strings.Join(names, ", "))
		}
	}
	return chosen, checks.Feasible(s, len(chosen))
}

// provider chooses a provider that the scenario allows; the zero kind where it needs no cluster. auto
// takes the first that can boot here, and says why another was passed over.
func (f *runFlags) provider(ctx context.Context, s *leak.Scenario, variants []leak.Variant, p leak.Progress) (leak.Kind[leak.Provider], error) {
	var none leak.Kind[leak.Provider]
	bad := func(hint, problem string) error {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--cluster %s: %s", f.cluster, problem), "%s", hint)}
	}
	var err error
	if f.options.Cache, err = cacheDir(); err != nil {
		return none, err
	}
	f.options.Protected = protectedWords()
	auto := f.cluster == "auto"
	if !auto && !slices.Contains(kinds().Providers, f.cluster) {
		return none, bad("it is auto or one of: "+strings.Join(kinds().Providers, ", "), "no such provider")
	}
	if s.Spec.OwnClusters() && (f.options.Keep || f.options.Reuse) {
		return none, &leak.UsageError{Err: leak.WithHint(errors.New("--keep and --reuse: the scenario observes the cluster itself, so no other run may have used it"), "leave them out")}
	}
	if s.Spec.Cluster == nil {
		if !auto {
			return none, bad("leave --cluster out", "the scenario uses no cluster")
		}
		if f.placement == leak.PlacementPod {
			return none, &leak.UsageError{Err: leak.WithHint(errors.New("--placement pod: the scenario uses no cluster"), "leave --placement out")}
		}
		return none, nil
	}
	var reasons []error
	for _, k := range cluster.Kinds(f.options) {
		if !slices.Contains(s.Spec.Cluster.Providers, k.Name) || !auto && f.cluster != k.Name || auto && k.Name == "existing" {
			continue
		}
		if err := f.preflight(ctx, k, s, variants, p); err == nil {
			return k, nil
		} else if !auto || ctx.Err() != nil {
			return none, err
		} else {
			p.Log("not on %s: %s", k.Name, firstLine(err.Error()))
			reasons = append(reasons, err)
		}
	}
	if len(reasons) > 0 {
		return none, errors.Join(reasons...)
	}
	return none, bad("it runs on: "+strings.Join(s.Spec.Cluster.Providers, ", "), "the scenario does not run there")
}

func (f *runFlags) preflight(ctx context.Context, k leak.Kind[leak.Provider], s *leak.Scenario, variants []leak.Variant, p leak.Progress) error {
	if pre, ok := k.New().(leak.Preflighter); ok {
		for _, v := range variants {
			err := pre.Preflight(ctx, leak.BootOptions{
				Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Pods: f.placed(s, k.Name) == leak.PlacementPod,
				Node: v.Node, Components: s.Spec.Subject.Components, Progress: p,
			})
			if err != nil || !s.Spec.OwnClusters() {
				return err
			}
		}
	}
	return nil
}

// protectedWords make a context look like production.
func protectedWords() []string {
	words, ok := os.LookupEnv("LEAKRIG_PROTECTED_CONTEXTS")
	if !ok {
		words = "prod,live"
	}
	list := strings.Split(words, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// placed is where the subject runs on a provider.
func (f *runFlags) placed(s *leak.Scenario, provider string) string {
	if f.placement != "" {
		return f.placement
	}
	if where, ok := s.Spec.Subject.Placement[provider]; ok {
		return where
	}
	return leak.PlacementProcess
}

// prepare reads what the actions need beside the scenario file.
func prepare(s *leak.Scenario, src scenarios.Source) error {
	var errs []error
	for _, b := range slices.Concat(s.Spec.Warmup.Round, s.Spec.Round) {
		if p, ok := b.Value.(leak.Preparer); ok {
			if err := p.Prepare(src.Files); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", b.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// newRunDir makes a folder that no other run has.
func newRunDir(runs, scenario string) (leak.RunDir, error) {
	parent := filepath.Join(runs, scenario)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", leak.WithHint(fmt.Errorf("run directory: %w", err), "is the disk full or the folder read-only? --runs-dir names another one")
	}
	stamp := time.Now().UTC().Format("20060102T150405Z")
	for i := 1; ; i++ {
		name := stamp
		if i > 1 {
			name = fmt.Sprintf("%s-%d", stamp, i)
		}
		dir := filepath.Join(parent, name)
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return leak.RunDir(dir), nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", leak.WithHint(fmt.Errorf("run directory: %w", err), "is the disk full or the folder read-only? --runs-dir names another one")
		}
	}
}

// launcher builds and starts the subject, once it has a scratch folder.
func (f *runFlags) launcher(src scenarios.Source, s *leak.Scenario, provider string) *subjects.Launcher {
	return &subjects.Launcher{
		Spec: s.Spec.Subject, Placement: f.placed(s, provider),
		Builder: subjects.Builder{
			Source: f.source, ScenarioDir: filepath.Dir(src.Path), Cache: filepath.Join(f.options.Cache, "subjects"),
			LeakProfile: slices.ContainsFunc(s.Spec.Probes, func(b leak.Block[leak.Probe]) bool { return b.Kind == "leaked" }),
		},
	}
}

// measure runs the scenario and returns its record, with all that was started stopped again.
func (f *runFlags) measure(ctx context.Context, s *leak.Scenario, variants []leak.Variant, provider leak.Kind[leak.Provider], launcher *subjects.Launcher, dir leak.RunDir, progress leak.Progress) (*leak.Record, error) {
	scratch, err := os.MkdirTemp("", "leakrig-*")
	if err != nil {
		return nil, leak.WithHint(err, "TMPDIR names another folder for temporary files")
	}
	defer os.RemoveAll(scratch)
	launcher.Scratch = filepath.Join(scratch, "subjects")
	config := runner.Config{
		Scenario: s, Variants: variants, Dir: dir, Launcher: launcher, Metrics: metrics(s), Progress: progress,
		Version: version(), Args: f.args, CheckEvery: checkEvery, OwnClusters: s.Spec.OwnClusters(), LookAgain: checks.JudgesHung(s),
		Enough: func(v leak.Variant, record leak.VariantRecord) string {
			return checks.Enough(s, v, record, leak.MetricsByName(metrics(s)))
		},
	}
	logs := dir.Path("cluster")
	if provider.New != nil {
		config.Boot = func(ctx context.Context, v leak.Variant) (leak.Cluster, error) {
			clusterDir, logs := filepath.Join(scratch, "cluster"), logs
			if config.OwnClusters {
				clusterDir, logs = filepath.Join(clusterDir, v.Name), filepath.Join(logs, v.Name)
			}
			if err := errors.Join(os.MkdirAll(logs, 0o700), os.MkdirAll(clusterDir, 0o700)); err != nil {
				return nil, err
			}
			return provider.New().Boot(ctx, leak.BootOptions{
				Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Run: runID(dir), Node: v.Node, Components: s.Spec.Subject.Components,
				Scratch: clusterDir, Logs: logs, Progress: progress,
			})
		}
	}
	record, err := runner.Run(ctx, config)
	if err == nil && complete(record) {
		os.RemoveAll(logs) // of interest only when something went wrong
	}
	return record, err
}

// runID names the run as a DNS label: its start, and something that no other run has.
func runID(dir leak.RunDir) string {
	random := make([]byte, 3)
	_, _ = rand.Read(random) // never fails
	return strings.ToLower(filepath.Base(string(dir))) + "-" + hex.EncodeToString(random)
}

func complete(r *leak.Record) bool {
	if r.Failure != nil || r.Interrupted {
		return false
	}
	return !slices.ContainsFunc(r.Variants, func(v leak.VariantRecord) bool { return v.Failure != nil })
}

func metrics(s *leak.Scenario) map[string][]leak.Metric {
	m := map[string][]leak.Metric{}
	for _, k := range profiles.Kinds() {
		for _, p := range s.Spec.AllProbes() {
			if p.Kind == k.Name {
				m[p.Name] = k.Metrics
			}
		}
	}
	return m
}
