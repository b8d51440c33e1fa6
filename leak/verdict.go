package leak

import (
	"fmt"
	"slices"
	"strings"
)

// VerdictSchema is the version of the verdict's JSON form.
const VerdictSchema = 1

// Outcome is what the samples say. Its zero value is Inconclusive, which never passes.
type Outcome int

// The outcomes.
const (
	Inconclusive Outcome = iota
	Clean
	Leaking
)

var outcomes = []string{"inconclusive", "clean", "leaking"}

func (o Outcome) String() string { return word(outcomes, int(o)) }

// MarshalText writes the word.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the word.
func (o *Outcome) UnmarshalText(b []byte) error { return unword(outcomes, b, (*int)(o)) }

// Expectation is the outcome that a scenario expects of a variant. The zero value is none, which the
// loader refuses.
type Expectation string

// The expectations.
const (
	ExpectClean   Expectation = "clean"
	ExpectLeaking Expectation = "leaking"
)

// Result is an outcome compared with the expectation. Its zero value is Undecided, which never passes.
type Result int

// The results.
const (
	// Undecided: every planned round was measured, but the checks are inconclusive.
	Undecided Result = iota
	// Met: as expected.
	Met
	// NotMet: not as expected.
	NotMet
	// Unmeasured: planned rounds did not complete.
	Unmeasured
)

var results = []string{"undecided", "as expected", "not as expected", "could not measure"}

func (r Result) String() string { return word(results, int(r)) }

// MarshalText writes the words.
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the words.
func (r *Result) UnmarshalText(b []byte) error { return unword(results, b, (*int)(r)) }

func word(words []string, i int) string {
	if i < 0 || i >= len(words) {
		return words[0]
	}
	return words[i]
}

func unword(words []string, b []byte, i *int) error {
	for k, w := range words {
		if w == string(b) {
			*i = k
			return nil
		}
	}
	return fmt.Errorf("%q is none of %s", b, strings.Join(words, ", "))
}

// Verdict is the conclusion from a record (verdict.json).
type Verdict struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	// Result is the worst over the variants.
	Result Result `json:"result"`
	// Sentence is the verdict in one sentence.
	Sentence string           `json:"sentence"`
	Variants []VariantVerdict `json:"variants"`
	// FalseAlarmBudget is shared by all trend tests of the run.
	FalseAlarmBudget float64 `json:"falseAlarmBudget"`
	Interrupted      bool    `json:"interrupted,omitempty"`
}

// VariantVerdict is the verdict on one variant.
type VariantVerdict struct {
	Variant string `json:"variant"`
	// Replica is the one that this verdict is of, from 1: of a variant, the worst of them. It is 0 where the
	// subject was one alone.
	Replica int `json:"replica,omitempty"`
	// Replicas are the verdicts on all of them, in order.
	Replicas []VariantVerdict `json:"replicas,omitempty"`
	// Operations is the number of operations that the replica got, 0 without replicas.
	Operations int         `json:"operations,omitempty"`
	Expect     Expectation `json:"expect"`
	Outcome    Outcome     `json:"outcome"`
	Result     Result      `json:"result"`
	// Reason is one sentence with the number that decided.
	Reason   string    `json:"reason"`
	Findings []Finding `json:"findings"`
	// Load is the load of all measured rounds, by action.
	Load []LoadSummary `json:"load,omitempty"`
	// Allowed are known leaks that did not count.
	Allowed []Allowed `json:"allowed,omitempty"`
	// Growing are the goroutine stacks that grew most, largest first.
	Growing []StackGrowth `json:"growing,omitempty"`
	// HeapGrowing are the allocation sites that grew most by bytes, largest first.
	HeapGrowing []StackGrowth `json:"heapGrowing,omitempty"`
	// Spreads are the growth of all stacks, by probe. Growing and HeapGrowing list the largest.
	Spreads []Spread `json:"spreads,omitempty"`
	// Holders says who holds what grew, as in the record.
	Holders *Holders `json:"holders,omitempty"`
	// HeapExplained is how much of the heap's growth those and the other sampled stacks account for.
	HeapExplained *HeapExplained `json:"heapExplained,omitempty"`
	// ComponentHeaps are the same for the components whose heaps were read, in order.
	ComponentHeaps []HeapExplained `json:"componentHeaps,omitempty"`
}

// LoadSummary is the load of an action over all measured rounds.
type LoadSummary struct {
	Action string `json:"action"`
	// Fault describes the fault if the action is one.
	Fault     string `json:"fault,omitempty"`
	Attempted int    `json:"attempted"`
	Failed    int    `json:"failed"`
	// P50 and P99 are the percentiles of a typical round in seconds: of the rounds, weighted by operations, the median.
	// Max is the largest latency.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
	// Open is how an open load kept to its schedule, nil for a closed load.
	Open *OpenLoad `json:"open,omitempty"`
}

// Lead returns the finding that best describes the variant's leak: of the fingerprint, else one whose stack has most of
// the growth, else native memory with most of it, else any. Of several, it is the one with the largest share of the growth;
// nil if none leaks.
func (v *VariantVerdict) Lead() *Finding {
	var best *Finding
	rank := func(f *Finding) float64 {
		share := v.Share(f)
		switch {
		case f.Fingerprint:
			share += 4
		case len(f.Stacks) > 0 && share >= MinMost:
			share += 2
		case f.Outside != "" && share >= MinMost: // it says where resident memory grows
			share++
		case f.Load: // growth comes first
			share--
		}
		return share
	}
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Outcome == Leaking && (best == nil || rank(f) > rank(best)) {
			best = f
		}
	}
	return best
}

// Share returns the share of a finding in the growth that the variant's leaking findings of its unit and process show,
// from 0 to 1. Growth per operation and growth in total are not compared.
func (v *VariantVerdict) Share(f *Finding) float64 {
	most := f.size()
	for i := range v.Findings {
		if o := &v.Findings[i]; o.Outcome == Leaking && o.Unit == f.Unit && o.BoundPerOperation == f.BoundPerOperation && o.process() == f.process() {
			most = max(most, o.size())
		}
	}
	if most <= 0 {
		return 0
	}
	return f.size() / most
}

// size is the growth that the finding is about: per operation or in total, as its bound is.
func (f *Finding) size() float64 {
	if f.BoundPerOperation {
		return f.PerOperation
	}
	first, last := f.Ends()
	return last - first
}

// process is the component that the finding is on, "" for the program.
func (f *Finding) process() string {
	name := f.Series
	if name == "" && len(f.Stacks) > 0 {
		name = f.Stacks[0].Probe
	}
	component, _, ok := strings.Cut(name, "/")
	if !ok {
		return ""
	}
	return component
}

// Ends returns the values of the baseline and of the last round.
func (f *Finding) Ends() (first, last float64) {
	for i, p := range f.Points {
		if i == 0 {
			first = p.Value
		}
		if !p.Idle {
			last = p.Value
		}
	}
	return first, last
}

// HeapExplained holds the growth of the sampled heap profile against that of MemStats, in bytes.
type HeapExplained struct {
	// Probe is the name of the probe that read the component's, "" for the program's own.
	Probe     string  `json:"probe,omitempty"`
	Grew      float64 `json:"grew"`
	Explained float64 `json:"explained"`
	// Error is the standard error of Explained that sampling makes.
	Error float64 `json:"error"`
	// Rate is how many bytes are allocated between two samples.
	Rate int64 `json:"rate"`
	// Unexplained describes growth that is on no sampled stack, "" if it may be chance.
	Unexplained string `json:"unexplained,omitempty"`
}

// Finding is what one check measured.
type Finding struct {
	// Check is the name that the scenario gave the check, Kind its kind.
	Check   string  `json:"check"`
	Kind    string  `json:"kind"`
	Outcome Outcome `json:"outcome"`
	// Summary is one sentence with the numbers.
	Summary string `json:"summary"`
	// Fingerprint is set where the variant names this check as its fingerprint.
	Fingerprint bool   `json:"fingerprint,omitempty"`
	Gates       []Gate `json:"gates"`
	// Series is the name of the judged series, "probe.metric", or "" for stacks.
	Series string `json:"series,omitempty"`
	Unit   string `json:"unit,omitempty"`
	// Outside is the series whose memory the judged one does not include, "" for none.
	Outside string `json:"outside,omitempty"`
	// Points are the judged values, baseline first.
	Points []Point `json:"points,omitempty"`
	// PerOperation is the growth per operation in Unit.
	PerOperation float64 `json:"perOperation"`
	// Low and High are the ends of the 95 % interval of PerOperation, equal where none was computed.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Onset is the round after which the growth began, 0 if it began at the baseline. PerOperation counts from there.
	Onset int `json:"onset,omitempty"`
	// Rhythm is the unit of the growth, "operation", "round" or "minute", if rounds of different sizes show it.
	Rhythm string `json:"rhythm,omitempty"`
	// Floor is the growth per operation that chance explains, or with a bound, that the fluctuations of control
	// rounds explain.
	Floor float64 `json:"floor,omitempty"`
	// Exactly is "2 per operation" or "1 in 10 operations" where a count grows so to the unit.
	Exactly string `json:"exactly,omitempty"`
	// Bound is the bound of the check. BoundPerOperation says whether it is per operation or in all.
	Bound             float64 `json:"bound"`
	BoundPerOperation bool    `json:"boundPerOperation,omitempty"`
	// Unbounded is set if there was no bound: any sustained growth is a leak.
	Unbounded bool `json:"unbounded,omitempty"`
	// Load is set if the finding is on latency or errors. Leaking then means over the bound.
	Load bool `json:"load,omitempty"`
	// Stacks are the judged stacks that grew most, largest first, and Spread is the growth of all of them.
	Stacks []StackGrowth `json:"stacks,omitempty"`
	Spread *Spread       `json:"spread,omitempty"`
}

// InAll reports whether the finding is on total growth: a deadlock has the same size after one round and after ten,
// so growth per operation is meaningless.
func (f *Finding) InAll() bool {
	return f != nil && !f.BoundPerOperation && (f.Kind == "stack" || f.Kind == "hung")
}

// Point is one snapshot of a series.
type Point struct {
	Round      int     `json:"round"`
	Operations int     `json:"operations"`
	Value      float64 `json:"value"`
	Unsettled  bool    `json:"unsettled,omitempty"`
	// Idle marks the measurement after the idle wait; it is not part of the fit.
	Idle bool `json:"idle,omitempty"`
}

// Gate is one comparison that a check made, with the numbers on both sides.
type Gate struct {
	Name string `json:"name"`
	// Value is on the left of Op, Bound on the right.
	Value float64 `json:"value"`
	Op    string  `json:"op"`
	Bound float64 `json:"bound"`
	Unit  string  `json:"unit,omitempty"`
	// Holds reports whether the comparison is true, and Supports its meaning for the outcome.
	Holds    bool     `json:"holds"`
	Supports Supports `json:"supports,omitempty"`
	Doc      string   `json:"doc"`
}

// Supports is what a gate means for the outcome; "" allows both, or is that of an older version, which did not record it.
type Supports string

// The outcomes that a gate leaves.
const (
	SupportsLeak  Supports = "leak"
	SupportsClean Supports = "clean"
	Undecides     Supports = "neither"
)

// String is what a reader of a report sees.
func (s Supports) String() string {
	switch s {
	case SupportsLeak:
		return "supports a leak"
	case SupportsClean:
		return "rules out a leak"
	case Undecides:
		return "undecided"
	}
	return ""
}

// StackGrowth is how much one group grew from the baseline to the last round.
type StackGrowth struct {
	// Probe is the name of the probe that read it, "" for the program's own of the kind.
	Probe string `json:"probe,omitempty"`
	ID    string `json:"id"`
	Stack Stack  `json:"stack"`
	// From and To are counts (goroutines) or bytes (heap).
	From         int64   `json:"from"`
	To           int64   `json:"to"`
	PerOperation float64 `json:"perOperation"`
	// Objects is how many live objects it gained, for the heap.
	Objects int64 `json:"objects,omitempty"`
	// Survived counts goroutines that appeared in a round and still existed in the last measurement; 0 without text
	// dumps.
	Survived int `json:"survived,omitempty"`
	// OldestMinutes is how long the one that waits longest had waited by then.
	OldestMinutes int `json:"oldestMinutes,omitempty"`
	// Module is the module of the innermost frame outside the standard library: "path version" as in go version -m of
	// the subject, replace lines applied, "" if unknown.
	Module string `json:"module,omitempty"`
	// Who is the first frame outside the standard library and plumbing, and Caller the subject's frame that called it or
	// the creator of the goroutine; nil if unknown.
	Who    *Frame `json:"who,omitempty"`
	Caller *Frame `json:"caller,omitempty"`
	// Fingerprint is set where a fingerprint check of the variant matched this stack.
	Fingerprint bool `json:"fingerprint,omitempty"`
}

// Exit codes of the command line.
const (
	ExitMet          = 0
	ExitNotMet       = 1
	ExitUsage        = 2
	ExitUnmeasured   = 3
	ExitInconclusive = 4
	ExitInterrupted  = 130
)

// ExitCode is the one place where exit codes are decided: the worst of usage error, interruption,
// failure to measure, and results, in the order 130, 2, 3, 1, 4, 0.
func ExitCode(interrupted, usage, failed bool, results ...Result) int {
	switch {
	case interrupted:
		return ExitInterrupted
	case usage:
		return ExitUsage
	case failed:
		return ExitUnmeasured
	}
	switch Worst(results...) {
	case Met:
		return ExitMet
	case NotMet:
		return ExitNotMet
	case Unmeasured:
		return ExitUnmeasured
	default:
		return ExitInconclusive
	}
}

// ExitWords describes an exit code.
func ExitWords(code int) string {
	switch code {
	case ExitMet:
		return Met.String()
	case ExitNotMet:
		return NotMet.String()
	case ExitUnmeasured:
		return Unmeasured.String()
	case ExitInconclusive:
		return Undecided.String()
	case ExitInterrupted:
		return "interrupted"
	}
	return "bad usage or scenario"
}

// WorstExit is the worst of the exit codes of several runs, in the same order.
func WorstExit(codes ...int) int {
	for _, code := range []int{ExitInterrupted, ExitUsage, ExitUnmeasured, ExitNotMet, ExitInconclusive} {
		if slices.Contains(codes, code) {
			return code
		}
	}
	return ExitMet
}

// Worst returns the worst result. The order is: could not measure, not as expected, undecided, as expected. It returns
// Undecided for no results.
func Worst(results ...Result) Result {
	if len(results) == 0 {
		return Undecided
	}
	rank := func(r Result) int {
		switch r {
		case Unmeasured:
			return 3
		case NotMet:
			return 2
		case Met:
			return 0
		default:
			return 1
		}
	}
	worst := results[0]
	for _, r := range results[1:] {
		if rank(r) > rank(worst) {
			worst = r
		}
	}
	return worst
}
