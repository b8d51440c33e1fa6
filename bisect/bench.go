package bisect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/runner"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/subjects"
)

// closeTimeout bounds the stop of the cluster that all steps share.
const closeTimeout = 2 * time.Minute

// bench is where the steps of a bisection are built and measured. One cluster serves them all, unless the
// scenario wants one for each.
type bench struct {
	*Bisection
	src      scenarios.Source
	scenario *leak.Scenario
	chosen   leak.Variant
	provider session.Provider
	progress leak.Progress
	works    *aheadBuilder
	scratch  string
	remove   func()
	// dir and record are those of the bisection.
	dir    rundir.Dir
	record *Record
	// shared is the cluster of all steps, nil before it is booted and after it was lost.
	shared leak.Cluster
	closed bool
}

// made is a version that was built.
type made struct {
	launcher *subjects.Launcher
	variant  leak.Variant
}

// built is a launcher whose variant was built before.
type built struct{ *subjects.Launcher }

// stepProgress reports the progress of one step and ends with one line.
type stepProgress struct {
	leak.Progress
	version, variant string
}

func (s stepProgress) Log(format string, args ...any) { s.Status(format, args...) }

func (s stepProgress) Status(format string, args ...any) {
	s.Progress.Status("%s: %s", s.version, strings.TrimPrefix(fmt.Sprintf(format, args...), s.variant+": "))
}

func (built) Build(context.Context, leak.Variant) error { return nil }

func (b *Bisection) bench(ctx context.Context, src scenarios.Source, s *leak.Scenario, progress leak.Progress) (*bench, error) {
	w := &bench{Bisection: b, src: src, scenario: s, progress: progress}
	w.chosen = s.Spec.Variants[slices.IndexFunc(s.Spec.Variants, func(v leak.Variant) bool { return v.Name == b.Question.Variant })]
	first := w.chosen
	if b.Question.Kind == OfNode {
		var err error
		if first, err = session.Repinned(w.chosen, b.modules(b.Question.Bad)); err != nil {
			return nil, &leak.UsageError{Err: err}
		}
	}
	var err error
	if w.provider, err = b.ChooseProvider(ctx, s, []leak.Variant{first}, progress); err != nil {
		return nil, err
	}
	if b.Question.Kind == OfCommit {
		_, _, err = w.inRepo()
	} else {
		err = b.Launcher(src, s, w.provider.Name).Check([]leak.Variant{w.chosen})
	}
	if err != nil {
		return nil, &leak.UsageError{Err: err}
	}
	if w.scratch, w.remove, err = session.NewScratch(); err != nil {
		return nil, err
	}
	w.works = newAheadBuilder(w.make)
	return w, nil
}

// close stops builds and the cluster, and removes temporary files. It may be called again.
func (w *bench) close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.works.stop()
	err := w.down()
	w.remove()
	return err
}

// down stops the shared cluster.
func (w *bench) down() error {
	if w.shared == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := w.shared.Close(ctx)
	w.shared = nil
	if err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	return nil
}

// make builds one version. behind is set if another version is measured at the same time.
func (w *bench) make(ctx context.Context, c Candidate, behind bool) (*made, error) {
	m := &made{launcher: w.Launcher(w.src, w.scenario, w.provider.Name), variant: w.chosen}
	name := safe(c.Version)
	m.launcher.Scratch = filepath.Join(w.scratch, "subjects", name)
	m.launcher.Builder.Cache = filepath.Join(w.scratch, "builds")
	m.launcher.Builder.Nice = behind
	switch w.Question.Kind {
	case OfNode:
		var err error
		if m.variant, err = session.Repinned(w.chosen, w.modules(c.Version)); err != nil {
			return nil, err
		}
		if err := w.Preflight(ctx, w.provider, w.scenario, []leak.Variant{m.variant}, w.progress); err != nil {
			return nil, err
		}
	case OfModule:
		m.launcher.With = w.modules(c.Version)
	case OfCommit:
		tree := filepath.Join(w.scratch, "trees", name)
		if w.scenario.Spec.Subject.Build != "" {
			defer os.RemoveAll(tree)
		}
		if err := w.checkout(ctx, m.launcher, c, tree); err != nil {
			return nil, err
		}
	}
	return m, m.launcher.Build(ctx, m.variant)
}

// inRepo is where the subject is below the top of the repository: the folder that subject.build is relative to,
// or the path of the program. A subject that does not come from there is refused.
func (w *bench) inRepo() (base, command string, err error) {
	spec := w.scenario.Spec.Subject
	if spec.Build == "" {
		if !strings.ContainsRune(spec.Command[0], filepath.Separator) || filepath.IsAbs(spec.Command[0]) {
			return "", "", leak.WithHint(fmt.Errorf("subject.command: %s is the same program at every commit", spec.Command[0]), "name one by a relative path, ./my-service, which is looked up in each commit; --make builds it there")
		}
		command, err = w.repo.Inside(spec.Command[0])
		return "", command, err
	}
	builder := w.Launcher(w.src, w.scenario, w.provider.Name).Builder
	folder, err := builder.Folder(spec.Build)
	if err != nil {
		return "", "", err
	}
	if folder, err = w.repo.Inside(folder); err != nil {
		return "", "", err
	}
	if strings.HasPrefix(spec.Build, ".") {
		base, err = w.repo.Inside(builder.ScenarioDir)
		return base, "", err
	}
	// The folder may be in a group: subjects/museum/NAME.
	return folder[:strings.LastIndex(folder, leak.SourceDir+string(filepath.Separator))], "", nil
}

// checkout writes a commit into a folder and has the launcher take the subject from there.
func (w *bench) checkout(ctx context.Context, l *subjects.Launcher, c Candidate, tree string) error {
	base, command, err := w.inRepo()
	if err != nil {
		return err
	}
	if err := w.repo.Checkout(ctx, subjects.Commit{Hash: c.Version}, tree); err != nil {
		return err
	}
	l.Builder.ScenarioDir, l.Builder.Source = filepath.Join(tree, base), filepath.Join(tree, base)
	if command == "" {
		return nil
	}
	l.Spec.Command = slices.Clone(l.Spec.Command)
	l.Spec.Command[0] = filepath.Join(tree, command)
	if w.Question.Make == "" {
		return nil
	}
	here, err := w.repo.Inside(".")
	if err != nil {
		here = "."
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", w.Question.Make)
	cmd.Dir = filepath.Join(tree, here)
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w\n%s", w.Question.Make, err, out)
	}
	return nil
}

// Measure builds a version and runs the scenario with it.
func (w *bench) Measure(ctx context.Context, c Candidate, ahead []Candidate) (Step, error) {
	var step Step
	w.progress.Status("%s: building", c.Name())
	job, err := w.works.get(ctx, c)
	if ctx.Err() != nil {
		return step, context.Cause(ctx)
	}
	step.BuildSeconds, step.WaitSeconds = job.account()
	if err != nil {
		step.State, step.Reason = Skipped, subjects.Reason(err)
		return step, nil
	}
	w.works.ahead(ahead)
	dir, err := w.stepDir(c)
	if err != nil {
		return step, err
	}
	start := time.Now()
	_, err = w.runOne(ctx, job.made, c, dir)
	step.RunSeconds = time.Since(start).Seconds()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		os.RemoveAll(string(dir)) // it is in no record
		return step, err
	}
	if len(w.private.Secrets) > 0 {
		if err := session.RedactLogs(dir, w.private.Secrets); err != nil {
			return step, err
		}
	}
	s, record, seal, err := session.ReadRun(dir, "", rundir.OfFiles) // what was kept is what is judged
	if err != nil {
		return step, err
	}
	text, err := session.FindFormat("text")
	var verdict *leak.Verdict
	if err == nil {
		verdict, _, err = session.Conclude(io.Discard, dir, s, record, text, session.Conclusion{Write: true, Fresh: true, Own: w.own(job.made), Seal: seal, Secrets: w.private.Secrets})
	}
	if err != nil {
		return step, err
	}
	step.Run = filepath.Base(string(dir))
	vv := verdict.Variants[0]
	step.State, step.Reason, step.Growth = state(vv.Outcome), vv.Reason, growth(vv)
	if !seal.Holds() {
		step.State, step.Reason = Unsure, seal.String()
	}
	return step, w.lost(ctx)
}

// own returns the folder that a version was built from, nil for a commit, whose folder no longer exists.
func (w *bench) own(m *made) *subjects.OwnSource {
	if w.Question.Kind == OfCommit {
		return nil
	}
	return m.launcher.Own()
}

// stepDir makes the run directory of a step.
func (w *bench) stepDir(c Candidate) (rundir.Dir, error) {
	for i := len(w.record.Steps) + 1; ; i++ {
		dir := rundir.Dir(w.dir.Path(fmt.Sprintf("%02d-%s", i, safe(c.Name()))))
		err := os.Mkdir(string(dir), 0o700)
		if errors.Is(err, os.ErrExist) {
			continue // of an earlier session, whose steps were fewer
		}
		if err == nil {
			err = dir.WriteFile(rundir.ScenarioFile, w.private.Text)
		}
		return dir, err
	}
}

// runOne runs the scenario with one version. An error means that no version could be measured.
func (w *bench) runOne(ctx context.Context, m *made, c Candidate, dir rundir.Dir) (*leak.Record, error) {
	f := w.Options
	f.Args = w.Question.RunArgs(c.Version)
	config := f.RunnerConfig(w.scenario, []leak.Variant{m.variant}, dir, stepProgress{w.progress, c.Name(), m.variant.Name})
	config.Launcher, config.Shared = built{m.launcher}, !config.OwnClusters
	w.private.Clean(&config)
	config.Args = session.KeptArgs(f.Args, w.private.Parameters, w.private.Secrets)
	var boots error
	if w.provider.Provider != nil {
		config.Boot = func(ctx context.Context, v leak.Variant) (leak.Cluster, error) {
			var c leak.Cluster
			c, boots = w.boot(ctx, v, dir)
			return c, boots
		}
	}
	record, err := runner.Run(ctx, config)
	if err == nil && session.Complete(record) {
		os.RemoveAll(dir.Path("cluster")) // of interest only when something went wrong
	}
	if config.OwnClusters {
		boots = nil // it may be this version's own fault, and is in its record
	}
	return record, errors.Join(err, boots)
}

// boot returns the cluster of all steps, or boots one.
func (w *bench) boot(ctx context.Context, v leak.Variant, dir rundir.Dir) (leak.Cluster, error) {
	if w.shared != nil {
		return w.shared, nil
	}
	start := time.Now()
	w.record.Boots++
	b := session.Boot{
		Provider: w.provider, Run: session.RunID(w.dir), Logs: dir.Path("cluster"),
		Scratch: filepath.Join(w.scratch, fmt.Sprintf("cluster-%d", w.record.Boots)),
	}
	c, err := b.Up(ctx, w.scenario, v, w.progress)
	w.record.BootSeconds += time.Since(start).Seconds()
	if err == nil && !w.scenario.Spec.OwnClusters() {
		w.shared = c
	}
	return c, err
}

// lost gives up a shared cluster that no longer answers: the next step boots another one.
func (w *bench) lost(ctx context.Context) error {
	if w.shared == nil || w.shared.Check(ctx) == nil || ctx.Err() != nil {
		return nil
	}
	w.progress.Log("the cluster no longer answers: the next step boots another one")
	return w.down()
}

func state(o leak.Outcome) State {
	switch o {
	case leak.Leaking:
		return Leaky
	case leak.Clean:
		return Clean
	}
	return Unsure
}

// growth returns the most significant findings: those of the fingerprint, else leaking ones, else the first.
func growth(vv leak.VariantVerdict) []Growth {
	chosen := slices.DeleteFunc(slices.Clone(vv.Findings), func(f leak.Finding) bool { return !f.Fingerprint })
	if len(chosen) == 0 {
		chosen = slices.DeleteFunc(slices.Clone(vv.Findings), func(f leak.Finding) bool { return f.Outcome != leak.Leaking })
	}
	if len(chosen) == 0 {
		chosen = vv.Findings[:min(1, len(vv.Findings))]
	}
	var all []Growth
	for _, f := range chosen {
		g := Growth{Check: f.Check, Outcome: f.Outcome, PerOperation: f.PerOperation, Unit: f.Unit, InAll: !f.BoundPerOperation, Summary: f.Summary, Fingerprint: f.Fingerprint}
		for i, p := range f.Points {
			if i == 0 {
				g.From = p.Value
			}
			if !p.Idle {
				g.To = p.Value
			}
		}
		all = append(all, g)
	}
	return all
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9._+-]`)

// safe is a version as part of a file name.
func safe(version string) string { return unsafeInNames.ReplaceAllString(version, "_") }
