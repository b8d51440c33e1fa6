// Package session is one use of leakrig from options to verdict: it loads the scenario, chooses a provider, runs,
// judges and writes the reports. Several runs, and the folder of their run directories, belong to it, too.
package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
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

// maxTimes bounds --times.
const maxTimes = 1000

// Options are the flags of `leakrig run`.
type Options struct {
	Cluster   string
	Placement string
	Variants  []string
	Rounds    int
	Budget    time.Duration
	Times     int
	Set       []string
	RunsDir   string
	Source    string
	Output
	Clusters cluster.Options
	Args     []string // the command line, for the record
	Version  string
	Hidden   *rundir.Secrets // those of all runs of this command, which are in nothing that it prints
	With     []string
	ExitCode string
	// resume goes on with a soak that was cut short; earlier is its record, nil where a run is a new one.
	Resume  bool
	earlier *leak.Record
	// soak, if set, replaces the rounds of the scenario. soakPreset keeps a soak of the scenario.
	Soak       *leak.SoakSpec
	SoakPreset bool
	// Night are the options of --all.
	Night Night
	// made are the run directories that were made, in order.
	made []rundir.Dir
}

// Run runs one scenario, several, or with Night.All those of the library or of a folder, and returns the exit code.
func (f *Options) Run(ctx context.Context, out io.Writer, names []string) (int, error) {
	if err := f.checkExitCode(len(names)); err != nil {
		return 0, err
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
	f.Hidden.AddAll(KnownSecrets(f.Args)...)
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
	variants, err := f.Apply(s)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	variants, with, err := f.otherVersions(s, variants)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	if err := Prepare(s, src); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	private, err := f.Hide(src, s)
	if err != nil {
		return 0, err
	}
	// Errors of the program are reported before leakrig searches for a node image.
	program := f.Launcher(src, s, "")
	program.With = with
	if err := program.CheckProgram(variants); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	progress := terminal.NewProgress(os.Stderr)
	progress.Silent = f.Brief
	progress.Secrets = &private.Secrets
	defer progress.Done()
	p, err := f.ChooseProvider(ctx, s, variants, progress)
	if err != nil {
		return 0, err
	}
	launcher := f.Launcher(src, s, p.Name)
	launcher.With = with
	if err := launcher.Check(variants); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	r := resolved{scenario: s, variants: variants, provider: p, launcher: launcher, private: private, progress: progress, format: format}
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

// Provider is where the clusters of a run are booted; the zero value is for a scenario without one.
type Provider struct {
	Name string
	leak.Provider
}

// repeat runs a scenario several times and reports how often it was as expected.
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
	dir, _, release, err := f.recorded(r.scenario, r.private.Text, r.progress, func(dir rundir.Dir) (*leak.Record, error) {
		return f.measure(ctx, r, dir, r.progress)
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
	verdict, code, err := Conclude(out, dir, r.private.scenario, record, r.format, Conclusion{Write: true, Fresh: true, Own: r.launcher.Own(), Seal: seal, Secrets: r.private.Secrets})
	if err == nil && f.ExitCode == ExitBisect {
		if code = bisectCode(verdict, record); code == bisectGood && !seal.Holds() {
			code = bisectCannotTell
		}
	}
	return code, err
}

// maxLog bounds the logs in which secrets are looked for; a longer one is cut there.
const maxLog = 256 << 20

// RedactLogs takes secrets out of what the subject and the cluster have said: of every file of a run directory but the
// record and its raw files, which were written without them.
func RedactLogs(dir rundir.Dir, secrets rundir.Secrets) error {
	return filepath.WalkDir(string(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) == ".gz" || path == dir.Path(rundir.RecordFile) || path == dir.Path(rundir.ScenarioFile) {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxLog))
		f.Close()
		if clean := secrets.Redact(data); err == nil && !bytes.Equal(clean, data) {
			err = rundir.WriteFile(path, clean)
		}
		return err
	})
}

// Parameters are the values of --set.
func (f *Options) Parameters() (map[string]string, error) {
	set := map[string]string{}
	for _, s := range f.Set {
		name, value, ok := strings.Cut(s, "=")
		if _, again := set[name]; !ok || again {
			return nil, leak.WithHint(fmt.Errorf("--set %s: not a name and its value, once", s), "as in --set nodes=200")
		}
		set[name] = value
	}
	return set, nil
}

// Apply puts the flags over the scenario and returns the variants to run.
func (f *Options) Apply(s *leak.Scenario) ([]leak.Variant, error) {
	if f.Rounds < 0 || f.Rounds > scenarios.MaxRounds {
		return nil, fmt.Errorf("--rounds must be between 1 and %d", scenarios.MaxRounds)
	}
	if f.Times < 1 || f.Times > maxTimes {
		return nil, fmt.Errorf("--times must be between 1 and %d", maxTimes)
	}
	if f.Soak != nil && (s.Spec.Soak == nil || !f.SoakPreset) {
		if key, hint, err := scenarios.SoakProblem(*f.Soak, s.Spec.Settle.Quiet); err != nil {
			return nil, leak.WithHint(fmt.Errorf("--%s: %w", key, err), "%s", hint)
		}
		s.Spec.Soak, s.Spec.Rounds, s.Spec.MaxRounds, s.Spec.For = f.Soak, 0, 0, 0
	}
	if f.Rounds > 0 && s.Spec.Soak != nil {
		return nil, leak.WithHint(errors.New("--rounds: a soak has rounds by time"), "change soak in the scenario, or leave --rounds out")
	}
	if f.Resume && f.Times > 1 {
		return nil, errors.New("--resume and --times exclude each other")
	}
	switch {
	case f.Budget < 0 || f.Budget > 0 && f.Rounds > 0:
		return nil, errors.New("--for must be more than 0, and excludes --rounds")
	case f.Budget > 0 && s.Spec.Soak != nil:
		return nil, errors.New("--for: a soak says itself how long it takes")
	case f.Budget > 0:
		s.Spec.For = leak.Duration(f.Budget)
	}
	if f.Rounds > 0 {
		s.Spec.For = 0
		s.Spec.Rounds = f.Rounds
		s.Spec.MaxRounds = max(s.Spec.MaxRounds, f.Rounds)
	}
	if len(f.Variants) == 0 {
		return s.Spec.Variants, checks.Feasible(s, len(s.Spec.Variants))
	}
	var chosen []leak.Variant
	var names []string
	for _, v := range s.Spec.Variants {
		names = append(names, v.Name)
		if slices.Contains(f.Variants, v.Name) {
			chosen = append(chosen, v)
		}
	}
	for _, name := range f.Variants {
		if !slices.Contains(names, name) {
			return nil, leak.WithHint(fmt.Errorf("--variant %s: %s has no such variant", name, s.Metadata.Name), "%s", scenarios.OneOf(name, names))
		}
	}
	return chosen, checks.Feasible(s, len(chosen))
}

// ChooseProvider chooses a provider that the scenario allows; the zero value where it needs no cluster. auto
// takes the first that can boot here, and says why another was passed over.
func (f *Options) ChooseProvider(ctx context.Context, s *leak.Scenario, variants []leak.Variant, p leak.Progress) (Provider, error) {
	var none Provider
	bad := func(hint, problem string) error {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--cluster %s: %s", f.Cluster, problem), "%s", hint)}
	}
	var err error
	if f.Clusters.Cache, err = CacheDir(); err != nil {
		return none, err
	}
	f.Clusters.Protected = protectedWords()
	auto := f.Cluster == "auto"
	if s.Spec.OwnClusters() && (f.Clusters.Keep || f.Clusters.Reuse) {
		return none, &leak.UsageError{Err: leak.WithHint(errors.New("--keep and --reuse: the scenario observes the cluster itself, so no other run may have used it"), "leave them out")}
	}
	if s.Spec.Cluster == nil {
		if !auto {
			return none, bad("leave --cluster out", "the scenario uses no cluster")
		}
		if f.Placement == leak.PlacementPod {
			return none, &leak.UsageError{Err: leak.WithHint(errors.New("--placement pod: the scenario uses no cluster"), "leave --placement out")}
		}
		return none, nil
	}
	var reasons []error
	for _, k := range cluster.Kinds(f.Clusters) {
		if !slices.Contains(s.Spec.Cluster.Providers, k.Name) || !auto && f.Cluster != k.Name || auto && k.Name == "existing" {
			continue
		}
		chosen := Provider{k.Name, k.New()}
		if err := f.Preflight(ctx, chosen, s, variants, p); err == nil {
			return chosen, nil
		} else if !auto || ctx.Err() != nil {
			return none, err
		} else {
			p.Log("not on %s: %s", k.Name, FirstLine(err.Error()))
			reasons = append(reasons, err)
		}
	}
	if len(reasons) > 0 {
		return none, errors.Join(reasons...)
	}
	return none, bad("it runs on: "+strings.Join(s.Spec.Cluster.Providers, ", "), "the scenario does not run there")
}

func (f *Options) Preflight(ctx context.Context, on Provider, s *leak.Scenario, variants []leak.Variant, p leak.Progress) error {
	if err := workersReach(s, f.placed(s, on.Name)); err != nil && on.Name != "embedded" {
		return err // embedded has no workers at all, and says so itself
	}
	if pre, ok := on.Provider.(leak.Preflighter); ok {
		for _, v := range variants {
			err := pre.Preflight(ctx, leak.BootOptions{
				Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Pods: f.placed(s, on.Name) == leak.PlacementPod, LoadsPods: loadsPods(s), Workers: hasWorkers(s), Programs: workerPrograms(s),
				Node: v.Node, Components: s.Spec.Subject.Components, Progress: p,
			})
			if err != nil || !s.Spec.OwnClusters() {
				return err
			}
		}
	}
	return nil
}

// loadsPods reports whether an action needs running pods.
func loadsPods(s *leak.Scenario) bool {
	return slices.ContainsFunc(slices.Concat(s.Spec.Warmup.Round, s.Spec.Round), func(b leak.Block[leak.Action]) bool {
		user, ok := b.Value.(leak.ClusterUser)
		return ok && user.UsesPods()
	})
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
func (f *Options) placed(s *leak.Scenario, provider string) string {
	if f.Placement != "" {
		return f.Placement
	}
	if where, ok := s.Spec.Subject.Placement[provider]; ok {
		return where
	}
	return leak.PlacementProcess
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

// NewRunDir makes a folder that no other run has.
func NewRunDir(runs, scenario string) (rundir.Dir, error) { return NewDir(runs, scenario, "") }

func NewDir(runs, scenario, prefix string) (rundir.Dir, error) {
	parent := filepath.Join(runs, scenario)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", leak.WithHint(fmt.Errorf("run directory: %w", err), "is the disk full or the folder read-only? --runs-dir names another one")
	}
	stamp := prefix + time.Now().UTC().Format("20060102T150405Z")
	for i := 1; ; i++ {
		name := stamp
		if i > 1 {
			name = fmt.Sprintf("%s-%d", stamp, i)
		}
		dir := filepath.Join(parent, name)
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return rundir.Dir(dir), nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", leak.WithHint(fmt.Errorf("run directory: %w", err), "is the disk full or the folder read-only? --runs-dir names another one")
		}
	}
}

// Launcher builds and starts the subject, once it has a scratch folder.
func (f *Options) Launcher(src scenarios.Source, s *leak.Scenario, provider string) *subjects.Launcher {
	return &subjects.Launcher{
		Spec: s.Spec.Subject, Placement: f.placed(s, provider),
		Builder: subjects.Builder{
			Source: f.Source, ScenarioDir: filepath.Dir(src.Path), Cache: filepath.Join(f.Clusters.Cache, "subjects"),
			LeakProfile: slices.ContainsFunc(s.Spec.Probes, func(b leak.Block[leak.Probe]) bool { return b.Kind == "leaked" }),
		},
	}
}

// measure runs the scenario and returns its record, with all that was started stopped again.
func (f *Options) measure(ctx context.Context, r resolved, dir rundir.Dir, progress leak.Progress) (*leak.Record, error) {
	s := r.scenario
	scratch, remove, err := NewScratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	r.launcher.Scratch = filepath.Join(scratch, "subjects")
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
			return b.Up(ctx, s, v, progress)
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
	return runner.Config{
		Scenario: s, Variants: variants, Dir: dir, Metrics: metrics(s), Progress: progress,
		Version: f.Version, Args: f.Args, CheckEvery: checkEvery, OwnClusters: s.Spec.OwnClusters(), LookAgain: checks.JudgesHung(s),
		Vitals: profiles.Vitals,
		Enough: func(v leak.Variant, record leak.VariantRecord) string {
			return checks.Enough(s, v, record, leak.MetricsByName(metrics(s)))
		},
	}
}

// Boot is where a cluster is booted: run names it, scratch and logs are folders for it.
type Boot struct {
	Provider           leak.Provider
	Run, Scratch, Logs string
}

func (b Boot) Up(ctx context.Context, s *leak.Scenario, v leak.Variant, progress leak.Progress) (leak.Cluster, error) {
	if err := errors.Join(os.MkdirAll(b.Logs, 0o700), os.MkdirAll(b.Scratch, 0o700)); err != nil {
		return nil, err
	}
	return b.Provider.Boot(ctx, leak.BootOptions{
		Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Run: b.Run, Node: v.Node, Components: s.Spec.Subject.Components,
		Programs: workerPrograms(s), Scratch: b.Scratch, Logs: b.Logs, Progress: progress,
	})
}

// RunID names the run as a DNS label: its start, and something that no other run has.
func RunID(dir rundir.Dir) string {
	random := make([]byte, 3)
	_, _ = rand.Read(random) // never fails
	return strings.ToLower(filepath.Base(string(dir))) + "-" + hex.EncodeToString(random)
}

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
