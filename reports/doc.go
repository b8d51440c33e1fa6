// Package reports renders a run: text for the terminal, HTML for a reviewer, SVG for an issue, JUnit and Markdown for
// CI, JSON for programs, and a page over many runs.
//
// A report is a pure function of the record and the verdict: it uses no clock, environment or files, and does not
// change its input. It decides nothing. Several formats show the same data: variants, growth table, series, and
// commands that show a leak again. view.go, growth.go, series.go and commands.go compute it once, so that formats
// cannot disagree.
package reports
