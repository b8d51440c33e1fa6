package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/runner"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/subjects"
)

// runFlags are the flags of `leakrig run`.
type runFlags struct {
	cluster  string
	variants []string
	rounds   int
	runsDir  string
	source   string
	format   string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Run a scenario, judge it, and write its report",
		Long: `Run a scenario of the library (see leakrig list) or a scenario file: build the variants, boot the
cluster, put the load on, read goroutines and heap around every round, judge, and write the report.

Everything that was measured is in the run directory, which the last lines name. Results go to
standard output, progress to standard error.`,
		Example: `  leakrig run watch-then-delete
  leakrig run watch-then-delete --variant leaky --variant fixed
  leakrig run ./my-service.yaml --rounds 12`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.code, err = f.run(c, args[0])
			return err
		},
	}
	c.Flags().StringVar(&f.cluster, "cluster", "auto", "provider: auto, "+strings.Join(kinds().Providers, ", "))
	c.Flags().StringSliceVar(&f.variants, "variant", nil, "run only this variant (may be given several times)")
	c.Flags().IntVar(&f.rounds, "rounds", 0, "measured rounds, instead of the scenario's")
	c.Flags().StringVar(&f.runsDir, "runs-dir", "runs", "folder for run directories")
	c.Flags().StringVar(&f.source, "source", "", "checkout that holds subjects/ (default: looked for from here up)")
	formatFlag(c, &f.format)
	return c
}

func (f *runFlags) run(c *cobra.Command, name string) (int, error) {
	src, s, err := open(name)
	if err != nil {
		return 0, err
	}
	format, err := findFormat(f.format)
	if err != nil {
		return 0, err
	}
	variants, err := f.apply(s)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	provider, err := f.provider(s)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	if err := prepare(s, src); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	dir, err := newRunDir(f.runsDir, s.Metadata.Name)
	if err != nil {
		return 0, err
	}
	if err := dir.WriteFile(leak.ScenarioFile, src.Data); err != nil {
		return 0, err
	}
	record, err := f.measure(c.Context(), src, s, variants, provider, dir)
	if err != nil {
		return 0, err
	}
	return conclude(c.OutOrStdout(), dir, s, record, format, true)
}

// apply puts the flags over the scenario and returns the variants to run.
func (f *runFlags) apply(s *leak.Scenario) ([]leak.Variant, error) {
	if f.rounds < 0 || f.rounds > scenarios.MaxRounds {
		return nil, fmt.Errorf("--rounds must be between 1 and %d", scenarios.MaxRounds)
	}
	if f.rounds > 0 {
		s.Spec.Rounds = f.rounds
	}
	if len(f.variants) == 0 {
		return s.Spec.Variants, nil
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
	return chosen, nil
}

// provider chooses a provider that the scenario allows; nil where it needs no cluster.
func (f *runFlags) provider(s *leak.Scenario) (leak.Provider, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	known := cluster.Kinds(cache)
	if f.cluster != "auto" && !slices.Contains(kinds().Providers, f.cluster) {
		return nil, leak.WithHint(fmt.Errorf("--cluster %s: no such provider", f.cluster), "it is auto or one of: %s", strings.Join(kinds().Providers, ", "))
	}
	if s.Spec.Cluster == nil {
		if f.cluster != "auto" {
			return nil, leak.WithHint(fmt.Errorf("--cluster %s: the scenario uses no cluster", f.cluster), "leave --cluster out")
		}
		return nil, nil
	}
	for _, k := range known {
		if (f.cluster == "auto" || f.cluster == k.Name) && slices.Contains(s.Spec.Cluster.Providers, k.Name) {
			return k.New(), nil
		}
	}
	return nil, leak.WithHint(fmt.Errorf("--cluster %s: the scenario does not run there", f.cluster), "it runs on: %s", strings.Join(s.Spec.Cluster.Providers, ", "))
}

// prepare reads what the actions need beside the scenario file.
func prepare(s *leak.Scenario, src scenarios.Source) error {
	var errs []error
	for _, b := range s.Spec.Round {
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

// measure runs the scenario and returns its record, with all that was started stopped again.
func (f *runFlags) measure(ctx context.Context, src scenarios.Source, s *leak.Scenario, variants []leak.Variant, provider leak.Provider, dir leak.RunDir) (*leak.Record, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "leakrig-*")
	if err != nil {
		return nil, leak.WithHint(err, "TMPDIR names another folder for temporary files")
	}
	defer os.RemoveAll(scratch)
	progress := newProgress(os.Stderr)
	defer progress.Done()
	config := runner.Config{
		Scenario: s, Variants: variants, Dir: dir, Metrics: metrics(s), Progress: progress, Version: version(),
		Launcher: &subjects.Launcher{
			Spec: s.Spec.Subject, Scratch: filepath.Join(scratch, "subjects"),
			Builder: subjects.Builder{Source: f.source, ScenarioDir: filepath.Dir(src.Path), Cache: filepath.Join(cache, "subjects")},
		},
	}
	logs := dir.Path("cluster")
	if provider != nil {
		config.Boot = func(ctx context.Context) (leak.Cluster, error) {
			clusterDir := filepath.Join(scratch, "cluster")
			if err := errors.Join(os.MkdirAll(logs, 0o700), os.MkdirAll(clusterDir, 0o700)); err != nil {
				return nil, err
			}
			return provider.Boot(ctx, leak.BootOptions{Spec: *s.Spec.Cluster, Scratch: clusterDir, Logs: logs, Progress: progress})
		}
	}
	record, err := runner.Run(ctx, config)
	if err == nil && complete(record) {
		os.RemoveAll(logs) // of interest only when something went wrong
	}
	return record, err
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
		for _, p := range s.Spec.Probes {
			if p.Kind == k.Name {
				m[k.Name] = k.Metrics
			}
		}
	}
	return m
}
