// Package session is one use of leakrig from options to verdict: it loads the scenario, chooses a provider, runs,
// judges and writes the reports. Several runs, and the folder of their run directories, belong to it, too.
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

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/faults"
	"github.com/leakrig/leakrig/holders"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/runner"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/subjects"
	"github.com/leakrig/leakrig/terminal"
)

// checkEvery is how often a run asks whether its cluster still answers: often enough that a cluster
// which vanished ends the run in well under a minute.
const checkEvery = 5 * time.Second

// Run runs one scenario, several, or with Night.All those of the library or of a folder, and returns the exit code.
func (f *Options) Run(ctx context.Context, out io.Writer, names []string) (int, error) {
	f.KeepSecret(KnownSecrets(f.Args)...)
	if err := f.checkExitCode(len(names)); err != nil {
		return 0, err
	}
	if f.Ratchet.File != "" && (f.Night.All || len(names) > 1) {
		return 0, &leak.UsageError{Err: leak.WithHint(errors.New("--ratchet and several scenarios: a stored verdict is of one"), "run them one at a time, each with its own file")}
	}
	switch {
	case f.Night.All:
		return f.runNight(ctx, out, names)
	case len(names) == 1:
		return f.runScenario(ctx, out, names[0])
	default:
		return f.runEach(ctx, out, scheduled(names))
	}
}

// runScenario runs one scenario, as often as the options say, and returns the exit code.
func (f *Options) runScenario(ctx context.Context, out io.Writer, name string) (int, error) {
	set, err := f.Parameters()
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	src, s, err := Open(name, set)
	if err != nil {
		return 0, err
	}
	format, err := f.Report()
	if err != nil {
		return 0, err
	}
	r, err := f.resolve(src, s)
	if err != nil {
		return 0, err
	}
	r.format = format
	// Errors of the program are reported before leakrig searches for a node image.
	if err := r.launcher.CheckProgram(r.variants); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	r.progress = f.newProgress(&r.private.Secrets)
	defer r.progress.Done()
	if r.provider, err = f.ChooseProvider(ctx, s, r.variants, r.progress); err != nil {
		return 0, err
	}
	with := r.launcher.With
	r.launcher = f.Launcher(src, s, r.provider.Name)
	r.launcher.With = with
	if err := r.launcher.Check(r.variants); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	if f.Times == 1 {
		return f.once(ctx, out, r)
	}
	return f.repeat(out, func() (int, error) { return f.once(ctx, out, r) })
}

// resolved is a scenario with all that it takes to run it.
type resolved struct {
	scenario *leak.Scenario
	variants []leak.Variant
	provider Provider
	launcher *subjects.Launcher
	private  Private
	progress *terminal.Progress
	format   reports.Format
}

// resolve puts the options over a scenario, and finds its secrets. The launcher is that of a scenario without a cluster.
func (f *Options) resolve(src scenarios.Source, s *leak.Scenario) (resolved, error) {
	r := resolved{scenario: s}
	if err := f.openCache(); err != nil {
		return r, err
	}
	variants, err := f.Apply(s)
	if err != nil {
		return r, &leak.UsageError{Err: err}
	}
	r.launcher = f.Launcher(src, s, "")
	if r.variants, r.launcher.With, err = f.otherVersions(s, variants); err != nil {
		return r, &leak.UsageError{Err: err}
	}
	if err := Prepare(s, src); err != nil {
		return r, &leak.UsageError{Err: err}
	}
	r.private, err = f.Hide(src, s)
	return r, err
}

// newProgress returns the progress of a run, without secrets.
func (f *Options) newProgress(secrets *rundir.Secrets) *terminal.Progress {
	p := terminal.NewProgress(os.Stderr)
	p.Silent, p.Secrets = f.Brief, secrets
	return p
}

// repeat runs a scenario several times and reports how many runs were as expected.
func (f *Options) repeat(w io.Writer, once func() (int, error)) (int, error) {
	var codes []int
	met, whole := 0, 0
	for range f.Times {
		code, err := once()
		if err != nil {
			return 0, err
		}
		codes = append(codes, code)
		if code == leak.ExitInterrupted { // which does not count
			break
		}
		whole++
		if code == leak.ExitMet {
			met++
		}
	}
	how := "as expected"
	if f.ExitCode == ExitBisect {
		how = "clean"
	}
	low, high := checks.Share(met, whole)
	_, err := fmt.Fprintf(w, "\n%d of %d runs %s (95 %% interval of the share: %.0f to %.0f %%)\n", met, whole, how, 100*low, 100*high)
	if f.ExitCode == ExitBisect {
		return worstOfBisect(codes), err
	}
	return leak.WorstExit(codes...), err
}

// once is one run: measured, judged, reported.
func (f *Options) once(ctx context.Context, out io.Writer, r resolved) (int, error) {
	to := Conclusion{Write: true, Fresh: true, Secrets: r.private.Secrets}
	if err := f.Ratchet.read(&to); err != nil { // before hours of measuring
		return 0, err
	}
	dir, release, err := f.recorded(r.scenario, r.private.Text, r.progress, func(dir rundir.Dir) error {
		_, err := f.measure(ctx, r, dir, r.progress)
		return err
	})
	defer release()
	r.progress.Done()
	if err != nil {
		return 0, err
	}
	record, seal, err := r.private.sealedRun(dir)
	if err != nil {
		return 0, err
	}
	to.Own, to.Seal = r.launcher.Own(), seal
	verdict, code, err := Conclude(out, dir, r.private.scenario, record, r.format, to)
	if err == nil && f.ExitCode == ExitBisect {
		if code = bisectCode(verdict, record); code == bisectGood && !seal.Holds() {
			code = bisectCannotTell
		}
	}
	return code, err
}

// Prepare reads files that actions need in addition to the scenario.
func Prepare(s *leak.Scenario, src scenarios.Source) error {
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

// Launcher builds and starts the subject, once it has a scratch folder.
func (f *Options) Launcher(src scenarios.Source, s *leak.Scenario, provider string) *subjects.Launcher {
	return &subjects.Launcher{
		Spec: s.Spec.Subject, Placement: f.placed(s, provider), Dependencies: s.Spec.Dependencies, Linked: linked(s), Link: faults.Open,
		Builder: subjects.Builder{
			Source: f.Source, ScenarioDir: filepath.Dir(src.Path), Cache: filepath.Join(f.Clusters.Cache, "subjects"),
			HeapDump:    s.Spec.Holders != leak.HoldersOff,
			LeakProfile: slices.ContainsFunc(s.Spec.Probes, func(b leak.Block[leak.Probe]) bool { return b.Kind == "leaked" }),
		},
	}
}

// linked names what the subject reaches through a proxy, because a fault acts on these connections.
func linked(s *leak.Scenario) []string {
	var names []string
	for _, b := range slices.Concat(s.Spec.Warmup.Round, s.Spec.Round) {
		if f, ok := b.Value.(leak.Fault); ok {
			if name, linked := f.Of(); linked {
				names = append(names, name)
			}
		}
	}
	return names
}

// measure runs the scenario and returns its record, with all that was started stopped again.
func (f *Options) measure(ctx context.Context, r resolved, dir rundir.Dir, progress leak.Progress) (*leak.Record, error) {
	s := r.scenario
	scratch, remove, err := NewScratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	r.launcher.Scratch, r.launcher.Builder.Progress = filepath.Join(scratch, "subjects"), progress
	config := f.RunnerConfig(s, r.variants, dir, progress)
	if config.LoadEnv, err = loadEnv(filepath.Join(scratch, "load")); err != nil {
		return nil, err
	}
	config.Launcher, config.Resume = r.launcher, f.earlier
	r.private.Clean(&config)
	if s.Spec.Soak != nil && len(s.Spec.Subject.Addresses()) > 0 {
		config.Identity = profiles.Identity{}
	}
	logs := dir.Path("cluster")
	if r.provider.Provider != nil {
		config.Boot = func(ctx context.Context, v leak.Variant) (leak.Cluster, error) {
			b := Boot{Provider: r.provider, Run: RunID(dir), Scratch: filepath.Join(scratch, "cluster"), Logs: logs}
			if config.OwnClusters {
				b.Scratch, b.Logs = filepath.Join(b.Scratch, v.Name), filepath.Join(logs, v.Name)
			}
			booting := progress
			if p, ok := progress.(interface{ Side() leak.Progress }); ok && !config.OwnClusters { // builds go on
				booting = p.Side()
				defer booting.Status("")
			}
			return b.Up(ctx, s, v, booting)
		}
	}
	record, err := runner.Run(ctx, config)
	if err == nil && Complete(record) {
		os.RemoveAll(logs) // of interest only when something went wrong
	}
	if len(r.private.Secrets) > 0 { // a run that failed has logs, too
		err = errors.Join(err, RedactLogs(dir, r.private.Secrets))
	}
	return record, err
}

// loadEnv makes every curl in a load fail on HTTP errors: a load of 404s proves nothing. It keeps the user's own
// settings.
func loadEnv(dir string) ([]string, error) {
	var own []byte
	for _, variable := range []string{"CURL_HOME", "XDG_CONFIG_HOME", "HOME"} {
		home := os.Getenv(variable)
		if home == "" || own != nil {
			continue
		}
		own, _ = os.ReadFile(filepath.Join(home, ".curlrc"))
	}
	err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, ".curlrc"), append(own, "\nfail\n"...), 0o600))
	return []string{"CURL_HOME=" + dir}, err
}

// RunnerConfig returns the configuration of a run without its launcher and its cluster.
func (f *Options) RunnerConfig(s *leak.Scenario, variants []leak.Variant, dir rundir.Dir, progress leak.Progress) runner.Config {
	config := runner.Config{
		Scenario: s, Variants: variants, Dir: dir, Metrics: metrics(s), Progress: progress,
		Version: f.Version, Args: f.Args, CheckEvery: checkEvery, OwnClusters: s.Spec.OwnClusters(), LookAgain: checks.JudgesHung(s),
		Vitals: profiles.Vitals,
		Enough: func(v leak.Variant, record leak.VariantRecord) string {
			return checks.Enough(s, v, record, leak.MetricsByName(metrics(s)))
		},
	}
	if s.Spec.Holders != leak.HoldersOff {
		config.HeapDump = holders.Dump
	}
	return config
}

// Complete reports whether every variant was measured to the end.
func Complete(r *leak.Record) bool {
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
