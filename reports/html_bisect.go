package reports

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	_ "embed"

	"github.com/leakrig/leakrig/leak/display"
)

//go:embed html_bisect.tmpl
var bisectSource string

var bisectTemplate = template.Must(pageTemplate.New("bisect").Parse(squeezePage(bisectSource)))

// Bisection is the input of the reports on a bisection, with all numbers already formatted. Package bisect, which has the
// numbers, imports this package.
type Bisection struct {
	Scenario, Sentence, About, Effort, Leakrig string
	// Tone is that of the answer: clean if there is one, else inconclusive.
	Tone string
	// Measure is what the heights of the bars are.
	Measure string
	Bars    []BisectionBar
	Steps   []BisectionStep
	Ends    []BisectionEnd
	// Lines are the answers by release line, if they were searched separately, and WrongEnds the ends that are not as given.
	Lines     []Fact
	WrongEnds []string
	// Unavailable, NotTested and PreReleases are versions that are not candidates, with the reason.
	Unavailable, NotTested, PreReleases []Fact
	// Resume is the command that continues an unfinished search, "" for a finished one.
	Resume string
	// Page is the path of the page.
	Page string
}

// Missing lists the versions that are not candidates.
func (b Bisection) Missing() []Fact { return slices.Concat(b.Unavailable, b.NotTested, b.PreReleases) }

// BisectionBar is one version of the strip. Its outcome is inconclusive if it was not measured.
type BisectionBar struct {
	Name, Tone, Short, Title string
	// Height is in percent of the largest growth.
	Height int
	// Boundary is "leaky" or "clean" for a version next to the answer.
	Boundary string
}

// Y is the top of the bar in an area of 100.
func (b BisectionBar) Y() int { return 100 - b.Pixels() }

// Pixels is the height of the bar, at least 2 so that it is visible.
func (b BisectionBar) Pixels() int { return max(b.Height, 2) }

// BisectionStep is one measurement. Build and Took are times.
type BisectionStep struct {
	Number                                           int
	Name, State, Tone, Growth, Why, Run, Build, Took string
}

// URL is the report of the run, "" if there is none.
func (s BisectionStep) URL() string {
	if s.Run == "" {
		return ""
	}
	return historyRow{HistoryRun: HistoryRun{Report: s.Run + "/report.html"}}.URL()
}

// BisectionEnd is one boundary between a leaky and a clean version.
type BisectionEnd struct {
	Line  string
	Link  string
	Sides []BisectionSide
}

// BisectionSide is a version next to a boundary, with the command that runs it.
type BisectionSide struct{ State, Tone, Name, Command, Print string }

// BisectionHTML writes the page of a bisection. Like a run's report, it is one self-contained file.
func BisectionHTML(w io.Writer, in Bisection) error { return writePage(w, bisectTemplate, in) }

// BisectionText writes the text on a bisection: the steps, the answer, and the commands that run both sides of it.
func BisectionText(w io.Writer, in Bisection) error {
	p := printer{&bytes.Buffer{}}
	p.line("%s", in.About)
	p.line("")
	rows := [][]string{{"", "step", "version", "", "growth per operation", "build", "run"}}
	for _, s := range in.Steps {
		rows = append(rows, []string{"", strconv.Itoa(s.Number), s.Name, s.State, s.Growth, s.Build, s.Took})
	}
	p.table(rows, len(rows[0]))
	p.line("")
	for _, l := range in.Lines {
		p.line("%s: %s", l.Name, l.Value)
	}
	for _, wrong := range in.WrongEnds {
		p.line("%s", wrong)
	}
	if len(in.Lines) == 0 {
		for line := range strings.SplitSeq(in.Sentence, "\n") {
			p.line("%s", line)
		}
	}
	p.line("")
	p.line("%s", in.Effort)
	for _, v := range in.Unavailable {
		p.line("unavailable: %s: %s", v.Name, v.Value)
	}
	for _, v := range in.NotTested {
		p.line("not tested: %s: %s", v.Name, v.Value)
	}
	if n := len(in.PreReleases); n > 0 {
		p.line("not tested: %d pre-releases (--pre includes all of them, --candidates single ones)", n)
	}
	for _, end := range in.Ends {
		if end.Link != "" {
			p.line("what changed: %s", end.Link)
		}
		for _, side := range end.Sides {
			p.line("%s side:   %s", side.State, side.Command)
		}
	}
	if in.Resume != "" {
		p.line("go on:        %s", in.Resume)
	}
	p.line("report:       %s", in.Page)
	return display.WriteText(w, p.b.String())
}

// BisectionMarkdown writes the summary of a bisection for an issue.
func BisectionMarkdown(w io.Writer, in Bisection) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n%s. %s.\n\n", escape(in.Sentence), escape(in.About), escape(in.Effort))
	b.WriteString("| step | version | | growth per operation | run |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range in.Steps {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", s.Number, escape(s.Name), s.State, escape(s.Growth), s.Took)
	}
	for _, end := range in.Ends {
		if end.Link != "" {
			fmt.Fprintf(&b, "\n[What changed](%s)\n", end.Link)
		}
		var commands []string
		for _, side := range end.Sides {
			commands = append(commands, side.Command)
		}
		fmt.Fprintf(&b, "\n%s\n", fence(strings.Join(commands, "\n")))
	}
	return display.WriteText(w, b.String())
}
