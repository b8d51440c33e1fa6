package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// The JUnit form that CI systems read. It has no skipped elements, because most systems treat a skipped test as
// passed, and an inconclusive check must not pass.
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCounts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr,omitempty"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",cdata"`
	}
)

// junit writes one suite per scenario, one class per variant, one case per check, and a case for the verdict of the
// variant. So CI servers group by scenario and variant, and keep a separate history per check.
func junit(b *bytes.Buffer, v view) error {
	suite := junitSuite{Name: v.Name(), Time: fmt.Sprintf("%.3f", v.Elapsed().Seconds())}
	if !v.Record.Started.IsZero() {
		suite.Timestamp = v.Record.Started.UTC().Format("2006-01-02T15:04:05")
	}
	suite.Properties = junitProperties(v)
	suite.Cases = runCase(v)
	for _, x := range v.Variants {
		class := v.Name() + "." + x.Name
		suite.Cases = append(suite.Cases, verdictCase(class, x))
		for _, f := range x.Verdict.Findings {
			suite.Cases = append(suite.Cases, checkCase(class, x, f))
		}
	}
	suite.count()
	b.WriteString(xml.Header)
	e := xml.NewEncoder(b)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{junitCounts: suite.junitCounts, Suites: []junitSuite{suite}}); err != nil {
		return err
	}
	b.WriteString("\n")
	return nil
}

// junitProperties returns the versions and the machine of the run.
func junitProperties(v view) []junitProperty {
	var list []junitProperty
	for _, f := range (page{view: v}).VersionFacts() {
		list = append(list, junitProperty(f))
	}
	modules, _ := head(v.stackModules(), 8)
	for _, path := range modules {
		for _, m := range v.versions(path) {
			list = append(list, junitProperty{path + " of " + strings.Join(m.Variants, ", "), m.Version})
		}
	}
	return list
}

func (s *junitSuite) count() {
	for _, c := range s.Cases {
		s.Tests++
		if c.Failure != nil {
			s.Failures++
		}
		if c.Error != nil {
			s.Errors++
		}
	}
}

// runCase returns a case if the run as a whole failed, which the case of no variant shows.
func runCase(v view) []junitCase {
	c := junitCase{Class: v.Name(), Name: "run"}
	switch {
	case v.Record.Failure != nil:
		c.Error = &junitProblem{leak.Unmeasured.String(), v.Record.Failure.Message, failureText(v.Record.Failure)}
	case v.Interrupted():
		c.Error = &junitProblem{"interrupted", "the run was interrupted", v.Sentence()}
	case len(v.Variants) == 0:
		c.Error = &junitProblem{leak.Unmeasured.String(), "no variant was measured", v.Sentence()}
	default:
		return nil
	}
	return []junitCase{c}
}

func verdictCase(class string, x variant) junitCase {
	c := junitCase{Class: class, Name: "verdict"}
	if d := x.Elapsed(); d > 0 {
		c.Time = fmt.Sprintf("%.3f", d.Seconds())
	}
	p := &junitProblem{x.Verdict.Result.String(), x.Verdict.Reason, failureText(x.Record.Failure) + stacksText(x)}
	switch x.Verdict.Result {
	case leak.Met:
		c.Out = x.Verdict.Reason
	case leak.Unmeasured:
		c.Error = p
	case leak.NotMet:
		c.Failure = p
	default:
		p.Type = leak.Inconclusive.String()
		c.Failure = p
	}
	return c
}

func checkCase(class string, x variant, f leak.Finding) junitCase {
	c := junitCase{Class: class, Name: f.Check}
	if !x.Against(f) {
		c.Out = f.Outcome.String() + ": " + f.Summary
		return c
	}
	p := &junitProblem{f.Outcome.String(), f.Summary, findingText(f)}
	if f.Outcome == leak.Inconclusive && x.Verdict.Result == leak.Unmeasured {
		c.Error = p
	} else {
		c.Failure = p
	}
	return c
}

func findingText(f leak.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, bound %s\n", f.Summary, perOperation(f.PerOperation, f.Unit), bound(f))
	for _, g := range f.Gates {
		line := g.Name + ": " + comparison(g)
		if g.Supports != "" {
			line += " (" + g.Supports.String() + ")"
		}
		fmt.Fprintf(&b, "%s. %s\n", line, g.Doc)
	}
	stacks := len(f.Stacks)
	if f.Spread != nil {
		stacks = max(stacks, f.Spread.Stacks)
	}
	writeStacks(&b, f.Stacks, f.Unit, stacks)
	return b.String()
}

func failureText(f *leak.Failure) string {
	switch {
	case f == nil:
		return ""
	case f.Hint == "":
		return f.Message + "\n"
	}
	return f.Message + "\nhint: " + f.Hint + "\n"
}

func stacksText(x variant) string {
	var b strings.Builder
	for _, heap := range []bool{false, true} {
		stacks := x.Goroutines()
		if heap {
			stacks = x.Heap()
		}
		writeStacks(&b, stacks, stackUnit(heap), len(stacks)+x.unlisted(heap))
	}
	return b.String()
}

// writeStacks writes the first of all stacks in the form of a Go panic: function, then position.
func writeStacks(b *strings.Builder, stacks []leak.StackGrowth, unit string, all int) {
	shown, _ := head(stacks, 3)
	more := all - len(shown)
	for _, g := range shown {
		fmt.Fprintf(b, "\n%s: %s\n", perOperation(g.PerOperation, unit), g.Stack)
		frames, cut := head(g.Stack.Frames, 24)
		for _, f := range frames {
			fmt.Fprintf(b, "%s\n    %s\n", f.Func, f.Position())
		}
		if cut > 0 {
			fmt.Fprintln(b, and(cut, "frame"))
		}
		if g.Stack.Creator != nil {
			fmt.Fprintf(b, "created by %s\n    %s\n", g.Stack.Creator.Func, g.Stack.Creator.Position())
		}
	}
	if more > 0 {
		fmt.Fprintf(b, "\n%s\n", and(more, stackNoun(unit == stackUnit(true))))
	}
}
