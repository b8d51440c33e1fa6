// Package reports draws a run for people and programs: text for the terminal, HTML for a reviewer, SVG
// for an issue, JUnit and Markdown for CI, JSON for everything else; and a page over many runs.
//
// A report is a pure function of the record and the verdict: no clock, no environment, no files, and
// the input stays as it was. Nothing is decided here. What several formats show (the variants, the
// table of growth, the series, the commands that show a leak again) is derived once, in view.go,
// growth.go, series.go and commands.go, so that no two formats can disagree.
package reports
