package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leakrig/leakrig/bisect"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/subjects"
	"github.com/leakrig/leakrig/terminal"
)

// bisectPrefix begins the name of a bisection's directory.
const bisectPrefix = "bisect-"

// maxRepeats bounds --repeats, maxSpots --spots.
const (
	maxRepeats = 100
	maxSpots   = 10
)

// bisection are the flags of `leakrig bisect`.
type bisection struct {
	session.Options
	question bisect.Question
	variant  string
	resume   string
	seal     leak.Seal // that of the record that is gone on with
	fresh    bool
	// private is what is not kept; accept takes a record that was changed.
	private session.Private
	accept  bool
	// repo and ends, bad and good, are those of a search over commits.
	repo subjects.Repo
	ends [2]subjects.Commit
}

func (a *app) bisectCommand() *cobra.Command {
	b := &bisection{Options: session.Options{Args: a.args, Version: version(), Hidden: &a.hidden, Times: 1}}
	c := &cobra.Command{
		Use:   "bisect NAME|FILE",
		Short: "Find the version or commit that introduced or fixed a leak",
		Long: `Search the versions of a module, or with --repo the commits of a repository, between a leaky one and a
clean one. Each step builds a variant of the scenario with another version and runs it. The checks of
the scenario, and the fingerprint of the variant, decide.

Candidates are the versions that the module proxy lists, without pre-releases and retracted ones, and
those of --candidates. bisect skips and lists versions that do not build or that stay undecided. It
measures both ends first, and the neighbours of the answer twice.

Run the same command again, or --resume DIR, to resume an interrupted search.

Exit codes:   0 found · 1 an end does not show the given outcome · 2 bad usage · 3 could not measure
              4 no reliable answer · 130 interrupted`,
		Example: `  leakrig bisect watch-then-delete --module k8s.io/apimachinery --with k8s.io/client-go,k8s.io/api \
      --bad v0.18.8 --good v0.21.0 --candidates v0.21.0-beta.0,v0.21.0-beta.1
  leakrig bisect parallel-exec --module github.com/containerd/ttrpc --bad v1.0.2 --good v1.1.0
  leakrig bisect ./my-service.yaml --repo . --good v2.3.0 --bad main`,
		Args: func(c *cobra.Command, args []string) error {
			if b.resume != "" {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				b.question.Scenario = args[0]
			}
			a.code, err = b.run(c)
			return err
		},
	}
	q := &b.question
	f := c.Flags()
	f.StringVar(&q.Module, "module", "", "`path` of the module to search")
	f.StringSliceVar(&q.With, "with", nil, "`path` of a module with the same version (repeatable)")
	f.StringVar(&q.Bad, "bad", "", "leaky `version` or commit")
	f.StringVar(&q.Good, "good", "", "clean `version` or commit")
	f.StringSliceVar(&q.Given, "candidates", nil, "`versions` in addition to those of the module proxy")
	f.BoolVar(&q.Pre, "pre", false, "include pre-releases of the module proxy")
	f.BoolVar(&q.AllLines, "all-lines", false, "search each release line (v0.20, v0.21) separately")
	f.StringVar(&q.Repo, "repo", "", "`folder` of a repository with the subject, to search its commits")
	f.StringVar(&q.Make, "make", "", "shell `command` that builds subject.command in each commit")
	f.StringVar(&b.variant, "variant", "", "variant to build (default: the first that is expected to leak and has a modfile or node commands)")
	f.IntVar(&q.Repeats, "repeats", 1, "number of repeated measurements of each neighbour of the answer")
	f.IntVar(&q.Spots, "spots", 2, "maximum number of versions far from the answer to check for a second boundary")
	f.StringVar(&b.resume, "resume", "", "`folder` of the bisection to resume")
	acceptFlag(c, &b.accept)
	f.BoolVar(&b.fresh, "fresh", false, "do not resume an interrupted search")
	f.IntVar(&q.Rounds, "rounds", 0, "number of measured rounds, instead of the scenario's")
	wordFlag(c, &q.Cluster, "cluster", "auto", append([]string{"auto"}, session.Kinds().Providers...), "provider of the cluster")
	f.StringVar(&q.Placement, "placement", "", "placement of the subject, process or pod, instead of the scenario's")
	f.StringVar(&q.Source, "source", "", "checkout with subjects/ (default: searched from the current folder up)")
	f.StringArrayVar(&b.Set, "set", nil, "value of a parameter of the scenario, `name=value` (repeatable)")
	f.StringVar(&b.RunsDir, "runs-dir", "runs", "folder for run directories")
	f.StringVar(&b.Clusters.KubeconfigFile, "kubeconfig", "", "kubeconfig `file` of an existing cluster (default: as kubectl)")
	f.StringVar(&b.Clusters.Context, "context", "", "context of an existing cluster (default: the current one)")
	f.BoolVar(&b.Clusters.Yes, "yes", false, "run on a context that looks like production")
	workerFlags(c, &b.Clusters)
	var names []string
	for _, format := range bisect.Formats() {
		names = append(names, format.Name)
	}
	wordFlag(c, &b.Format, "format", "text", names, "output format")
	c.ValidArgsFunction = scenarioArgs
	completeWith(c, "variant", variantsOf)
	completeWith(c, "set", parametersOf)
	completeFolders(c, "repo", "resume", "runs-dir", "source")
	return c
}

func (b *bisection) run(c *cobra.Command) (int, error) {
	format, err := findBisectFormat(b.Format)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	b.Hidden.AddAll(session.KnownSecrets(b.Args)...)
	progress := terminal.NewProgress(os.Stderr)
	progress.Secrets = b.Hidden
	defer progress.Done()
	var record *bisect.Record
	if b.resume != "" {
		if record, err = b.reopen(); err != nil {
			return 0, err
		}
		if !record.Open() {
			progress.Log("%s is finished: this is its answer", b.resume)
			code, err := b.print(c.OutOrStdout(), format, record, b.resume)
			return session.SealedCode(code, b.seal, b.accept), err
		}
	}
	src, s, err := b.open(c.Context())
	if err != nil {
		return 0, err
	}
	record, dir, err := b.earlier(record, s, progress)
	if err != nil {
		return 0, err
	}
	fresh := record == nil
	if fresh {
		if record, err = b.begin(c.Context(), s, progress); err != nil {
			return 0, err
		}
	}
	w, err := b.bench(c.Context(), src, s, progress)
	if err != nil {
		return 0, err
	}
	defer w.close()
	if fresh {
		if err := w.buildEnds(c.Context(), record); err != nil {
			return 0, err
		}
		made, err := session.NewDir(b.RunsDir, s.Metadata.Name, bisectPrefix)
		if err == nil {
			err = made.WriteFile(leak.ScenarioFile, b.private.Text)
		}
		if err != nil {
			return 0, err
		}
		dir = string(made)
	}
	w.dir, w.record = leak.RunDir(dir), record
	err = bisect.Run(c.Context(), bisect.Config{
		Record: record, Oracle: w, Progress: progress, Now: time.Now, Begun: begun,
		Save: func(r *bisect.Record) error { return bisect.Write(dir, r, b.private.Secrets...) },
	})
	err = errors.Join(err, w.close())
	progress.Done()
	if err != nil {
		if record.Failure != nil {
			progress.Log("%d steps are kept: leakrig bisect --resume %s goes on with them", len(record.Steps), dir)
		}
		return 0, err
	}
	if record, err = b.read(dir); err != nil { // without its secrets
		return 0, err
	}
	code, err := b.print(c.OutOrStdout(), format, record, dir)
	return session.SealedCode(code, b.seal, b.accept), err
}

// read reads the record of a bisection. It refuses an altered one, unless accepted.
func (b *bisection) read(dir string) (*bisect.Record, error) {
	record, seal, err := bisect.ReadSealed(dir)
	if err == nil && len(seal.Altered) > 0 && !b.accept {
		return bisect.Read(dir) // which refuses it
	}
	if err == nil && !b.seal.Unsealed { // a search that was begun without a seal has none at its end
		b.seal = seal
		session.WarnSeal(dir, seal, b.accept)
	}
	return record, err
}

// print writes the reports next to the record, prints one, and decides the exit code.
func (b *bisection) print(out io.Writer, format bisect.Format, record *bisect.Record, dir string) (int, error) {
	for _, f := range bisect.Formats() {
		if f.File == "" {
			continue
		}
		var text bytes.Buffer
		err := f.Render(&text, record, dir)
		if err == nil {
			err = leak.RunDir(dir).WriteFile(f.File, text.Bytes())
		}
		if err != nil {
			return 0, fmt.Errorf("report %s: %w", f.Name, err)
		}
	}
	if err := format.Render(out, record, dir); err != nil {
		return 0, err
	}
	return leak.ExitCode(record.Interrupted, false, record.Failure != nil, record.Result), nil
}

func findBisectFormat(name string) (bisect.Format, error) {
	var names []string
	for _, f := range bisect.Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return bisect.Format{}, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--format %s: no such format", name), "it is one of: %s", strings.Join(names, ", "))}
}

// reopen reads the record of --resume and takes its question for the flags.
func (b *bisection) reopen() (*bisect.Record, error) {
	record, err := b.read(b.resume)
	if err != nil {
		return nil, &leak.UsageError{Err: err}
	}
	if strings.Contains(record.Question.Make, leak.Redacted) {
		return nil, &leak.UsageError{Err: leak.WithHint(errors.New("resume: --make held a secret, which was not kept"), "give the whole command again, without --resume")}
	}
	b.question = record.Question
	b.variant = record.Question.Variant
	given, err := b.Parameters()
	if err != nil {
		return nil, &leak.UsageError{Err: err}
	}
	for name, value := range record.Question.Set {
		switch _, ok := given[name]; {
		case ok:
		case value == leak.Redacted:
			return nil, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("resume: the value of %s was not kept", name), "give it again, --set %s=…", name)}
		default:
			b.Set = append(b.Set, name+"="+value)
		}
	}
	return record, nil
}

// earlier is the record to go on with, and its folder: that of --resume, or of the same search where it was
// interrupted; nil where there is none.
func (b *bisection) earlier(resumed *bisect.Record, s *leak.Scenario, progress leak.Progress) (*bisect.Record, string, error) {
	record, dir := resumed, b.resume
	switch {
	case resumed != nil:
		if err := b.sameScenario(dir); err != nil {
			return nil, "", err
		}
	case !b.fresh:
		if record, dir = b.unfinished(s); record != nil {
			progress.Log("resuming %s after %d steps (--fresh starts over)", dir, len(record.Steps))
		}
	}
	if record != nil {
		record.Resume()
	}
	return record, dir, nil
}

// sameScenario refuses to go on with another scenario than the one that the steps were taken with.
func (b *bisection) sameScenario(dir string) error {
	was, err := os.ReadFile(filepath.Join(dir, leak.ScenarioFile))
	if err != nil {
		return &leak.UsageError{Err: fmt.Errorf("resume: %w", err)}
	}
	if !bytes.Equal(was, b.private.Text) {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("resume: %s has changed since", b.question.Scenario), "start over, without --resume")}
	}
	return nil
}

// unfinished finds the newest bisection with the same question that is not over, nil where there is none.
func (b *bisection) unfinished(s *leak.Scenario) (*bisect.Record, string) {
	dirs, _ := filepath.Glob(filepath.Join(b.RunsDir, s.Metadata.Name, bisectPrefix+"*"))
	slices.Sort(dirs)
	for _, dir := range slices.Backward(dirs) {
		record, err := bisect.Read(dir)
		if err == nil && record.Open() && sameQuestion(record.Question, b.question, b.private.Secrets) && b.sameScenario(dir) == nil {
			return record, dir
		}
	}
	return nil, ""
}

// sameQuestion compares as the record does, where an empty list is none and a secret is not kept.
func sameQuestion(a, b bisect.Question, secrets leak.Secrets) bool {
	var both [2]any
	for i, q := range []bisect.Question{a, b} {
		data, err := json.Marshal(q)
		if err != nil || json.Unmarshal(secrets.RedactJSON(data), &both[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(both[0], both[1])
}

// open loads the scenario and completes the question.
func (b *bisection) open(ctx context.Context) (scenarios.Source, *leak.Scenario, error) {
	q := &b.question
	bad := func(hint, format string, args ...any) error {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf(format, args...), "%s", hint)}
	}
	none := scenarios.Source{}
	switch {
	case q.Bad == "" || q.Good == "":
		return none, nil, bad("--bad names what leaks, --good what does not", "--bad and --good: both are needed")
	case q.Bad == q.Good:
		return none, nil, bad("a search needs two versions", "--bad and --good are the same: %s", q.Bad)
	case (q.Module == "") == (q.Repo == ""):
		return none, nil, bad("--module searches versions of a module, --repo commits", "one of --module and --repo is needed")
	case q.Repo != "" && (len(q.With) > 0 || len(q.Given) > 0 || q.Pre || q.AllLines):
		return none, nil, bad("leave them out", "--with, --candidates, --pre and --all-lines are about versions of a module, not about commits")
	case q.Repeats < 0 || q.Repeats > maxRepeats || q.Spots < 0 || q.Spots > maxSpots:
		return none, nil, bad("see leakrig bisect --help", "--repeats must be between 0 and %d, --spots between 0 and %d", maxRepeats, maxSpots)
	case q.Placement != "" && q.Placement != leak.PlacementProcess && q.Placement != leak.PlacementPod:
		return none, nil, bad("it is process or pod", "--placement %s: no such placement", q.Placement)
	}
	if q.Module != "" {
		for _, v := range slices.Concat([]string{q.Bad, q.Good}, q.Given) {
			if !bisect.IsVersion(v) {
				return none, nil, bad("as in v0.21.0", "%s is not a full version", v)
			}
		}
	}
	set, err := b.Parameters()
	if err != nil {
		return none, nil, &leak.UsageError{Err: err}
	}
	src, s, err := session.Open(q.Scenario, maps.Clone(set))
	if err == nil {
		b.private, err = b.Hide(src, s)
	}
	if err != nil {
		return none, nil, err
	}
	for name := range set {
		set[name] = b.private.Parameters[name]
	}
	b.Args = b.private.Args
	q.Set = set
	b.Cluster, b.Placement, b.Source, b.Rounds = q.Cluster, q.Placement, q.Source, q.Rounds
	if err := b.choose(s); err != nil {
		return none, nil, &leak.UsageError{Err: err}
	}
	b.Variants = []string{q.Variant}
	if _, err := b.Apply(s); err != nil {
		return none, nil, &leak.UsageError{Err: err}
	}
	if err := session.Prepare(s, src); err != nil {
		return none, nil, &leak.UsageError{Err: err}
	}
	if q.Kind == bisect.OfCommit {
		err = b.revisions(ctx)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return src, s, err
}

// revisions puts the hashes of the commits into the question, and the repository's own folder.
func (b *bisection) revisions(ctx context.Context) (err error) {
	q := &b.question
	if b.repo, err = subjects.OpenRepo(ctx, q.Repo); err != nil {
		return &leak.UsageError{Err: err}
	}
	for i, rev := range []*string{&q.Bad, &q.Good} {
		if b.ends[i], err = b.repo.Resolve(ctx, *rev); err != nil {
			return &leak.UsageError{Err: err}
		}
	}
	if b.ends[0].Hash == b.ends[1].Hash {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--bad %s and --good %s are the same commit", q.Bad, q.Good), "a search needs two")}
	}
	q.Repo, q.Bad, q.Good = b.repo.Root, b.ends[0].Hash, b.ends[1].Hash
	return nil
}

// choose finds the variant, and what kind of thing is searched.
func (b *bisection) choose(s *leak.Scenario) error {
	q := &b.question
	q.Variant = b.variant
	var names []string
	for _, v := range s.Spec.Variants {
		names = append(names, v.Name)
		changes := v.Modfile != "" || len(v.Node) > 0 || q.Repo != ""
		if q.Variant == "" && v.Expect == leak.ExpectLeaking && changes {
			q.Variant = v.Name
		}
	}
	if q.Variant == "" && len(names) == 1 {
		q.Variant = names[0]
	}
	if q.Variant == "" {
		return leak.WithHint(fmt.Errorf("%s has no variant that is expected to leak and can be built otherwise", s.Metadata.Name), "choose one with --variant: %s", strings.Join(names, ", "))
	}
	at := slices.Index(names, q.Variant)
	if at < 0 {
		return leak.WithHint(fmt.Errorf("--variant %s: %s has no such variant", q.Variant, s.Metadata.Name), "it has %s", strings.Join(names, ", "))
	}
	switch v := s.Spec.Variants[at]; {
	case q.Repo != "":
		q.Kind = bisect.OfCommit
		if s.Spec.Subject.Build == "" && len(s.Spec.Subject.Command) == 0 {
			return leak.WithHint(errors.New("--repo: the scenario starts no program"), "it is for scenarios with subject.build or subject.command")
		}
		if q.Make != "" && s.Spec.Subject.Build != "" {
			return leak.WithHint(errors.New("--make: the scenario builds its subject"), "it is for scenarios with subject.command")
		}
	case len(v.Node) > 0:
		q.Kind = bisect.OfNode
		_, err := session.Repinned(v, b.modules(q.Bad))
		return err
	case s.Spec.Subject.Build != "":
		q.Kind = bisect.OfModule
	default:
		return leak.WithHint(errors.New("--module: the scenario builds no program"), "it is for scenarios with subject.build, or with commands of the node")
	}
	return nil
}

// modules are those that move, at a version.
func (b *bisection) modules(version string) []leak.Module {
	all := []leak.Module{{Path: b.question.Module, Version: version}}
	for _, path := range b.question.With {
		all = append(all, leak.Module{Path: path, Version: version})
	}
	return all
}
