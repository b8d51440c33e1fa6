package main

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

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
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

// runFlags are the flags of `leakrig run`.
type runFlags struct {
	cluster   string
	placement string
	variants  []string
	rounds    int
	budget    time.Duration
	times     int
	set       []string
	runsDir   string
	source    string
	outputFlags
	options  cluster.Options
	args     []string      // the command line, for the record
	hidden   *leak.Secrets // those of all runs of this command, which are in nothing that it prints
	with     []string
	exitCode string
	// resume goes on with a soak that was cut short; earlier is its record, nil where a run is a new one.
	resume  bool
	earlier *leak.Record
	// soak, if set, replaces the rounds of the scenario. soakPreset keeps a soak of the scenario.
	soak       *leak.SoakSpec
	soakPreset bool
	// night is set for --all, folders is what it was given.
	night   *nightFlags
	folders []string
	// made are the run directories that were made, in order.
	made []leak.RunDir
}

func (a *app) runCommand() *cobra.Command {
	f := runFlags{args: a.args, hidden: &a.hidden}
	var night nightFlags
	c := &cobra.Command{
		Use:   "run NAME|FILE... | --all [DIR]",
		Short: "Run scenarios, judge them, and write their reports",
		Long: `Run a scenario of the library (see leakrig list) or a scenario file: build the variants, boot the
cluster, run the load, profile the subject before and after every round, judge, and write the report.

The last lines of the output name the run directory, which contains all measurements. Results go to
standard output, progress to standard error. With several scenarios, leakrig runs all of them, and the
exit code is the worst one, in the order 130, 2, 3, 1, 4, 0.

--all runs the library, or every scenario file in DIR, and writes nightly.md and index.html into the
runs directory. It skips and lists scenarios that do not support --cluster. A scenario that cannot
run here counts as "could not measure". Only one such run at a time can use a runs directory.`,
		Example: `  leakrig run watch-then-delete
  leakrig run watch-then-delete --variant leaky --variant fixed
  leakrig run ./my-service.yaml --rounds 12
  leakrig run --all --prune`,
		Args: func(c *cobra.Command, args []string) error { return night.check(c, args) },
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := f.checkExitCode(len(args)); err != nil {
				return err
			}
			switch {
			case night.all:
				a.code, err = f.runNight(c, night, args)
			case len(args) == 1:
				a.code, err = f.run(c, args[0])
			default:
				a.code, err = f.runEach(c, scheduled(args))
			}
			return err
		},
	}
	night.add(c)
	c.Flags().IntVar(&f.rounds, "rounds", 0, "number of measured rounds, instead of the scenario's")
	c.Flags().DurationVar(&f.budget, "for", 0, "time budget for adding operations until every check is decided, instead of the scenario's rounds")
	c.Flags().IntVar(&f.times, "times", 1, "number of repetitions; prints how many were as expected")
	c.Flags().BoolVar(&f.resume, "resume", false, resumeDoc)
	wordFlag(c, &f.placement, "placement", "", []string{leak.PlacementProcess, leak.PlacementPod}, "placement of the subject, instead of the scenario's")
	c.Flags().BoolVar(&f.options.Keep, "keep", false, "keep the kind cluster for --reuse (leakrig clean deletes it)")
	c.Flags().BoolVar(&f.options.Reuse, "reuse", false, "reuse a kept kind cluster with the same image and nodes")
	workerFlags(c, &f.options)
	wordFlag(c, &f.exitCode, "exit-code", "verdict", []string{"verdict", exitBisect}, "meaning of the exit code; bisect is for git bisect run (0 clean, 1 leaking, 125 undecided)")
	f.addScenarioFlags(c)
	f.outputFlags.addFlags(c)
	c.Flags().StringVar(&f.runsDir, "runs-dir", "runs", "folder for run directories")
	completeFolders(c, "runs-dir", "source")
	return c
}

// addScenarioFlags adds the flags of a scenario that is run once or soaked.
func (f *runFlags) addScenarioFlags(c *cobra.Command) {
	o := c.Flags()
	wordFlag(c, &f.cluster, "cluster", "auto", append([]string{"auto"}, kinds().Providers...), "provider of the cluster")
	o.StringSliceVar(&f.variants, "variant", nil, "variant to run (repeatable; default: all)")
	o.StringArrayVar(&f.set, "set", nil, "value of a parameter of the scenario, `name=value` (repeatable)")
	o.StringSliceVar(&f.with, "with", nil, "version of a module to build the variants with, `module@version` (repeatable)")
	o.StringVar(&f.source, "source", "", "checkout with subjects/ (default: searched from the current folder up)")
	o.StringVar(&f.options.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of an existing cluster (default: as kubectl)")
	o.StringVar(&f.options.Context, "context", "", "context of an existing cluster (default: the current one)")
	o.BoolVar(&f.options.Yes, "yes", false, "run on a context that looks like production")
	c.ValidArgsFunction = scenarioArgs
	completeWith(c, "variant", variantsOf)
	completeWith(c, "set", parametersOf)
}

func (f *runFlags) run(c *cobra.Command, name string) (int, error) {
	f.hidden.AddAll(knownSecrets(f.args)...)
	set, err := f.parameters()
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	src, s, err := open(name, set)
	if err != nil {
		return 0, err
	}
	format, err := f.report()
	if err != nil {
		return 0, err
	}
	variants, err := f.apply(s)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	variants, with, err := f.otherVersions(s, variants)
	if err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	if err := prepare(s, src); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	private, err := f.hide(src, s)
	if err != nil {
		return 0, err
	}
	// Errors of the program are reported before leakrig searches for a node image.
	program := f.launcher(src, s, "")
	program.With = with
	if err := program.CheckProgram(variants); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	progress := terminal.NewProgress(os.Stderr)
	progress.Silent = f.brief
	progress.Secrets = &private.secrets
	defer progress.Done()
	provider, err := f.provider(c.Context(), s, variants, progress)
	if err != nil {
		return 0, err
	}
	launcher := f.launcher(src, s, provider.Name)
	launcher.With = with
	if err := launcher.Check(variants); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	once := func() (int, error) {
		return f.once(c, private, s, variants, provider, launcher, progress, format)
	}
	if f.times == 1 {
		return once()
	}
	return f.repeat(c.OutOrStdout(), once)
}

// repeat runs a scenario several times and reports how often it was as expected.
func (f *runFlags) repeat(w io.Writer, once func() (int, error)) (int, error) {
	var codes []int
	met, whole := 0, 0
	for range f.times {
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
	if f.exitCode == exitBisect {
		how = "clean"
	}
	low, high := checks.Share(met, whole)
	_, err := fmt.Fprintf(w, "\n%d of %d runs %s (95 %% interval of the share: %.0f to %.0f %%)\n", met, whole, how, 100*low, 100*high)
	if f.exitCode == exitBisect {
		return worstOfBisect(codes), err
	}
	return leak.WorstExit(codes...), err
}

// once is one run: measured, judged, reported.
func (f *runFlags) once(c *cobra.Command, private private, s *leak.Scenario, variants []leak.Variant, provider leak.Kind[leak.Provider], launcher *subjects.Launcher, progress *terminal.Progress, format reports.Format) (int, error) {
	dir, _, release, err := f.recorded(s, private.text, progress, func(dir leak.RunDir) (*leak.Record, error) {
		return f.measure(c.Context(), s, variants, provider, launcher, dir, progress, private)
	})
	defer release()
	progress.Done()
	if err != nil {
		return 0, err
	}
	record, seal, err := private.sealedRun(dir)
	if err != nil {
		return 0, err
	}
	code, err := conclude(c.OutOrStdout(), dir, private.scenario, record, format, conclusion{write: true, fresh: true, own: launcher.Own(), seal: seal, secrets: private.secrets})
	if err == nil && f.exitCode == exitBisect {
		if code = bisectCode(private.scenario, record); code == bisectGood && !seal.Holds() {
			code = bisectCannotTell
		}
	}
	return code, err
}

// maxLog bounds the logs in which secrets are looked for; a longer one is cut there.
const maxLog = 256 << 20

// redactLogs takes secrets out of what the subject and the cluster have said: of every file of a run directory but the
// record and its raw files, which were written without them.
func redactLogs(dir leak.RunDir, secrets leak.Secrets) error {
	return filepath.WalkDir(string(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) == ".gz" || path == dir.Path(leak.RecordFile) || path == dir.Path(leak.ScenarioFile) {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxLog))
		f.Close()
		if clean := secrets.Redact(data); err == nil && !bytes.Equal(clean, data) {
			err = leak.WriteFile(path, clean)
		}
		return err
	})
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
	if f.soak != nil && (s.Spec.Soak == nil || !f.soakPreset) {
		if key, hint, err := scenarios.SoakProblem(*f.soak, s.Spec.Settle.Quiet); err != nil {
			return nil, leak.WithHint(fmt.Errorf("--%s: %w", key, err), "%s", hint)
		}
		s.Spec.Soak, s.Spec.Rounds, s.Spec.MaxRounds, s.Spec.For = f.soak, 0, 0, 0
	}
	if f.rounds > 0 && s.Spec.Soak != nil {
		return nil, leak.WithHint(errors.New("--rounds: a soak has rounds by time"), "change soak in the scenario, or leave --rounds out")
	}
	if f.resume && f.times > 1 {
		return nil, errors.New("--resume and --times exclude each other")
	}
	switch {
	case f.budget < 0 || f.budget > 0 && f.rounds > 0:
		return nil, errors.New("--for must be more than 0, and excludes --rounds")
	case f.budget > 0 && s.Spec.Soak != nil:
		return nil, errors.New("--for: a soak says itself how long it takes")
	case f.budget > 0:
		s.Spec.For = leak.Duration(f.budget)
	}
	if f.rounds > 0 {
		s.Spec.For = 0
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
			return nil, leak.WithHint(fmt.Errorf("--variant %s: %s has no such variant", name, s.Metadata.Name), "%s", oneOfHint(name, names))
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
	if err := workersReach(s, f.placed(s, k.Name)); err != nil && k.Name != "embedded" {
		return err // embedded has no workers at all, and says so itself
	}
	if pre, ok := k.New().(leak.Preflighter); ok {
		for _, v := range variants {
			err := pre.Preflight(ctx, leak.BootOptions{
				Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Pods: f.placed(s, k.Name) == leak.PlacementPod, LoadsPods: loadsPods(s), Workers: hasWorkers(s), Programs: workerPrograms(s),
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
func (f *runFlags) placed(s *leak.Scenario, provider string) string {
	if f.placement != "" {
		return f.placement
	}
	if where, ok := s.Spec.Subject.Placement[provider]; ok {
		return where
	}
	return leak.PlacementProcess
}

// prepare reads files that actions need in addition to the scenario.
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
func newRunDir(runs, scenario string) (leak.RunDir, error) { return newDir(runs, scenario, "") }

func newDir(runs, scenario, prefix string) (leak.RunDir, error) {
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
func (f *runFlags) measure(ctx context.Context, s *leak.Scenario, variants []leak.Variant, provider leak.Kind[leak.Provider], launcher *subjects.Launcher, dir leak.RunDir, progress leak.Progress, private private) (*leak.Record, error) {
	scratch, remove, err := newScratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	launcher.Scratch = filepath.Join(scratch, "subjects")
	config := f.config(s, variants, dir, progress)
	if config.LoadEnv, err = loadEnv(filepath.Join(scratch, "load")); err != nil {
		return nil, err
	}
	config.Launcher, config.Resume = launcher, f.earlier
	private.clean(&config)
	if s.Spec.Soak != nil && len(s.Spec.Subject.Addresses()) > 0 {
		config.Identity = profiles.Identity{}
	}
	logs := dir.Path("cluster")
	if provider.New != nil {
		config.Boot = func(ctx context.Context, v leak.Variant) (leak.Cluster, error) {
			b := boot{provider: provider, run: runID(dir), scratch: filepath.Join(scratch, "cluster"), logs: logs}
			if config.OwnClusters {
				b.scratch, b.logs = filepath.Join(b.scratch, v.Name), filepath.Join(logs, v.Name)
			}
			return b.up(ctx, s, v, progress)
		}
	}
	record, err := runner.Run(ctx, config)
	if err == nil && complete(record) {
		os.RemoveAll(logs) // of interest only when something went wrong
	}
	if len(private.secrets) > 0 { // a run that failed has logs, too
		err = errors.Join(err, redactLogs(dir, private.secrets))
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

// config returns the configuration of a run without its launcher and its cluster.
func (f *runFlags) config(s *leak.Scenario, variants []leak.Variant, dir leak.RunDir, progress leak.Progress) runner.Config {
	return runner.Config{
		Scenario: s, Variants: variants, Dir: dir, Metrics: metrics(s), Progress: progress,
		Version: version(), Args: f.args, CheckEvery: checkEvery, OwnClusters: s.Spec.OwnClusters(), LookAgain: checks.JudgesHung(s),
		Vitals: profiles.Vitals,
		Enough: func(v leak.Variant, record leak.VariantRecord) string {
			return checks.Enough(s, v, record, leak.MetricsByName(metrics(s)))
		},
	}
}

// boot is where a cluster is booted: run names it, scratch and logs are folders for it.
type boot struct {
	provider           leak.Kind[leak.Provider]
	run, scratch, logs string
}

func (b boot) up(ctx context.Context, s *leak.Scenario, v leak.Variant, progress leak.Progress) (leak.Cluster, error) {
	if err := errors.Join(os.MkdirAll(b.logs, 0o700), os.MkdirAll(b.scratch, 0o700)); err != nil {
		return nil, err
	}
	return b.provider.New().Boot(ctx, leak.BootOptions{
		Spec: *s.Spec.Cluster, Fixtures: s.Spec.Fixtures, Run: b.run, Node: v.Node, Components: s.Spec.Subject.Components,
		Programs: workerPrograms(s), Scratch: b.scratch, Logs: b.logs, Progress: progress,
	})
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
