// Package reports renders a run: text for the terminal, HTML for a reviewer, SVG for an issue, JUnit and Markdown for
// CI, JSON for programs, and a page over many runs.
//
// A report is a pure function of the record and the verdict: it uses no clock, environment or files, and does not
// change its input. It decides nothing. Data that several formats show (variants, growth table, series, commands that
// show a leak again) is computed once, in view.go, growth.go, series.go and commands.go, so that formats cannot
// disagree.
package reports
