package leaktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/holders"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/runner"
)

// How a test is measured: the window for settling and its limit, rounds without load, and how much earlier than the
// deadline of the test binary the measurement ends.
const (
	quiet         = 40 * time.Millisecond
	settleTimeout = 5 * time.Second
	controlRounds = 2
	beforeTheEnd  = 10 * time.Second
	besideBudget  = 2 * time.Second // the start, the warm-up, and the end
	minBudget     = time.Second
)

// slots limits the tests that are measured at a time. With a large -parallel the budget of each would pass while it
// waits for a processor.
var slots = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// An undecided test is measured once more, with a larger budget: usually the machine was busy.
const (
	defaultBudget = 10 * time.Second
	retryFactor   = 3
)

// variant is the only variant of a test's scenario.
const variant = "test"

// Run repeats op and fails t if it leaks. It must be called from the goroutine of the test.
func Run(t *testing.T, op Operation, opts ...Option) {
	t.Helper()
	c := newConfig(opts)
	n := calls.next(t)
	if task := assigned(); task != nil {
		task.perform(t, n, op, c) // does not return where it is this call's turn
		return
	}
	switch {
	case c.err != nil:
		t.Fatal(c.err)
	case op == nil:
		t.Fatal("leaktest: the operation is nil")
	case strings.HasPrefix(t.Name(), "Fuzz") && testFlag("fuzz") != "":
		t.Fatal("leaktest: Run measures the inputs of the corpus, not those of go test -fuzz; leaktest.Check works there")
	}
	m, err := c.measure(t, op, fmt.Sprintf("leaktest-%d", n), n)
	if err == nil && c.worthRetry(t, m) {
		c.budget = retryFactor * defaultBudget
		m, err = c.measure(t, op, fmt.Sprintf("leaktest-%d-again", n), n)
	}
	if err != nil {
		t.Fatalf("leaktest: %v", err)
	}
	conclude(t, c, m)
	if m.output != "" && (t.Failed() || testing.Verbose()) {
		t.Logf("output of the operations' process:\n%s", m.output)
	}
}

// worthRetry reports whether a second, longer measurement may decide the test, and has the time.
func (c config) worthRetry(t *testing.T, m *measurement) bool {
	end, limited := t.Deadline()
	return m.Verdict.Variants[0].Result == leak.Undecided && c.budget == 0 && !c.undecidedIsFine && !c.inProcess &&
		failed(m.Record) == "" && (!limited || time.Until(end) > 2*retryFactor*defaultBudget)
}

// measurement is what one process with the operation showed.
type measurement struct {
	reports.Input
	output string
	// failure is why the operation was not measured, nil if it was.
	failure error
}

// errDeadline ends a measurement, so that the test can say so before the test binary panics.
var errDeadline = errors.New("the deadline of the test binary is near (go test -timeout)")

// measure measures the operation of the n-th call of Run in a test, and writes to a folder of the test's artifacts.
func (c config) measure(t *testing.T, op Operation, folder string, n int) (*measurement, error) {
	ctx := t.Context()
	end, limited := t.Deadline()
	if limited {
		end = end.Add(-min(beforeTheEnd, time.Until(end)/4))
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end, errDeadline)
		defer cancel()
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if limited {
		c.budget = min(cmp.Or(c.budget, defaultBudget), max(time.Until(end)-besideBudget-c.linger, minBudget))
	}
	dir := rundir.Dir(filepath.Join(t.ArtifactDir(), folder))
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, err
	}
	l := &launcher{t: t, call: n, op: op, config: c}
	defer l.cleanUp()
	s := c.scenario(t.Name(), l.refuse)
	record, err := run(ctx, s, dir, l)
	if err != nil {
		return nil, err
	}
	in := reports.Input{Scenario: s, Record: record, Verdict: checks.Judge(s, record), RunDir: string(dir)}
	if limit, ok := c.acceptedHeap(record, &in.Verdict.Variants[0]); ok {
		c.maxHeap = &limit
		in.Scenario = c.scenario(t.Name(), l.refuse)
		in.Verdict = checks.Judge(in.Scenario, record)
	}
	m := &measurement{Input: in, output: l.output(), failure: l.failure}
	switch {
	case m.failure == nil && l.process != nil && l.process.ended() != nil:
		m.failure = l.process.ended()
	case m.failure == nil && errors.Is(context.Cause(ctx), errDeadline):
		m.failure = errDeadline
	}
	return m, nil
}

func run(ctx context.Context, s *leak.Scenario, dir rundir.Dir, l leak.Launcher) (*leak.Record, error) {
	if err := checks.Feasible(s, 1); err != nil {
		return nil, err
	}
	metrics := map[string][]leak.Metric{}
	for _, k := range profiles.Kinds() {
		metrics[k.Name] = k.Metrics
	}
	byName := leak.MetricsByName(metrics)
	return runner.Run(ctx, runner.Config{ // without Vitals: the process counts its operations itself
		Scenario: s, Variants: s.Spec.Variants, Dir: dir, Launcher: l, Metrics: metrics, Progress: silent{}, HeapDump: holders.Dump,
		Enough: func(v leak.Variant, r leak.VariantRecord) string { return checks.Enough(s, v, r, byName) },
	})
}

// refuse ends a measurement whose result is certain: all operations of the first round failed, or one hangs.
func (l *launcher) refuse(first int, t leak.Tally) error {
	message := ""
	if len(t.Errors) > 0 {
		message = t.Errors[0].Message
	}
	switch {
	case len(l.config.expect) > 0:
		return nil
	case t.TimedOut > 0:
		l.failure = errors.New(message)
	case first == 1 && t.Attempted > 0 && t.Failed == t.Attempted:
		l.failure = fmt.Errorf("%d of %d operations failed: %s", t.Failed, t.Attempted, message)
	}
	return l.failure
}

// goroutineCost is more than the runtime allocates for a goroutine that waits, heldSlack the part of what it holds that
// two heap dumps may miss.
const (
	goroutineCost = 1 << 10
	heldSlack     = 1.25
)

// acceptedHeap is the budget of heap bytes per operation for what accepted goroutines hold, false if none grew or if the
// test has a budget of its own.
func (c config) acceptedHeap(record *leak.Record, v *leak.VariantVerdict) (leak.Quantity, bool) {
	last := record.Variants[0].Final()
	if v.Outcome != leak.Leaking || last == nil || last.Operations == 0 || c.maxHeap != nil {
		return 0, false
	}
	accepted := 0.0
	for _, a := range v.Allowed {
		if !a.Expired {
			accepted += max(a.To-a.From, 0)
		}
	}
	if c.maxGoroutines != nil {
		accepted = max(accepted, grown(record, "goroutine", "count"))
	}
	for _, f := range v.Findings {
		if f.Outcome == leak.Leaking && f.Unit == "goroutines" {
			return 0, false
		}
	}
	if accepted <= 0 {
		return 0, false
	}
	each := 0.0
	if v.Holders != nil {
		for _, r := range v.Holders.Goroutines {
			if float64(r.Count) >= accepted/2 {
				each = max(each, r.Each())
			}
		}
	}
	return leak.Quantity(accepted / float64(last.Operations) * (each*heldSlack + goroutineCost)), true
}

// grown returns what a metric has gained.
func grown(record *leak.Record, probe, metric string) float64 {
	v := record.Variants[0]
	if len(v.Snapshots) == 0 {
		return 0
	}
	first, last := v.Snapshots[0].Sample(probe), v.Final().Sample(probe)
	if first == nil || last == nil {
		return 0
	}
	return last.Values[metric] - first.Values[metric]
}

// conclude fails the test unless the outcome is the expected one.
func conclude(t *testing.T, c config, m *measurement) {
	t.Helper()
	if m.failure != nil {
		t.Errorf("leaktest: %v", m.failure)
		return
	}
	report := writeReport(m.Input, rundir.Dir(m.RunDir))
	v := m.Verdict.Variants[0]
	failures := failed(m.Record)
	if failures != "" {
		t.Errorf("leaktest: %s", failures)
	} else if testFailed(m.output, t.Name()) {
		t.Error("leaktest: the test failed in the process of the operations, after them")
	}
	ended := ""
	for _, a := range v.Allowed {
		if a.Expired {
			ended += fmt.Sprintf("the allowance for %s ended on %s (%s)\n", a.Match, a.Until, a.Reason)
		}
	}
	switch {
	case v.Result == leak.Met:
		return
	case v.Outcome == leak.Leaking && len(c.expect) == 0:
		t.Errorf("leaktest: %s\n%s%s%s", growth(v), place(v, explanation(m.Record, &v)), ended, report)
	case v.Result == leak.Undecided && c.undecidedIsFine:
		t.Logf("leaktest: undecided: %s", strings.ReplaceAll(v.Reason, "--for ", "leaktest.Budget of "))
	case failures != "": // which is why
	case v.Result == leak.Undecided:
		t.Errorf("leaktest: undecided: %s\nleaktest.AllowInconclusive accepts this\n%s", strings.ReplaceAll(v.Reason, "--for ", "leaktest.Budget of "), report)
	case v.Result == leak.Unmeasured:
		t.Errorf("leaktest: could not measure: %s", v.Reason)
	default:
		t.Errorf("leaktest: not as expected: %s\n%s", v.Reason, report)
	}
}

// growth says what leaks. The sum over all goroutines may be decided before any stack is.
func growth(v leak.VariantVerdict) string {
	lead := v.Lead()
	if lead == nil {
		return v.Reason
	}
	if sum, ok := strings.CutPrefix(lead.Summary, "goroutine.count "); ok {
		return strings.Replace(sum, " per operation", " goroutines per operation", 1)
	}
	return lead.Summary
}

// explanation is the known leak or pattern of the catalogue that most of the growing goroutines match, nil if there is none.
func explanation(record *leak.Record, v *leak.VariantVerdict) *catalogue.Match {
	for _, in := range catalogue.Growth(&record.Variants[0], v) {
		if in.Unit != "goroutines" {
			continue
		}
		for _, m := range catalogue.Explain(in).Matches {
			if m.Status == catalogue.KnownLeak || m.Status == catalogue.StandsOut {
				return &m
			}
		}
	}
	return nil
}

// place names the line to look at: the innermost frame outside the standard library of the stack that grew most. If
// goroutines block in the standard library, it also names what the catalogue has on them, and the line that allocated
// what they keep.
func place(v leak.VariantVerdict, known *catalogue.Match) string {
	lead := v.Lead()
	text := ""
	if len(v.Growing) > 0 && (lead == nil || lead.Unit == "goroutines" || len(v.HeapGrowing) == 0) {
		g := v.Growing[0]
		if known != nil && g.Stack.Origin().Standard() {
			for _, other := range v.Growing { // both ends of a connection grow alike
				if other.Stack.String() == known.Stack.String() {
					g = other
					break
				}
			}
		}
		origin := g.Stack.Origin()
		text = fmt.Sprintf("blocked at %s (%s)\n", origin.Short(), origin.Position())
		if g.Stack.Creator != nil {
			text += fmt.Sprintf("started by %s%s\n", g.Stack.Creator.Short(), holding(v, g.ID))
		}
		switch {
		case known != nil && known.Status == catalogue.KnownLeak:
			text += known.Sentence() + "\n"
		case known != nil && origin.Standard():
			text += fmt.Sprintf("likely cause: %s (%s)\n", known.Title, known.Links[0])
		}
		if !origin.Standard() {
			return text
		}
	}
	for _, g := range v.HeapGrowing {
		if origin := g.Stack.Origin(); text == "" || !origin.Standard() {
			return text + fmt.Sprintf("allocated at %s (%s)\n", origin.Short(), origin.Position()) + holder(v, g)
		}
	}
	return text
}

// holding is ", each holds 14.7 KiB of heap" for goroutines that hold much.
func holding(v leak.VariantVerdict, stack string) string {
	if v.Holders == nil {
		return ""
	}
	for _, r := range v.Holders.Goroutines {
		if r.Stack == stack && r.Each() >= minHeld {
			return fmt.Sprintf(", each holds %s of heap", display.Value(r.Each(), "bytes"))
		}
	}
	return ""
}

// minHeld is the number of bytes per goroutine from which a failure mentions what goroutines hold.
const minHeld = 256

// holder names who holds most of what an allocation site gained, on one line, or is "".
func holder(v leak.VariantVerdict, g leak.StackGrowth) string {
	held := v.Holders.MostOf(g.ID)
	switch {
	case held == nil:
		return ""
	case held.Unnamed:
		return "held by a global variable; go test -o FILE keeps the symbols that name it\n"
	}
	return fmt.Sprintf("held by %s\n", held.Holder)
}

// failed describes operations that failed, "" where none did.
func failed(record *leak.Record) string {
	count, attempted, first := 0, 0, ""
	for _, v := range record.Variants {
		tallies := slices.Clone(v.Warmup)
		for _, s := range v.Snapshots {
			tallies = append(tallies, s.Load...)
		}
		for _, tally := range tallies {
			count, attempted = count+tally.Failed, attempted+tally.Attempted
			if first == "" && len(tally.Errors) > 0 {
				first = tally.Errors[0].Message
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d operations failed: %s", count, attempted, first)
}

// writeReport writes the report and says where it is.
func writeReport(in reports.Input, dir rundir.Dir) string {
	for _, f := range reports.Formats() {
		if f.File != rundir.HTMLFile {
			continue
		}
		var page bytes.Buffer
		err := f.Render(&page, in)
		if err == nil {
			err = errors.Join(dir.WriteFile(f.File, page.Bytes()), dir.WriteVerdict(in.Verdict))
		}
		if err != nil {
			return fmt.Sprintf("no report: %v", err)
		}
		if testFlag("artifacts") != "true" {
			return "go test -artifacts keeps the report"
		}
		return "report: " + dir.Path(f.File)
	}
	return ""
}

// scenario is the test as leakrig's other packages take it.
func (c config) scenario(test string, refuse func(int, leak.Tally) error) *leak.Scenario {
	v := leak.Variant{Name: variant, Expect: leak.ExpectClean}
	s := &leak.Scenario{APIVersion: leak.APIVersion, Kind: leak.ScenarioKind, Metadata: leak.Metadata{
		Name: strings.Trim(notSlug.ReplaceAllString(strings.ToLower(test), "-"), "-"), Description: "The operation of " + test + ", repeated by leaktest.",
	}}
	s.Spec = leak.Spec{
		For: leak.Duration(cmp.Or(c.budget, defaultBudget)), Linger: leak.Duration(c.linger), Control: controlRounds,
		Subject: leak.SubjectSpec{Command: []string{test}},
		Round:   []leak.Block[leak.Action]{{Kind: "operation", Name: "operation", Value: &operations{Times: 1, Concurrency: c.concurrency, refuse: refuse}}},
		Settle:  leak.SettleSpec{Quiet: leak.Duration(quiet), Timeout: leak.Duration(settleTimeout)},
		Probes:  probes("goroutine", "heap"),
		Allow:   c.allow,
		Checks: []leak.Block[leak.Check]{
			block("goroutines", &checks.Growth{Probe: "goroutine", MaxPerOp: c.maxGoroutines}),
			block("any-stack", &checks.Stack{Probe: "goroutine", Match: ".", Each: true, MaxPerOp: c.maxGoroutines}),
			block("heap", &checks.Growth{Probe: "heap", MaxPerOp: c.maxHeap}),
		},
	}
	if c.maxHeap == nil {
		s.Spec.Checks = append(s.Spec.Checks, block("objects", &checks.Growth{Probe: "heap", Metric: "objects"}))
	}
	if c.maxGoroutines == nil && len(c.allow) == 0 {
		s.Spec.Checks = append(s.Spec.Checks, block("stacks", &checks.Growth{Probe: "heap", Metric: "stack"}))
	}
	if readsProc && !c.inProcess {
		s.Spec.Probes = append(s.Spec.Probes, probes("process")...)
		s.Spec.Checks = append(s.Spec.Checks,
			block("descriptors", &checks.Growth{Probe: "process", Metric: "descriptors"}),
			block("threads", &checks.Growth{Probe: "process", Metric: "threads"}))
	}
	for i, e := range c.expect {
		name := fmt.Sprintf("expected-%d", i+1)
		s.Spec.Checks = append(s.Spec.Checks, block(name, &checks.Stack{Probe: e.probe, Match: e.pattern}))
		v.Expect, v.Fingerprint = leak.ExpectLeaking, append(v.Fingerprint, name)
	}
	s.Spec.Variants = []leak.Variant{v}
	return s
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// readsProc reports whether descriptors and threads of a process can be read.
const readsProc = runtime.GOOS == "linux"

func block(name string, c leak.Check) leak.Block[leak.Check] {
	kind := "growth"
	if _, ok := c.(*checks.Stack); ok {
		kind = "stack"
	}
	return leak.Block[leak.Check]{Kind: kind, Name: name, Value: c}
}

func probes(names ...string) []leak.Block[leak.Probe] {
	var all []leak.Block[leak.Probe]
	for _, k := range profiles.Kinds() {
		if slices.Contains(names, k.Name) {
			all = append(all, leak.Block[leak.Probe]{Kind: k.Name, Name: k.Name, Value: k.New()})
		}
	}
	return all
}

// silent discards progress: go test shows a result only.
type silent struct{}

func (silent) Log(string, ...any)    {}
func (silent) Status(string, ...any) {}
