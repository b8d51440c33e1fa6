package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// nightSummary limits what one run adds to the page of a night, in bytes. nightPage limits the page, because an issue
// holds 65,536 characters.
const (
	nightSummary = 12_000
	nightPage    = 60_000
)

// Night holds the results of several scenarios that leakrig ran one after another.
type Night struct {
	// Command is the command line without the program name.
	Command []string
	Started time.Time
	Runs    []NightRun
	// ExitCode is the exit code of the whole night: the worst of those that count.
	ExitCode int
}

// NightRun is the result of one scenario.
type NightRun struct {
	Scenario string
	// Left is the reason why the scenario did not run, "" if it ran. If it is set, the other results are empty.
	Left     string
	ExitCode int
	Took     time.Duration
	// Dir is the run directory, "" if nothing was measured.
	Dir string
	// Why is the verdict in one sentence, or the error with its hint.
	Why string
	// Summary is the Markdown summary of the run, "" if it has none.
	Summary string
}

// Status describes the result in words.
func (r NightRun) Status() string {
	if r.Left != "" {
		return "not run"
	}
	return leak.ExitWords(r.ExitCode)
}

func (r NightRun) met() bool { return r.Left == "" && r.ExitCode == leak.ExitMet }

// title summarizes the night in one line, for the title of an issue.
func (n Night) title() string {
	met, left := 0, 0
	for _, r := range n.Runs {
		if r.met() {
			met++
		}
		if r.Left != "" {
			left++
		}
	}
	s := fmt.Sprintf("leakrig: %d of %s as expected", met, count(len(n.Runs)-left, "scenario"))
	if left > 0 {
		s += fmt.Sprintf(", %d not run", left)
	}
	return s
}

func (n Night) rows(cell func(string) string) [][]string {
	rows := [][]string{{"scenario", "verdict", "exit", "time", "run directory"}}
	for _, r := range n.Runs {
		code, took := fmt.Sprint(r.ExitCode), r.Took.Round(time.Second).String()
		if r.Left != "" {
			code, took = "–", "–"
		}
		rows = append(rows, []string{cell(r.Scenario), cell(r.Status()), code, took, cell(r.Dir)})
	}
	return rows
}

// NightText writes the table at the end of `leakrig run` with several scenarios. It adds a line for each scenario
// that did not meet its expectation.
func NightText(w io.Writer, n Night) error {
	var b bytes.Buffer
	p := printer{&b}
	p.line("")
	p.line("%s", n.title())
	p.table(n.rows(oneLine), 5)
	for _, r := range n.Runs {
		if why := strings.TrimSpace(r.Left + r.Why); !r.met() && why != "" {
			p.para("  ", r.Scenario+": "+why)
		}
	}
	return display.WriteText(w, b.String())
}

// NightMarkdown writes the page of a night for a CI job or an issue. Its first line is the title. It has the table
// and the summaries of the runs that did not meet their expectations.
func NightMarkdown(w io.Writer, n Night) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nStarted %s with `leakrig %s`; exit code %d, %s.\n\n", n.title(),
		n.Started.UTC().Format("2006-01-02 15:04 UTC"), strings.ReplaceAll(oneLine(strings.Join(n.Command, " ")), "`", "'"), n.ExitCode, leak.ExitWords(n.ExitCode))
	for i, row := range n.rows(escape) {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("| --- | --- | ---: | ---: | --- |\n")
		}
	}
	for _, r := range n.Runs {
		if r.Left != "" {
			fmt.Fprintf(&b, "\n**%s** was not run: %s\n", escape(r.Scenario), escape(r.Left))
		}
	}
	for _, r := range n.Runs {
		if r.Left != "" || r.met() {
			continue
		}
		part := fmt.Sprintf("\n**%s**: %s\n", escape(r.Scenario), escape(r.Why))
		if r.Summary != "" {
			part = "\n" + r.Summary
		}
		if len(r.Summary) > nightSummary || b.Len()+len(part) > nightPage {
			part = fmt.Sprintf("\n**%s**: %s (its summary is too long for this page: %s)\n", escape(r.Scenario), escape(r.Why), escape(r.Dir))
		}
		b.WriteString(part)
	}
	return display.WriteText(w, b.String())
}
