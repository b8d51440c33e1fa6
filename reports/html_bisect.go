package reports

import (
	"html/template"
	"io"

	_ "embed"
)

//go:embed html_bisect.tmpl
var bisectSource string

var bisectTemplate = template.Must(pageTemplate.New("bisect").Parse(squeezePage(bisectSource)))

// BisectionInput is the input of the page of a bisection, with all numbers already formatted. Package bisect, which
// has the numbers, imports this package.
type BisectionInput struct {
	Scenario, Sentence, About, Effort, Leakrig string
	// Tone is that of the answer: clean if there is one, else inconclusive.
	Tone string
	// Measure is what the heights of the bars are.
	Measure string
	Bars    []BisectionBar
	Steps   []BisectionStep
	Ends    []BisectionEnd
	Lines   []BisectionFact
	// Missing are versions that are not candidates, with the reason.
	Missing []BisectionFact
}

// BisectionFact is a name with its description.
type BisectionFact struct{ Name, Value string }

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

// BisectionStep is one measurement.
type BisectionStep struct {
	Number                                     int
	Name, State, Tone, Growth, Why, Run, Build string
	Seconds                                    string
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

// Bisection writes the page of a bisection. Like a run's report, it is one self-contained file.
func Bisection(w io.Writer, in BisectionInput) error { return writePage(w, bisectTemplate, in) }
