package fleet

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// VerdictSchema is the version of the verdict's JSON form.
const VerdictSchema = 1

// Verdict is the conclusion from a record.
type Verdict struct {
	Schema  int          `json:"schema"`
	Outcome leak.Outcome `json:"outcome"`
	Result  leak.Result  `json:"result"`
	// ExitCode is the exit code of `leakrig fleet`.
	ExitCode    int    `json:"exitCode"`
	Sentence    string `json:"sentence"`
	RunDir      string `json:"runDir,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	// Sweeps is the number of sweeps in Hours. The longest took SlowestSweep seconds.
	Sweeps       int     `json:"sweeps"`
	Hours        float64 `json:"hours"`
	SlowestSweep float64 `json:"slowestSweep"`
	Targets      Tally   `json:"targets"`
	// MinJudged is the share of the targets that has to be judged for the fleet to be clean.
	MinJudged float64 `json:"minJudged"`
	// MaxPerHour and MaxPerOperation are the bounds on growth.
	MaxPerHour      float64 `json:"maxPerHour"`
	MaxPerOperation float64 `json:"maxPerOperation"`
	// MaxHeapPerHour and MaxHeapPerOperation are the bounds on the growth of allocation sites, in bytes.
	MaxHeapPerHour      float64 `json:"maxHeapPerHour"`
	MaxHeapPerOperation float64 `json:"maxHeapPerOperation"`
	// FalseAlarmBudget is shared by all Tests, a series of a target each: Alpha is the share of one, and
	// Needed how many points a series needs before it can be significant at that.
	FalseAlarmBudget float64 `json:"falseAlarmBudget"`
	Tests            int     `json:"tests"`
	Alpha            float64 `json:"alpha"`
	Needed           int     `json:"needed"`
	// Floor is the smallest growth per hour of one target that would have been detected.
	Floor float64 `json:"floor"`
	// Stacks are the growing stacks, those in most targets first.
	Stacks []StackVerdict `json:"stacks"`
	// NotJudged are the targets that could not be judged, with the reason.
	NotJudged []Unjudged    `json:"notJudged"`
	Failure   *leak.Failure `json:"failure,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"`
}

// Tally counts targets. Judged are leaking and clean ones, but not undecided ones.
type Tally struct {
	Seen      int `json:"seen"`
	Judged    int `json:"judged"`
	Leaking   int `json:"leaking"`
	Clean     int `json:"clean"`
	Undecided int `json:"undecided"`
	NotJudged int `json:"notJudged"`
	// Gone are targets that ended or restarted before the last sweep. They are judged like the others.
	Gone int `json:"gone"`
}

// Unjudged is a target that could not be judged.
type Unjudged struct {
	Target string `json:"target"`
	Reason string `json:"reason"`
}

// StackVerdict is one stack in the whole fleet.
type StackVerdict struct {
	// Unit is what is counted: "goroutines" or "bytes".
	Unit string `json:"unit"`
	// Stack is nil for all goroutines of a target, if no single stack grows.
	Stack *leak.Stack `json:"stack,omitempty"`
	// Known names the known leak of a leaking stack and the version with the fix, "" if there is none.
	Known string `json:"known,omitempty"`
	// Leaking and Undecided count the targets in which the stack grows. On counts the targets that ever had it.
	Leaking   int `json:"leaking"`
	Undecided int `json:"undecided"`
	On        int `json:"on"`
	// MedianPerHour is the median growth over the targets in which it grows, MedianPerOperation the same if
	// operations are known.
	MedianPerHour      float64 `json:"medianPerHour"`
	MedianPerOperation float64 `json:"medianPerOperation,omitempty"`
	// Typical is how many goroutines stand on it at the end in the middle one of the other targets.
	Typical float64 `json:"typical"`
	// Targets are those in which it grows, worst first.
	Targets []Growth `json:"targets"`

	all   string // the name of the total
	other bool   // the stack stands for the rarer ones together
}

// Growth is one stack in one target.
type Growth struct {
	Target string `json:"target"`
	// Unit is that of From, To and the rates.
	Unit    string       `json:"unit"`
	Outcome leak.Outcome `json:"outcome"`
	// Reason is why growth is not called a leak, "" if it is.
	Reason string `json:"reason,omitempty"`
	From   int    `json:"from"`
	To     int    `json:"to"`
	// PerHour is the Theil–Sen slope, Low and High are the ends of its 95 % interval.
	PerHour float64 `json:"perHour"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	// PerOperation is the slope over operations, nil if they are unknown. If it is set, it was judged.
	PerOperation *float64    `json:"perOperation,omitempty"`
	Gates        []leak.Gate `json:"gates"`
	// Seconds and Counts are the points, of the heap in KiB.
	Seconds []float64 `json:"seconds"`
	Counts  Counts    `json:"counts"`
}

// JSON returns the verdict as JSON. If it would be larger than leak.MaxOutput, it omits the details of its last
// stacks, half of them at a time, and adds a warning.
func JSON(v *Verdict) ([]byte, error) {
	warnings := v.Warnings[:min(len(v.Warnings), maxWarnings+1)]
	for all := len(v.Stacks); ; {
		fits := true
		size := 0
		for i := range v.Stacks {
			if s := v.Stacks[i].Stack; s != nil {
				size += s.JSONSize()
			}
			for _, g := range v.Stacks[i].Targets {
				size += 400 + 200*len(g.Gates) + 30*len(g.Counts)
			}
			if fits = size <= leak.MaxStackText; !fits {
				break
			}
		}
		if fits {
			data, err := json.MarshalIndent(v, "", " ")
			if err != nil || len(data) < display.MaxOutput || len(v.Stacks) == 0 {
				return append(data, '\n'), err
			}
		}
		short := *v
		short.Stacks = v.Stacks[:len(v.Stacks)/2]
		short.Warnings = append(slices.Clone(warnings),
			fmt.Sprintf("the verdict would be larger than %d MiB: %d of %d stacks are omitted", display.MaxOutput>>20, all-len(short.Stacks), all))
		v = &short
	}
}
