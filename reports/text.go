package reports

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// Limits for the terminal.
const (
	textWidth    = 100
	textStacks   = 3
	textWarnings = 10
)

// text writes the end of `leakrig run`: the verdict, the growth, the lines that need attention, and the path of the
// report.
func text(b *bytes.Buffer, v view) error {
	p := printer{b}
	if v.Detail == Brief {
		p.line("%s %s: %s", marks[v.Result()], v.Name(), v.Headline())
		return nil
	}
	p.verdict(v)
	p.answer(v.Answer())
	p.growth(v)
	p.variants(v)
	p.warnings(v.Warnings())
	p.versions(v)
	p.where(v)
	return nil
}

var marks = map[leak.Result]string{leak.Met: "✓", leak.NotMet: "✗", leak.Undecided: "?", leak.Unmeasured: "!"}

func (p printer) verdict(v view) {
	p.para(marks[v.Result()]+" ", v.Name()+": "+v.Headline())
	p.para("  ", v.Sentence())
	p.failure(v.Record.Failure, true)
}

// answer prints who leaks, what it costs, and what to type next. A run without a leak has no answer beyond its sentence.
func (p printer) answer(a Answer) {
	if a.Outcome == leak.Leaking {
		p.line("")
		row := func(name string, texts ...string) {
			for _, text := range texts {
				if text != "" {
					p.para(fmt.Sprintf("  %-9s ", name), text)
					name = ""
				}
			}
		}
		row("who", a.Who.String(), a.Caller.String(), a.Share)
		blocks := a.Blocks
		if a.Who != nil && a.Who.Line != "" {
			blocks = strings.TrimPrefix(blocks+": "+a.Who.Line, ": ")
		}
		row("blocks on", blocks)
		row("cost", a.Cost...)
		row("holder", a.Holder)
		row("proof", a.Proof)
		row("fix", a.Known, a.Clean)
	}
	if a.Outcome != leak.Clean {
		for i, c := range a.Next {
			if i == 0 {
				p.line("")
			}
			p.line("  next: %s", strings.ToLower(c.Doc[:1])+c.Doc[1:])
			p.line("    %s", c.Command)
		}
	}
}

// failure prints an error with its hint. The first line of a variant's error is already in its reason.
func (p printer) failure(f *leak.Failure, alone bool) {
	if f == nil {
		return
	}
	lines, more := head(strings.Split(strings.TrimSpace(f.Message), "\n"), 12)
	if len(lines) == 1 && !alone {
		lines = nil
	}
	for i, line := range lines {
		if i == 0 {
			line = "error: " + line
		}
		p.para("  ", line)
	}
	if more > 0 {
		p.line("  %s", and(more, "line"))
	}
	if f.Hint != "" {
		p.para("  ", "hint: "+f.Hint)
	}
}

// growth prints the table of variants with their growth per operation, as wide as the terminal allows.
func (p printer) growth(v view) {
	if len(v.Variants) == 0 {
		return
	}
	rows := [][]string{{"", "variant", "expected", "outcome"}}
	for _, x := range v.Variants {
		rows = append(rows, []string{marks[x.Verdict.Result], x.Name, expected(x.Verdict.Expect), x.Verdict.Outcome.String()})
	}
	for _, c := range v.growthColumns(textWidth) {
		column := []string{oneLine(c.Title())}
		for _, cell := range c.Cells {
			column = append(column, cell.Growth())
		}
		if tableWidth(rows)+columnWidth(column) > textWidth {
			break
		}
		for i := range rows {
			rows[i] = append(rows[i], column[i])
		}
	}
	p.line("")
	if len(rows[0]) > 4 {
		p.line("%*s", tableWidth(rows), "growth per operation")
	}
	p.table(rows, 4)
}

// variants prints the reasons, starting with variants that leak or are not as expected. A clean variant that is
// expected clean needs one sentence.
func (p printer) variants(v view) {
	var fine []variant
	for _, x := range v.Variants {
		if x.Verdict.Outcome == leak.Clean && x.Verdict.Result == leak.Met {
			fine = append(fine, x)
			continue
		}
		p.line("")
		p.variant(x, v.Detail == Full)
	}
	if len(fine) > 0 {
		p.line("")
	}
	for _, x := range fine {
		p.reason(x)
		if v.Detail == Full {
			p.findings(x.Verdict.Findings, true)
		}
	}
}

func (p printer) reason(x variant) {
	result := x.Verdict.Result.String()
	if x.Verdict.Result == leak.Met || x.Verdict.Result == leak.NotMet {
		result = x.Verdict.Outcome.String() + ", " + result
	}
	p.para(marks[x.Verdict.Result]+" ", fmt.Sprintf("%s: %s. %s", x.Name, result, x.Verdict.Reason))
	for _, l := range x.ReplicaLines() {
		p.line("  %s", l)
	}
	for _, l := range x.LoadLines() {
		p.para("  ", l)
	}
	if r := x.Record.Subject.Rewrite; r != nil {
		p.para("  ", "re-enacted: "+reenacted(r))
	}
}

func (p printer) variant(x variant, full bool) {
	p.reason(x)
	p.failure(x.Record.Failure, false)
	p.stacks("goroutine stacks that grew (exact)", x, x.Goroutines(), false)
	p.stacks("allocation sites that grew (sampled)", x, x.heapApart(), true)
	for _, line := range x.Reconciled() {
		p.line("")
		p.para("  ", "heap: "+line)
	}
	if why := x.NoHolders(); why != "" {
		p.line("")
		p.para("  ", why)
	}
	findings := x.Verdict.Findings
	if !full {
		findings = slices.DeleteFunc(slices.Clone(findings), func(f leak.Finding) bool { return f.Outcome != leak.Inconclusive && !x.Against(f) })
	}
	p.findings(findings, full)
}

// findings lists checks, optionally with their gates.
func (p printer) findings(findings []leak.Finding, gates bool) {
	for _, f := range findings {
		p.line("")
		p.para("  ", fmt.Sprintf("check %s (%s): %s. %s", f.Check, f.Kind, f.Outcome, f.Summary))
		if !gates {
			continue
		}
		var rows [][]string
		for _, g := range f.Gates {
			rows = append(rows, []string{"", "", g.Name, comparison(g), g.Supports.String()})
		}
		p.table(rows, 5)
	}
}

var stackIndent = strings.Repeat(" ", len("  +1023.9 KiB/op  "))

func (p printer) stacks(title string, x variant, stacks []leak.StackGrowth, heap bool) {
	if len(stacks) == 0 {
		return
	}
	unit := stackUnit(heap)
	p.line("")
	p.line("  %s", title)
	shown, more := head(stacks, textStacks)
	for _, g := range shown {
		mark := ""
		if g.Fingerprint {
			mark = "  ◀ fingerprint"
		}
		p.line("  %11s/op  %s%s", rate(g.PerOperation, unit), stackTitle(g), mark)
		for _, detail := range stackDetails(g, unit) {
			p.para(stackIndent, detail)
		}
		for _, line := range x.held(g, unit) {
			p.para(stackIndent, line)
		}
		if known := x.known(g, unit); known != "" {
			p.para(stackIndent, known)
		}
	}
	more += x.unlisted(heap)
	if more > 0 {
		p.para(stackIndent, and(more, stackNoun(heap)))
	}
}

// stackDetails describes a stack: where it is, how much it grew, its module, and its creator.
func stackDetails(g leak.StackGrowth, unit string) []string {
	grew := value(float64(g.From), unit) + " → " + value(float64(g.To), unit)
	if g.Module != "" {
		grew += " " + inModule(g)
	}
	if g.Stack.Creator != nil {
		grew += ", created by " + g.Stack.Creator.Short()
	}
	if at := g.Stack.Place().Position(); at != "" {
		return []string{at, grew}
	}
	return []string{grew}
}

func (p printer) warnings(warnings []string) {
	if len(warnings) == 0 {
		return
	}
	p.line("")
	p.line("%s", count(len(warnings), "warning"))
	shown, more := head(warnings, textWarnings)
	for _, w := range shown {
		p.para("  ", w)
	}
	if more > 0 {
		p.line("  %s", and(more, "warning"))
	}
}

// versions prints the versions of the module with the first growing stack.
func (p printer) versions(v view) {
	modules, _ := head(v.stackModules(), 1)
	for _, path := range modules {
		p.line("")
		p.line("%s", path)
		var rows [][]string
		for _, m := range v.versions(path) {
			rows = append(rows, []string{" ", m.Version, strings.Join(m.Variants, ", ")})
		}
		p.table(rows, len(rows))
	}
}

func (p printer) where(v view) {
	p.line("")
	p.line("run directory  %s", v.RunDir)
	p.line("report         %s", path.Join(v.RunDir, rundir.HTMLFile))
	if line, ok := v.reproduce(); ok {
		p.line("compare the profiles with pprof")
		p.line("  %s", line)
	}
}

// printer writes lines. It keeps every argument on its line, so that untrusted text cannot start a new line.
type printer struct{ b *bytes.Buffer }

func (p printer) line(format string, args ...any) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = inLine(arg)
		case fmt.Stringer:
			args[i] = inLine(arg.String())
		}
	}
	p.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// inLine removes line breaks and tabs but keeps other spacing.
func inLine(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(s)
}

// para wraps s at words and indents the following lines to the end of start.
func (p printer) para(start, s string) {
	width := utf8.RuneCountInString(start)
	line, used := start, width
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		if used > width {
			line, used = line+" ", used+1
			if used+n > textWidth {
				p.line("%s", line)
				line, used = strings.Repeat(" ", width), width
			}
		}
		line, used = line+word, used+n
	}
	p.line("%s", line)
}

// table aligns columns: the first left columns to the left, the others to the right.
func (p printer) table(rows [][]string, left int) {
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = oneLine(cell)
			pad := strings.Repeat(" ", max(0, columnWidth(column(rows, i))-2-utf8.RuneCountInString(cell)))
			if i > 0 {
				line.WriteString("  ")
			}
			if i < left {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		p.line("%s", line.String())
	}
}

func tableWidth(rows [][]string) int {
	width := -2
	for i := range rows[0] {
		width += columnWidth(column(rows, i))
	}
	return width
}

func column(rows [][]string, i int) []string {
	var cells []string
	for _, row := range rows {
		cells = append(cells, oneLine(row[i]))
	}
	return cells
}

// columnWidth returns the width of a column, including the gap to the next.
func columnWidth(cells []string) int {
	width := 0
	for _, c := range cells {
		width = max(width, utf8.RuneCountInString(c))
	}
	return width + 2
}
