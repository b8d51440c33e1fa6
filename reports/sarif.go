package reports

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// The parts of SARIF 2.1.0 that code scanning reads.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		Automation  sarifAutomation   `json:"automationDetails"`
		ColumnKind  string            `json:"columnKind"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifAutomation struct {
		ID string `json:"id"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool `json:"executionSuccessful"`
		ExitCode            int  `json:"exitCode"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations,omitempty"`
		Stacks       []sarifStack      `json:"stacks,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
	sarifStack struct {
		Message sarifMessage `json:"message"`
		Frames  []sarifFrame `json:"frames"`
	}
	sarifFrame struct {
		Location sarifLocation `json:"location"`
	}
)

// sarifRules are the problems that a run finds, by what grows. The last one is for runs that decided nothing.
var sarifRules = []sarifRule{
	{"goroutine-leak", sarifMessage{"Goroutines grow with the operations and do not end"}},
	{"memory-leak", sarifMessage{"Memory grows with the operations and is not released"}},
	{"resource-leak", sarifMessage{"Descriptors, threads or other resources grow with the operations"}},
	{"not-reproduced", sarifMessage{"A known leak was not found"}},
	{"no-verdict", sarifMessage{"The run could not decide whether the program leaks"}},
}

func (a annotation) rule() int {
	switch {
	case a.Result == leak.Undecided || a.Result == leak.Unmeasured:
		return 4
	case a.Lead == nil:
		return 3
	case a.Lead.Unit == "goroutines":
		return 0
	case a.Lead.Unit == "bytes" || a.Lead.Unit == "objects":
		return 1
	}
	return 2
}

// sarif writes SARIF 2.1.0 for code scanning, with a result for each variant that leaks or is not as expected.
func sarif(b *bytes.Buffer, v view) error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{"leakrig", v.Record.Leakrig, "https://github.com/leakrig/leakrig", sarifRules}},
		Invocations: []sarifInvocation{{ExecutionSuccessful: v.Result() != leak.Unmeasured, ExitCode: v.ExitCode()}},
		Results:     []sarifResult{}, Automation: sarifAutomation{"leakrig/" + v.Name() + "/"}, ColumnKind: "unicodeCodePoints",
	}
	for _, a := range v.annotations() {
		r := sarifResult{RuleIndex: a.rule(), Level: "error", Message: sarifMessage{a.Title + ". " + a.Message}, Fingerprints: map[string]string{}}
		r.RuleID = sarifRules[r.RuleIndex].ID
		switch a.Result {
		case leak.Met:
			r.Level = "note"
		case leak.Undecided, leak.Unmeasured:
			r.Level = "warning"
		}
		key := v.Name() + "/" + a.Variant.Name + "/" + r.RuleID
		if a.File != "" {
			r.Locations = []sarifLocation{{Physical: &sarifPhysical{sarifArtifact{fileURI(a.File)}, &sarifRegion{max(a.Line, 1)}}}}
		}
		if g := a.Growth; g != nil {
			who, _ := v.who(a.Variant, *g)
			key += "/" + who.Stable()
			r.Stacks = []sarifStack{sarifStackOf(a.Variant, *g)}
		}
		r.Fingerprints["leakrig/v1"] = key
		run.Results = append(run.Results, r)
	}
	e := json.NewEncoder(b)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

func sarifStackOf(x variant, g leak.StackGrowth) sarifStack {
	s := sarifStack{Message: sarifMessage{stackTitle(g)}, Frames: []sarifFrame{}}
	frames, _ := head(g.Stack.Frames, htmlFrames)
	if g.Stack.Creator != nil {
		frames = append(frames[:len(frames):len(frames)], *g.Stack.Creator)
	}
	info := x.Record.Binary(g.Probe)
	for _, f := range frames {
		l := sarifLocation{Logical: []sarifLogical{{f.Func, "function"}}}
		if position := info.Position(f); position != "" {
			file := position[:strings.LastIndexByte(position, ':')]
			l.Physical = &sarifPhysical{Artifact: sarifArtifact{fileURI(file)}}
			if f.Line > 0 {
				l.Physical.Region = &sarifRegion{f.Line}
			}
		}
		s.Frames = append(s.Frames, sarifFrame{l})
	}
	return s
}
