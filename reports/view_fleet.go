package reports

import (
	"github.com/leakrig/leakrig/leak"
)

// Fleet is the input of the reports on a fleet, with all numbers already formatted. Package fleet, which has the numbers,
// imports this package.
type Fleet struct {
	Name     string
	Outcome  leak.Outcome
	Result   leak.Result
	Sentence string
	Failure  *leak.Failure
	// Interrupted is when the survey was interrupted, "" if it was not.
	Interrupted string
	// Facts describe the survey, and Summary does so in sentences.
	Facts     []Fact
	Summary   []string
	Stacks    []FleetStack
	NotJudged []Fact
	Warnings  []string
	// Commands are to copy, each with what it is for. Leakrig is the version that measured.
	Commands []Fact
	RunDir   string
	Leakrig  string
}

// Fact is a name with its description.
type Fact struct{ Name, Value string }

// FleetStack is a stack that grows in some targets.
type FleetStack struct {
	Outcome leak.Outcome
	// Name is the stack in one line. State and Place are its parts.
	Name, State, Place                string
	GrowsIn, Worst, Median, Elsewhere string
	// Known names the known leak and the version with the fix, "" if there is none. Note explains growth in most targets.
	Known, Note string
	Frames      []leak.Frame
	Targets     []FleetTarget
}

// FleetTarget is one target in which a stack grows.
type FleetTarget struct {
	Name, Reason, Rate string
	// Grew is the first and the last value.
	Grew    string
	Outcome leak.Outcome
	Gates   []leak.Gate
	// Seconds are the times at which the counts were read.
	Seconds []float64
	Counts  []int32
	// Unit is that of the counts.
	Unit string
}
