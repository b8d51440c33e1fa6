package leaktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/holders"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/runner"
)

// How a test is measured: the window for settling and its limit, rounds without load, and how much earlier than the
// deadline of the test binary the measurement ends.
const (
	quiet         = 50 * time.Millisecond
	settleTimeout = 5 * time.Second
	controlRounds = 2
	beforeTheEnd  = 10 * time.Second
)

// slots limits the tests that are measured at a time. With a large -parallel the budget of each would pass while it
// waits for a processor.
var slots = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// An undecided test is measured once more, with a larger budget: usually the machine was busy.
const (
	defaultBudget = 10 * time.Second
	again         = 3
)

// variant is the only variant of a test's scenario.
const variant = "test"

// Run repeats op and fails t if it leaks. It must be called from the goroutine of the test.
func Run(t *testing.T, op Operation, opts ...Option) {
	t.Helper()
	c := newConfig(opts)
	n := calls.next(t.Name())
	if task := assigned(); task != nil {
		task.perform(t, n, op, c) // does not return where it is this call's turn
		return
	}
	if c.err != nil {
		t.Fatal(c.err)
	}
	m, err := c.measure(t, op, fmt.Sprintf("leaktest-%d", n), n)
	if err == nil && m.Verdict.Variants[0].Result == leak.Undecided && c.budget == 0 && !c.undecidedIsFine && !c.inProcess {
		c.budget = again * defaultBudget
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

// measurement is what one process with the operation showed.
type measurement struct {
	reports.Input
	output string
}

// measure measures the operation of the n-th call of Run in a test, and writes to a folder of the test's artifacts.
func (c config) measure(t *testing.T, op Operation, folder string, n int) (*measurement, error) {
	dir := rundir.Dir(filepath.Join(t.ArtifactDir(), folder))
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, err
	}
	l := &launcher{t: t, call: n, op: op, config: c}
	defer l.cleanUp()
	s := c.scenario(t.Name())
	record, err := run(t, s, dir, l)
	if err != nil {
		return nil, err
	}
	in := reports.Input{Scenario: s, Record: record, Verdict: checks.Judge(s, record), RunDir: string(dir)}
	return &measurement{in, l.output()}, nil
}

func run(t *testing.T, s *leak.Scenario, dir rundir.Dir, l leak.Launcher) (*leak.Record, error) {
	ctx := t.Context()
	if end, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end.Add(-beforeTheEnd), errors.New("the deadline of the test binary is near (go test -timeout)"))
		defer cancel()
	}
	if err := checks.Feasible(s, 1); err != nil {
		return nil, err
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	metrics := map[string][]leak.Metric{}
	for _, k := range profiles.Kinds() {
		metrics[k.Name] = k.Metrics
	}
	byName := leak.MetricsByName(metrics)
	return runner.Run(ctx, runner.Config{
		Scenario: s, Variants: s.Spec.Variants, Dir: dir, Launcher: l, Metrics: metrics, Progress: silent{}, Vitals: profiles.Vitals, HeapDump: holders.Dump,
		Enough: func(v leak.Variant, r leak.VariantRecord) string { return checks.Enough(s, v, r, byName) },
	})
}

// conclude fails the test unless the outcome is the expected one.
func conclude(t *testing.T, c config, m *measurement) {
	t.Helper()
	report := writeReport(m.Input, rundir.Dir(m.RunDir))
	v := m.Verdict.Variants[0]
	failures := failed(m.Record)
	if failures != "" {
		t.Errorf("leaktest: %s", failures)
	}
	switch {
	case v.Result == leak.Met:
		return
	case v.Outcome == leak.Leaking && len(c.expect) == 0:
		t.Errorf("leaktest: %s\n%s%s", growth(v), place(v), report)
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

// growth says what leaks, one line per series, largest share first.
func growth(v leak.VariantVerdict) string {
	lead := v.Lead()
	if lead == nil {
		return v.Reason
	}
	return lead.Summary
}

// place names the line to look at: the innermost frame outside the standard library of the stack that grew most. If
// goroutines block in the standard library, it also names the line that allocated what they keep.
func place(v leak.VariantVerdict) string {
	lead := v.Lead()
	text := ""
	if len(v.Growing) > 0 && (lead == nil || lead.Unit == "goroutines" || len(v.HeapGrowing) == 0) {
		stack := v.Growing[0].Stack
		origin := stack.Origin()
		text = fmt.Sprintf("blocked at %s (%s)", origin.Short(), origin.Position())
		if stack.Creator != nil {
			text += ", created by " + stack.Creator.Short()
		}
		text += "\n"
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
		if keep := flag.Lookup("test.artifacts"); keep == nil || keep.Value.String() != "true" {
			return "go test -artifacts keeps the report"
		}
		return "report: " + dir.Path(f.File)
	}
	return ""
}

// scenario is the test as leakrig's other packages take it.
func (c config) scenario(test string) *leak.Scenario {
	v := leak.Variant{Name: variant, Expect: leak.ExpectClean}
	s := &leak.Scenario{APIVersion: leak.APIVersion, Kind: leak.ScenarioKind, Metadata: leak.Metadata{
		Name: strings.Trim(notSlug.ReplaceAllString(strings.ToLower(test), "-"), "-"), Description: "The operation of " + test + ", repeated by leaktest.",
	}}
	s.Spec = leak.Spec{
		For: leak.Duration(cmp.Or(c.budget, defaultBudget)), Linger: leak.Duration(c.linger), Control: controlRounds,
		Subject: leak.SubjectSpec{Command: []string{test}},
		Round:   []leak.Block[leak.Action]{{Kind: "operation", Name: "operation", Value: &operations{Times: 1, Concurrency: c.concurrency}}},
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
