package reports

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// markdownColumns is the maximum number of series in the table of a CI job page.
const markdownColumns = 5

// markdown writes the summary for a CI job page or an issue.
func markdown(b *bytes.Buffer, v view) error {
	fmt.Fprintf(b, "## %s %s: %s\n\n%s\n", markdownMark(v), escape(v.Name()), escape(v.Headline()), escape(v.Sentence()))
	if f := v.Record.Failure; f != nil {
		fmt.Fprintf(b, "\n%s\n", fence(failureText(f)))
	}
	markdownAnswer(b, v.Answer())
	markdownGrowth(b, v)
	markdownWarnings(b, v.Warnings())
	shown := map[string]bool{}
	for _, x := range v.Variants {
		markdownVariant(b, x, v.Sources, shown)
	}
	markdownReproduce(b, v)
	return nil
}

// markdownAnswer writes the answer as a list, with the commands to copy.
func markdownAnswer(b *bytes.Buffer, a Answer) {
	fmt.Fprintf(b, "\n- **Leaks?** %s\n- **Expected?** %s\n", escape(a.Leaks), escape(a.Rig))
	item := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "- **%s**: %s\n", name, text)
		}
	}
	frame := func(f *AnswerFrame) string {
		if f == nil {
			return ""
		}
		text := escape(strings.TrimSpace(f.How + " " + f.Func))
		switch {
		case f.Position == "":
		case f.URL != "":
			text += fmt.Sprintf(", [%s](%s)", escape(f.Position), f.URL)
		default:
			text += ", " + escape(f.Position)
		}
		return text
	}
	who := []string{frame(a.Who), frame(a.Caller), escape(a.Share)}
	item("Who", strings.Join(slices.DeleteFunc(who, func(s string) bool { return s == "" }), "; "))
	item("Blocks on", escape(a.Blocks))
	for _, c := range a.Cost {
		item("Cost", escape(c))
	}
	item("Holder", escape(a.Holder))
	item("Proof", escape(a.Proof))
	if a.Known != "" {
		item("Known", fmt.Sprintf("[%s](%s)", escape(a.Known), a.Link))
	}
	item("Fix", escape(a.Clean))
	if a.Outcome == leak.Clean {
		return
	}
	var lines []string
	for _, c := range a.Next {
		lines = append(lines, c.Command)
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\nNext:\n\n%s\n", fence(strings.Join(lines, "\n")))
	}
}

func markdownMark(v view) string {
	switch v.Result() {
	case leak.Met:
		return "✅"
	case leak.NotMet:
		return "❌"
	}
	return "⚠️"
}

func markdownGrowth(b *bytes.Buffer, v view) {
	if len(v.Variants) == 0 {
		return
	}
	columns := v.growthColumns(markdownColumns)
	b.WriteString("\n| variant | expected | outcome | result |")
	for _, c := range columns {
		if fmt.Fprintf(b, " %s", escape(c.Title())); !c.InAll() {
			b.WriteString(" per operation")
		}
		b.WriteString(" |")
	}
	fmt.Fprintf(b, "\n| --- | --- | --- | --- |%s\n", strings.Repeat(" ---: |", len(columns)))
	for i, x := range v.Variants {
		fmt.Fprintf(b, "| %s | %s | %s | %s |", escape(x.Name), escape(expected(x.Verdict.Expect)), x.Verdict.Outcome, x.Verdict.Result)
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", escape(c.Cells[i].Growth()))
		}
		b.WriteString("\n")
	}
}

func markdownWarnings(b *bytes.Buffer, warnings []string) {
	shown, more := head(warnings, textWarnings)
	if len(shown) > 0 {
		b.WriteString("\n")
	}
	for _, w := range shown {
		fmt.Fprintf(b, "- Warning: %s\n", escape(w))
	}
	if more > 0 {
		fmt.Fprintf(b, "- %s\n", and(more, "warning"))
	}
}

// markdownVariant describes what a reader must see without opening the report: what leaks, and what did not meet its
// expectation. It shows the source of each stack once.
func markdownVariant(b *bytes.Buffer, x variant, sources rundir.Sources, shown map[string]bool) {
	if x.Verdict.Outcome != leak.Leaking && x.Verdict.Result == leak.Met {
		return
	}
	fmt.Fprintf(b, "\n**%s**: %s. %s\n", escape(x.Name), x.Verdict.Result, escape(x.Verdict.Reason))
	for i, l := range x.ReplicaLines() {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s\n", escape(l))
	}
	if r := x.Record.Subject.Rewrite; r != nil {
		fmt.Fprintf(b, "\nRe-enacted: %s\n", escape(reenacted(r)))
	}
	for _, line := range x.Reconciled() {
		fmt.Fprintf(b, "\nHeap: %s\n", escape(line))
	}
	if f := x.Record.Failure; f != nil {
		fmt.Fprintf(b, "\n%s\n", fence(failureText(f)))
	}
	g, heap, found := x.lead()
	for i, stacks := range [][]leak.StackGrowth{x.Goroutines(), x.Heap()} {
		if !found && len(stacks) > 0 {
			g, heap, found = stacks[0], i == 1, true
		}
	}
	if found {
		text := markdownStack(g, stackUnit(heap), x.Verdict.Lead().InAll())
		for _, line := range x.held(g, stackUnit(heap)) {
			text += "\n  " + line
		}
		fmt.Fprintf(b, "\n%s\n", fence(text))
		if !shown[g.ID] {
			markdownSource(b, g.Stack, x.Record.Binary(g.Probe), sources)
		}
		shown[g.ID] = true
	}
}

func markdownStack(g leak.StackGrowth, unit string, inAll bool) string {
	grew := perOperation(g.PerOperation, unit)
	if inAll {
		grew = display.Delta(float64(g.To-g.From), unit) + " in total"
	}
	lines := []string{grew + ": " + stackTitle(g)}
	frames, more := head(g.Stack.Frames, 12)
	for _, f := range frames {
		lines = append(lines, "  "+f.Short()+"  "+f.Position())
	}
	if more > 0 {
		lines = append(lines, "  "+and(more, "frame"))
	}
	if g.Stack.Creator != nil {
		lines = append(lines, "  created by "+g.Stack.Creator.Short())
	}
	if g.Module != "" {
		lines = append(lines, "  in "+g.Module)
	}
	return strings.Join(lines, "\n")
}

// markdownSource links the line of the stack, and shows it if available.
func markdownSource(b *bytes.Buffer, s leak.Stack, info leak.SubjectInfo, sources rundir.Sources) {
	f := sourceFrames(s)[0]
	if at := upstream(info, f); at != "" {
		fmt.Fprintf(b, "\n[%s](%s)\n", escape(f.Position()), at)
	}
	for _, x := range excerpts(s, info, sources) {
		if x.Position != info.Position(f) {
			continue
		}
		var lines []string
		for _, l := range x.Lines {
			mark := " "
			if l.Here {
				mark = ">"
			}
			lines = append(lines, fmt.Sprintf("%s %d  %s", mark, l.Number, l.Text))
		}
		fmt.Fprintf(b, "\n%s\n", fence(strings.Join(lines, "\n")))
		return
	}
}

func markdownReproduce(b *bytes.Buffer, v view) {
	lines := []string{v.rerun()}
	if line, ok := v.reproduce(); ok {
		lines = append(lines, line)
	}
	fmt.Fprintf(b, "\nReproduce:\n\n%s\n", fence(strings.Join(lines, "\n")))
}

// escape makes s plain text within a line or a table cell. Characters that could end a cell or start HTML become
// entities, not backslash escapes, because every Markdown dialect supports entities.
func escape(s string) string { return markdownEscaper.Replace(oneLine(s)) }

var markdownEscaper = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "`", "&#96;", "@", "&#64;",
	`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`, "!", `\!`,
)

// fence returns the delimiter of a code block that s cannot end. It is longer than any run of backticks in s.
func fence(s string) string {
	ticks := "```"
	for strings.Contains(s, ticks) {
		ticks += "`"
	}
	return ticks + "\n" + strings.TrimRight(s, "\n") + "\n" + ticks
}
