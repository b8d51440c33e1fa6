package reports

import (
	"bytes"
	"errors"
	"io"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// Input is the complete input of a report. Reports never change it.
type Input struct {
	Scenario *leak.Scenario
	Record   *leak.Record
	Verdict  *leak.Verdict
	// RunDir is the run directory as the user would type it. Printed commands use it.
	RunDir string
	// Detail is the level of detail of the text report.
	Detail Detail
	// Sources are the available source lines of the frames from SourceFrames.
	Sources rundir.Sources
}

// Detail is a level of detail of the text report.
type Detail int

// Normal shows the verdict and the lines that need attention. Brief shows only the verdict line. Full also shows all
// gates.
const (
	Normal Detail = iota
	Brief
	Full
)

// Format is one way to render a run.
type Format struct {
	Name string
	Doc  string
	// File is the name of its file in the run directory, "" if it is not written there.
	File   string
	Render func(w io.Writer, in Input) error
}

// Formats returns every format. To add one, write a file in this package and add a line here.
func Formats() []Format {
	return []Format{
		{"text", "Text for the terminal.", "", draw(text)},
		{"json", "The verdict and a summary of the record, for programs; see Report.", "", draw(jsonReport)},
		{"html", "One self-contained page with charts, stacks and every number.", rundir.HTMLFile, draw(html)},
		{"svg", "The differential flame graph of the variant that leaks, to paste into an issue.", "flame.svg", draw(svg)},
		{"speedscope", "The changes of all variants, for speedscope.", "", draw(speedscope)},
		{"junit", "Test cases for a CI system, one per check and variant.", rundir.JUnitFile, draw(junit)},
		{"github", "Annotations of GitHub Actions, at file and line.", "", github},
		{"sarif", "SARIF 2.1.0 for code scanning.", "", draw(sarif)},
		{"openmetrics", "OpenMetrics text for a textfile collector.", "", draw(metrics)},
		{"comment", "One Markdown comment for a pull request, of at most 60 lines.", "", draw(comment)},
		{"markdown", "A short summary for a CI job page or an issue.", rundir.SummaryFile, draw(markdown)},
	}
}

// draw completes a format. Every byte of every format passes through display.Printable, so that no format can forget it:
// function names, log lines and YAML may hold terminal escapes or broken UTF-8. If a page would be larger than
// display.MaxOutput, draw reduces its stacks.
func draw(f func(b *bytes.Buffer, v view) error) func(io.Writer, Input) error {
	return func(w io.Writer, in Input) error {
		err := display.ErrOutput
		for i := -1; i < len(rooms) && errors.Is(err, display.ErrOutput); i++ {
			fitting := in
			if i >= 0 {
				fitting = fit(in, rooms[i])
			}
			var b bytes.Buffer
			if err = f(&b, newView(fitting)); err == nil {
				err = display.WriteText(w, b.String())
			}
		}
		return err
	}
}
