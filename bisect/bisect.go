package bisect

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

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/subjects"
	"github.com/leakrig/leakrig/terminal"
)

// dirPrefix begins the name of a bisection's directory.
const dirPrefix = "bisect-"

// maxRepeats bounds --repeats, maxSpots --spots.
const (
	maxRepeats = 100
	maxSpots   = 10
)

// Bisection are the flags of `leakrig bisect`.
type Bisection struct {
	session.Options
	Question Question
	// Variant is the one to build, "" to choose one.
	Variant string
	// Resume is the folder of the bisection to resume, "" for none. Fresh does not resume an interrupted search.
	Resume string
	Fresh  bool
	// Accept accepts a record that was altered.
	Accept bool
	seal   rundir.Seal // of the resumed record
	// private is what is not kept.
	private session.Private
	// repo and ends, bad and good, are those of a search over commits.
	repo subjects.Repo
	ends [2]subjects.Commit
}

// Run searches, prints the answer, and returns the exit code.
func (b *Bisection) Run(ctx context.Context, out io.Writer) (int, error) {
	format, err := FindFormat(b.Format)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	b.KeepSecret(session.KnownSecrets(b.Args)...)
	progress := terminal.NewProgress(os.Stderr)
	progress.Secrets = b.Hidden
	defer progress.Done()
	var record *Record
	if b.Resume != "" {
		if record, err = b.reopen(); err != nil {
			return 0, err
		}
		if !record.Open() {
			progress.Log("%s is finished: this is its answer", b.Resume)
			code, err := b.print(out, format, record, b.Resume)
			return session.SealedCode(code, b.seal, b.Accept), err
		}
	}
	src, s, err := b.open(ctx)
	if err != nil {
		return 0, err
	}
	record, dir, err := b.earlier(record, s, progress)
	if err != nil {
		return 0, err
	}
	fresh := record == nil
	if fresh {
		if record, err = b.begin(ctx, s, progress); err != nil {
			return 0, err
		}
	}
	w, err := b.bench(ctx, src, s, progress)
	if err != nil {
		return 0, err
	}
	defer w.close()
	if fresh {
		if err := w.buildEnds(ctx, record); err != nil {
			return 0, err
		}
		made, err := session.NewDir(b.RunsDir, s.Metadata.Name, dirPrefix)
		if err == nil {
			err = made.WriteFile(rundir.ScenarioFile, b.private.Text)
		}
		if err != nil {
			return 0, err
		}
		dir = string(made)
	}
	w.dir, w.record = rundir.Dir(dir), record
	err = Run(ctx, Config{
		Record: record, Oracle: w, Progress: progress, Now: time.Now, Begun: begun,
		Save: func(r *Record) error { return Write(dir, r, b.private.Secrets...) },
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
	code, err := b.print(out, format, record, dir)
	return session.SealedCode(code, b.seal, b.Accept), err
}

// read reads the record of a bisection. It refuses an altered one, unless accepted.
func (b *Bisection) read(dir string) (*Record, error) {
	record, seal, err := ReadSealed(dir)
	if err == nil && len(seal.Altered) > 0 && !b.Accept {
		return Read(dir) // which refuses it
	}
	if err == nil && !b.seal.Unsealed { // a search that was begun without a seal has none at its end
		b.seal = seal
		session.WarnSeal(dir, seal, b.Accept)
	}
	return record, err
}

// print writes the reports next to the record, prints one, and decides the exit code.
func (b *Bisection) print(out io.Writer, format Format, record *Record, dir string) (int, error) {
	for _, f := range Formats() {
		if f.File == "" {
			continue
		}
		var text bytes.Buffer
		err := f.Render(&text, record, dir)
		if err == nil {
			err = rundir.Dir(dir).WriteFile(f.File, text.Bytes())
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

// FindFormat returns the report format of this name.
func FindFormat(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("--format %s: no such format", name), "it is one of: %s", strings.Join(names, ", "))}
}

// reopen reads the record of --resume and takes its question for the flags.
func (b *Bisection) reopen() (*Record, error) {
	record, err := b.read(b.Resume)
	if err != nil {
		return nil, &leak.UsageError{Err: err}
	}
	if strings.Contains(record.Question.Make, rundir.Redacted) {
		return nil, &leak.UsageError{Err: leak.WithHint(errors.New("resume: --make held a secret, which was not kept"), "give the whole command again, without --resume")}
	}
	b.Question = record.Question
	b.Variant = record.Question.Variant
	given, err := b.Parameters()
	if err != nil {
		return nil, &leak.UsageError{Err: err}
	}
	for name, value := range record.Question.Set {
		switch _, ok := given[name]; {
		case ok:
		case value == rundir.Redacted:
			return nil, &leak.UsageError{Err: leak.WithHint(fmt.Errorf("resume: the value of %s was not kept", name), "give it again, --set %s=…", name)}
		default:
			b.Set = append(b.Set, name+"="+value)
		}
	}
	return record, nil
}

// earlier returns the record to resume and its folder, nil if there is none: that of --resume, or of an interrupted
// search with the same question.
func (b *Bisection) earlier(resumed *Record, s *leak.Scenario, progress leak.Progress) (*Record, string, error) {
	record, dir := resumed, b.Resume
	switch {
	case resumed != nil:
		if err := b.sameScenario(dir); err != nil {
			return nil, "", err
		}
	case !b.Fresh:
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
func (b *Bisection) sameScenario(dir string) error {
	was, err := os.ReadFile(filepath.Join(dir, rundir.ScenarioFile))
	if err != nil {
		return &leak.UsageError{Err: fmt.Errorf("resume: %w", err)}
	}
	if !bytes.Equal(was, b.private.Text) {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("resume: %s has changed since", b.Question.Scenario), "start over, without --resume")}
	}
	return nil
}

// unfinished finds the newest interrupted bisection with the same question, nil if there is none.
func (b *Bisection) unfinished(s *leak.Scenario) (*Record, string) {
	dirs, _ := filepath.Glob(filepath.Join(b.RunsDir, s.Metadata.Name, dirPrefix+"*"))
	slices.Sort(dirs)
	for _, dir := range slices.Backward(dirs) {
		record, err := Read(dir)
		if err == nil && record.Open() && sameQuestion(record.Question, b.Question, b.private.Secrets) && b.sameScenario(dir) == nil {
			return record, dir
		}
	}
	return nil, ""
}

// sameQuestion compares as the record does, where an empty list is none and a secret is not kept.
func sameQuestion(a, b Question, secrets rundir.Secrets) bool {
	var both [2]any
	for i, q := range []Question{a, b} {
		data, err := json.Marshal(q)
		if err != nil || json.Unmarshal(secrets.RedactJSON(data), &both[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(both[0], both[1])
}

// open loads the scenario and completes the question.
func (b *Bisection) open(ctx context.Context) (scenarios.Source, *leak.Scenario, error) {
	q := &b.Question
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
			if !session.IsVersion(v) {
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
	if q.Kind == OfCommit {
		err = b.revisions(ctx)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return src, s, err
}

// revisions puts the hashes of the commits into the question, and the repository's own folder.
func (b *Bisection) revisions(ctx context.Context) (err error) {
	q := &b.Question
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
func (b *Bisection) choose(s *leak.Scenario) error {
	q := &b.Question
	q.Variant = b.Variant
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
		q.Kind = OfCommit
		if s.Spec.Subject.Build == "" && len(s.Spec.Subject.Command) == 0 {
			return leak.WithHint(errors.New("--repo: the scenario starts no program"), "it is for scenarios with subject.build or subject.command")
		}
		if q.Make != "" && s.Spec.Subject.Build != "" {
			return leak.WithHint(errors.New("--make: the scenario builds its subject"), "it is for scenarios with subject.command")
		}
	case len(v.Node) > 0:
		q.Kind = OfNode
		_, err := session.Repinned(v, b.modules(q.Bad))
		return err
	case s.Spec.Subject.Build != "":
		q.Kind = OfModule
	default:
		return leak.WithHint(errors.New("--module: the scenario builds no program"), "it is for scenarios with subject.build, or with commands of the node")
	}
	return nil
}

// modules returns the searched modules at a version.
func (b *Bisection) modules(version string) []leak.Module {
	all := []leak.Module{{Path: b.Question.Module, Version: version}}
	for _, path := range b.Question.With {
		all = append(all, leak.Module{Path: path, Version: version})
	}
	return all
}
