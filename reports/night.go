package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// nightSummary bounds what one run adds to the page of a night, and nightPage the page: an issue holds
// 65,536 characters.
const (
	nightSummary = 12_000
	nightPage    = 60_000
)

// Night is what became of several scenarios that were run one after another.
type Night struct {
	// Command is what was typed, without the program.
	Command []string
	Started time.Time
	Runs    []NightRun
	// ExitCode is that of the whole: the worst of those that count.
	ExitCode int
}

// NightRun is one of them.
type NightRun struct {
	Scenario string
	// Left is why it was not run, "" where it was; nothing else is set then.
	Left     string
	ExitCode int
	Took     time.Duration
	// Dir is the run directory, "" where nothing was measured.
	Dir string
	// Why is the verdict in one sentence, or the error and what to do about it.
	Why string
	// Summary is the Markdown summary of the run, "" where there is none.
	Summary string
}

// Status is what became of it, in words.
func (r NightRun) Status() string {
	if r.Left != "" {
		return "not run"
	}
	return leak.ExitWords(r.ExitCode)
}

func (r NightRun) met() bool { return r.Left == "" && r.ExitCode == leak.ExitMet }

// title is the night in one line, as the title of an issue.
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

// NightText is the table that ends `leakrig run` of several scenarios, with a line for each that did not
// come out as expected.
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
	return leak.WriteText(w, b.String())
}

// NightMarkdown is the page of a night for a CI job or, its first line the title, an issue: the table, and the
// summaries of the runs that did not come out as expected.
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
	return leak.WriteText(w, b.String())
}
