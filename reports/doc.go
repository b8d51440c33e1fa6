// Package reports renders a run: text for the terminal, HTML for a reviewer, SVG for an issue, JUnit and Markdown for
// CI, JSON for programs, and a page over many runs.
//
// A report is a pure function of the record and the verdict: it uses no clock, environment or files, and does not
// change its input. It decides nothing. The prefix of a file names its format: html_*.go, text_*.go and so on. Files
// view_*.go compute once what several formats show, so that formats cannot disagree: variants, growth table, series,
// flame graphs, and commands that show a leak again.
package reports
