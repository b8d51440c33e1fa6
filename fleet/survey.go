package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/session"
	"github.com/leakrig/leakrig/subjects"
	"github.com/leakrig/leakrig/terminal"
)

// Options are the flags of `leakrig fleet`.
type Options struct {
	session.Process
	session.Endpoint
	Selector, Namespace string
	AllNamespaces       bool
	// Port is that of pprof in the pods. Via is ViaProxy or ViaForward.
	Port int
	Via  string
	// Targets is a file with one URL per line.
	Targets string
	// Pyroscope is the URL of a Pyroscope server, Query selects its series, GroupBy names the labels that make a target,
	// and Tenant its tenant. Profiles is a folder of pprof files. From is how long ago the first profile was taken.
	Pyroscope, Query, Tenant string
	GroupBy                  []string
	Profiles                 string
	From                     time.Duration
	// Counter is the metric that counts operations, or CounterLabel the pprof label of goroutines. Metrics is the port
	// and the path of the metrics.
	Counter, CounterLabel, Metrics string
	Every, For, Timeout            time.Duration
	Concurrency                    int
	// Given reports whether a flag was given.
	Given func(flag string) bool
	// Heap is set if the heap is read, too.
	Heap            bool
	Bounds          Bounds
	Cluster         apiserver.Access
	RunsDir, Format string
}

// Ways to reach pods through the API server.
const (
	ViaProxy   = "proxy"
	ViaForward = "port-forward"
)

// Formats are the reports of a fleet.
var Formats = []string{"text", "json", "html"}

// checkBounds refuses bounds and formats that cannot be.
func checkBounds(b Bounds, format string) []error {
	var errs []error
	if !(b.MinJudged >= 0 && b.MinJudged <= 1) {
		errs = append(errs, leak.WithHint(fmt.Errorf("--min-judged %g: it is a share, from 0 to 1", b.MinJudged), "0.99 is 99 %%"))
	}
	if !(b.HeapPerHour >= 0 && b.HeapPerOperation >= 0) {
		errs = append(errs, leak.WithHint(errors.New("--max-heap-per-hour and --max-heap-per-op are not negative"), "0 allows none"))
	}
	if !(b.PerHour >= 0 && b.PerOperation >= 0) {
		errs = append(errs, leak.WithHint(errors.New("--max-per-hour and --max-per-op are not negative"), "0 allows none"))
	}
	if !slices.Contains(Formats, format) {
		errs = append(errs, leak.WithHint(fmt.Errorf("--format %s: unknown report of a fleet", format), "it is text, json or html"))
	}
	return errs
}

// Is reports whether a run directory is of a fleet.
func Is(dir rundir.Dir) bool {
	_, err := os.Stat(dir.Path(RecordFile))
	return err == nil
}

// Rejudge decides again on a fleet, with the bounds of its survey where change does not set others, which are given.
// An interruption belonged to the survey.
func Rejudge(out io.Writer, dir rundir.Dir, format string, given Bounds, change func(*Bounds), accept bool) (int, error) {
	if errs := checkBounds(given, format); len(errs) > 0 {
		return 0, &leak.UsageError{Err: leak.WithHint(errors.Join(errs...), "%s", leak.Hint(errs[0]))}
	}
	r, seal, err := ReadSealed(dir)
	if err == nil && len(seal.Altered) > 0 && !accept {
		_, err = Read(dir) // which refuses it
		err = leak.WithHint(err, "%s", rundir.SealHint)
	}
	if err != nil {
		return 0, err
	}
	session.WarnSeal(string(dir), seal, accept)
	if !seal.Holds() {
		r.Warnings = append(r.Warnings, seal.String())
	}
	r.Interrupted = false
	change(&r.Bounds)
	return conclude(out, dir, r, format, false, !seal.Holds() && !accept)
}

// Report renders the report on a fleet again, and returns the exit code.
func Report(out io.Writer, dir rundir.Dir, format string, accept bool) (int, error) {
	if _, err := Rejudge(out, dir, format, Bounds{}, func(*Bounds) {}, accept); err != nil {
		return 0, err
	}
	_, seal, _ := ReadSealed(dir)
	return session.SealedCode(leak.ExitMet, seal, accept), nil
}

// check refuses what cannot be.
func (f *Options) check() error {
	var errs []error
	bad := func(hint, problem string, args ...any) {
		errs = append(errs, leak.WithHint(fmt.Errorf(problem, args...), "%s", hint))
	}
	given := 0
	for _, source := range []string{f.Selector, f.Targets, f.Pyroscope, f.Profiles} {
		if source != "" {
			given++
		}
	}
	if given != 1 {
		bad("--selector reads pods, --targets a list of URLs, --pyroscope and --profiles read stored profiles", "give one of --selector, --targets, --pyroscope and --profiles")
	}
	if f.stored() && (f.Counter != "" || f.CounterLabel != "") {
		bad("leave it out", "--counter and --counter-label: stored profiles have no counter")
	}
	if f.Namespace != "" && f.AllNamespaces {
		bad("leave one of them out", "--namespace and --all-namespaces: it is either")
	}
	if f.Counter != "" && f.CounterLabel != "" {
		bad("leave one of them out", "--counter and --counter-label: operations are counted by either")
	}
	if f.stored() {
		f.defaults()
		if f.Every < time.Second || f.From/f.Every > maxIntervals {
			bad(fmt.Sprintf("leakrig divides stored profiles into at most %d intervals, of a second at least", maxIntervals), "--every %s --from %s: too many intervals", f.Every, f.From)
		}
	}
	if f.Every <= 0 || f.For < f.Every {
		bad("as in --every 1m --for 30m", "--every %s --for %s: no two sweeps", f.Every, f.For)
	}
	errs = append(errs, checkBounds(f.Bounds, f.Format)...)
	if _, _, err := f.metricsAt(); err != nil {
		bad("as in /metrics or :9090/metrics", "--metrics %s: %w", f.Metrics, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return &leak.UsageError{Err: leak.WithHint(errors.Join(errs...), "%s", leak.Hint(errs[0]))}
}

// stored reports whether the profiles are those of the past.
func (f *Options) stored() bool { return f.Pyroscope != "" || f.Profiles != "" }

// maxIntervals limits how many parts stored profiles are divided into.
const maxIntervals = 2000

// storedPoints is how many points stored profiles are divided into by default.
const storedPoints = 56

// defaults sets the time that stored profiles are divided into, and bounds for a time that is far longer than that of a
// live survey.
func (f *Options) defaults() {
	if !f.Given("every") {
		f.Every = max(f.From/storedPoints, time.Second).Round(time.Second)
	}
	f.For = f.From - f.Every
	if !f.Given("max-per-hour") {
		f.Bounds.PerHour = 0
	}
	if !f.Given("max-heap-per-hour") {
		f.Bounds.HeapPerHour = 0
	}
}

// archive is where the stored profiles are, and how they are divided.
func (f *Options) archive(progress leak.Progress) (*Stored, error) {
	buckets := int(f.From / f.Every)
	start := time.Now().Add(-f.From).Truncate(f.Every).Add(f.Every)
	c := &Stored{From: start, Every: f.Every, Buckets: buckets, Concurrency: max(1, f.Concurrency), Progress: progress}
	if f.Profiles != "" {
		c.archive = &folder{path: f.Profiles, from: start, every: f.Every, buckets: buckets}
		return c, nil
	}
	u, err := url.Parse(f.Pyroscope)
	if err != nil {
		return nil, &leak.UsageError{Err: errors.New("--pyroscope: not a URL")}
	}
	subject, err := subjects.Remote(u.String(), f.Pprof, f.Access())
	if err != nil {
		return nil, &leak.UsageError{Err: err}
	}
	c.archive = &pyroscope{
		url: strings.TrimSuffix(rundir.ShownURL(u), "/"), query: f.Query, tenant: f.Tenant, transport: subject.Transport, groupBy: f.GroupBy,
		from: start, every: f.Every, buckets: buckets,
	}
	return c, nil
}

// Survey observes a fleet: sweeps, judges and prints.
func (f *Options) Survey(ctx context.Context, stdin io.Reader, out io.Writer) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if err := f.Absolute(); err != nil {
		return 0, &leak.UsageError{Err: err}
	}
	var lister Lister
	if !f.stored() {
		var err error
		if lister, err = f.lister(stdin); err != nil {
			return 0, err
		}
	}
	dir, err := session.NewRunDir(f.RunsDir, "fleet")
	if err != nil {
		return 0, err
	}
	progress := terminal.NewProgress(os.Stderr)
	defer progress.Done()
	secrets := session.KnownSecrets(f.Args)
	secrets.AddAll(session.TokenOf(f.TokenFile, "."))
	f.KeepSecret(secrets...)
	progress.Secrets = f.Hidden
	args := session.KeptArgs(f.Args, nil, secrets)
	save := func(r *Record) error {
		r.Leakrig, r.Command, r.Bounds = f.Version, args, f.Bounds
		return r.Write(dir, secrets...)
	}
	if f.stored() {
		err = f.readStored(ctx, progress, save)
	} else {
		sweep := profiles.NewSweep(f.CounterLabel)
		config := Config{
			Lister: lister, Poller: sweep, Vitals: profiles.Vitals, Every: f.Every, For: f.For, Save: save,
			Timeout: f.Timeout, Concurrency: max(1, f.Concurrency), Counter: cmp.Or(f.Counter, f.CounterLabel), Label: f.CounterLabel != "", Progress: progress,
		}
		if f.Heap {
			config.Heap = sweep.Heap()
		}
		_, err = Run(ctx, config)
	}
	progress.Done()
	if err != nil {
		return 0, err
	}
	record, err := Read(dir) // what is judged is what was kept
	if err != nil {
		return 0, err
	}
	return conclude(out, dir, record, f.Format, true, false)
}

// readStored reads stored profiles into a record.
func (f *Options) readStored(ctx context.Context, progress leak.Progress, save func(*Record) error) error {
	archive, err := f.archive(progress)
	if err != nil {
		return err
	}
	record, err := archive.Run(ctx)
	if err != nil {
		return err
	}
	return save(record)
}

// conclude judges a fleet, prints the verdict and, where write is set, keeps it. Where withheld is set, its record
// cannot be relied on, and the fleet is not clean.
func conclude(w io.Writer, dir rundir.Dir, r *Record, format string, write, withheld bool) (int, error) {
	v := Judge(r, r.Bounds)
	if withheld && v.ExitCode == leak.ExitMet {
		v.Outcome, v.Result, v.ExitCode = leak.Inconclusive, leak.Undecided, leak.ExitInconclusive
		v.Sentence = "Undecided, since the record carries no seal. " + v.Sentence
	}
	v.RunDir = string(dir)
	data, err := JSON(v)
	if err != nil {
		return 0, err
	}
	var page bytes.Buffer
	if err := HTML(&page, v); err != nil {
		return 0, err
	}
	if write {
		if err := errors.Join(dir.WriteFile(VerdictFile, data), dir.WriteFile(rundir.HTMLFile, page.Bytes()), writeGrowth(dir, v)); err != nil {
			return 0, &rundir.DiskError{Err: err}
		}
	}
	switch format {
	case "json":
		_, err = w.Write(data)
	case "html":
		_, err = w.Write(page.Bytes())
	default:
		err = Text(w, v)
	}
	return v.ExitCode, err
}
