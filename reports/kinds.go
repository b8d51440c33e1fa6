package reports

import (
	"bytes"
	"errors"
	"io"

	"github.com/leakrig/leakrig/leak"
)

// Input is all that a report is drawn from. Reports never change it.
type Input struct {
	Scenario *leak.Scenario
	Record   *leak.Record
	Verdict  *leak.Verdict
	// RunDir is the run directory as the user would type it, for commands that are printed.
	RunDir string
	// Detail is how much the text report says.
	Detail Detail
	// Sources are the available source lines of the frames from SourceFrames.
	Sources leak.Sources
}

// Detail is how much the text report says.
type Detail int

// Normal is the verdict with the lines to look at, Brief the verdict line alone, Full also has all gates.
const (
	Normal Detail = iota
	Brief
	Full
)

// Format is one way to render a run.
type Format struct {
	Name string
	Doc  string
	// File is its name in the run directory; "" where it is not written there.
	File   string
	Render func(w io.Writer, in Input) error
}

// Formats lists every format. A new one is a file in this package and a line here.
func Formats() []Format {
	return []Format{
		{"text", "Text for the terminal.", "", draw(text)},
		{"json", "The verdict and a summary of the record, for programs; see Report.", "", draw(jsonReport)},
		{"html", "One self-contained page with charts, stacks and every number.", leak.HTMLFile, draw(html)},
		{"svg", "The differential flame graph of the variant that leaks, to paste into an issue.", "flame.svg", draw(svg)},
		{"junit", "Test cases for a CI system, one per check and variant.", leak.JUnitFile, draw(junit)},
		{"markdown", "A short summary for a CI job page or an issue.", leak.SummaryFile, draw(markdown)},
	}
}

// draw completes a format. Every byte of every format passes through leak.Printable, so that no format can
// forget that function names, log lines and YAML may hold terminal escapes or broken UTF-8. A page that would be larger than
// leak.MaxOutput shows less of the stacks.
func draw(f func(b *bytes.Buffer, v view) error) func(io.Writer, Input) error {
	return func(w io.Writer, in Input) error {
		err := leak.ErrOutput
		for i := -1; i < len(rooms) && errors.Is(err, leak.ErrOutput); i++ {
			fitting := in
			if i >= 0 {
				fitting = fit(in, rooms[i])
			}
			var b bytes.Buffer
			if err = f(&b, newView(fitting)); err == nil {
				err = leak.WriteText(w, b.String())
			}
		}
		return err
	}
}
