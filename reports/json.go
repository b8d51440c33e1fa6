package reports

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// ReportSchema is the version of Report's JSON form, which docs/report.schema.json describes. Fields are
// added under the same version; a field that changes or goes makes a new one.
const ReportSchema = 1

// Report is what the json format writes:
//
//	{
//	 "schema": 1,
//	 "scenario": "watch-then-delete",
//	 "runDir": "runs/watch-then-delete/20261120T140312Z",
//	 "result": "as expected",        // or: not as expected, undecided, could not measure
//	 "exitCode": 0,                  // what `leakrig run` exits with for this run
//	 "answer": {…},                  // who leaks, at what cost, and what to type next
//	 "verdict": {…},                 // verdict.json, whole: findings, gates, growing stacks
//	 "record": {…},                  // run.json without samples and stacks
//	 "commands": ["go tool pprof …"] // shell lines that show the growth in the raw profiles
//	}
//
// Unlike the formats for people it cuts no list of the verdict. The verdict lists the largest stacks; its spreads count
// all of them.
type Report struct {
	Schema   int           `json:"schema"`
	Scenario string        `json:"scenario"`
	RunDir   string        `json:"runDir"`
	Result   leak.Result   `json:"result"`
	ExitCode int           `json:"exitCode"`
	Answer   Answer        `json:"answer"`
	Verdict  *leak.Verdict `json:"verdict"`
	Record   RecordSummary `json:"record"`
	Commands []string      `json:"commands"`
}

// RecordSummary is a record without its samples and stacks.
type RecordSummary struct {
	Leakrig     string            `json:"leakrig"`
	Started     time.Time         `json:"started"`
	Finished    time.Time         `json:"finished,omitzero"`
	Machine     leak.Machine      `json:"machine"`
	Cluster     *leak.ClusterInfo `json:"cluster,omitempty"`
	Plan        leak.Plan         `json:"plan"`
	Parameters  map[string]string `json:"parameters,omitempty"`
	Interrupted bool              `json:"interrupted"`
	Failure     *leak.Failure     `json:"failure,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`
	Variants    []VariantSummary  `json:"variants"`
}

// VariantSummary is a variant's record without its samples and stacks.
type VariantSummary struct {
	Name string `json:"name"`
	// Replica is the number of the replica, 0 if there is only one.
	Replica    int              `json:"replica,omitempty"`
	Subject    leak.SubjectInfo `json:"subject"`
	Operations int              `json:"operations"`
	Failure    *leak.Failure    `json:"failure,omitempty"`
	Warnings   []string         `json:"warnings,omitempty"`
	// Rounds starts with the baseline, round 0.
	Rounds []RoundSummary `json:"rounds"`
}

// RoundSummary is a snapshot without its samples.
type RoundSummary struct {
	Round      int               `json:"round"`
	Operations int               `json:"operations"`
	Load       []leak.Tally      `json:"load,omitempty"`
	Settle     leak.SettleResult `json:"settle"`
}

func jsonReport(b *bytes.Buffer, v view) error {
	if tooLong(v.Input) { // which is known before it is encoded
		return display.ErrOutput
	}
	r := Report{
		Schema: ReportSchema, Scenario: v.Name(), RunDir: v.RunDir,
		Result: v.Result(), ExitCode: v.ExitCode(), Answer: v.Answer(),
		Verdict: v.Verdict, Record: summarise(v), Commands: []string{},
	}
	for _, c := range v.pprofCommands() {
		r.Commands = append(r.Commands, c.Line)
	}
	e := json.NewEncoder(b)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func summarise(v view) RecordSummary {
	s := RecordSummary{
		Leakrig: v.Record.Leakrig, Started: v.Record.Started, Finished: v.Record.Finished,
		Machine: v.Record.Machine, Cluster: v.Record.Cluster, Plan: v.Record.Plan, Parameters: v.Record.Parameters,
		Interrupted: v.Interrupted(), Failure: v.Record.Failure, Warnings: v.Record.Warnings,
		Variants: []VariantSummary{},
	}
	for _, x := range v.Variants {
		vs := VariantSummary{
			Name: x.Name, Replica: x.Record.Replica, Subject: x.Record.Subject, Operations: x.Operations(),
			Failure: x.Record.Failure, Warnings: x.Record.Warnings, Rounds: []RoundSummary{},
		}
		for _, snap := range x.Record.Snapshots {
			vs.Rounds = append(vs.Rounds, RoundSummary{snap.Round, snap.Operations, snap.Load, snap.Settle})
		}
		s.Variants = append(s.Variants, vs)
	}
	return s
}
