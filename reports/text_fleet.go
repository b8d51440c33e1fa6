package reports

import (
	"bytes"
	"io"
	"path"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// Limits of the fleet's text. Its JSON form is complete.
const (
	textFleetStacks  = 10
	textFleetTargets = 5
	textNotJudged    = 5
	textFrames       = 6
	textStackName    = 44
)

// FleetText writes the text on a fleet: the sentence, the stacks that grow, and what could not be judged.
func FleetText(w io.Writer, f Fleet) error {
	p := printer{&bytes.Buffer{}}
	p.line("%s fleet: %s", marks[f.Result], f.Outcome)
	p.line("  %s", f.Sentence)
	if f.Failure != nil && f.Failure.Hint != "" {
		p.line("  hint: %s", f.Failure.Hint)
	}
	if f.Interrupted != "" {
		p.line("  %s", f.Interrupted)
	}
	p.fleetStacks(f.Stacks)
	p.line("")
	for i, line := range f.Summary {
		p.line("  %s", line)
		if i == 0 {
			p.notJudged(f.NotJudged)
		}
	}
	warnings, more := head(f.Warnings, textWarnings)
	for _, warning := range warnings {
		p.line("  warning: %s", firstLine(warning))
	}
	if more > 0 {
		p.line("  %s", and(more, "warning"))
	}
	if f.RunDir != "" {
		for i, c := range f.Commands {
			if i == 0 {
				p.line("")
			}
			p.line("  next: %s", c.Name)
			p.line("    %s", c.Value)
		}
		p.line("")
		p.line("  run directory: %s", f.RunDir)
		p.line("  report:        %s", path.Join(f.RunDir, rundir.HTMLFile))
	}
	return display.WriteText(w, p.b.String())
}

func (p printer) notJudged(list []Fact) {
	shown, more := head(list, textNotJudged)
	for _, t := range shown {
		p.line("    not judged: %s: %s", t.Name, firstLine(t.Value))
	}
	if more > 0 {
		p.line("    %s", and(more, "target"))
	}
}

// fleetStacks prints a table of the stacks that grow, then the frames and the worst targets of each.
func (p printer) fleetStacks(stacks []FleetStack) {
	if len(stacks) == 0 {
		return
	}
	shown, more := head(stacks, textFleetStacks)
	rows := [][]string{{"", "stack", "grows in", "worst", "median", "elsewhere"}}
	for _, s := range shown {
		rows = append(rows, []string{"", cutRunes(s.Name, textStackName), s.GrowsIn, s.Worst, s.Median, s.Elsewhere})
	}
	p.line("")
	p.table(rows, len(rows[0]))
	if more > 0 {
		p.line("  %s", and(more, "stack"))
	}
	for _, s := range shown {
		p.line("")
		p.line("  %s", s.Name)
		if s.Known != "" {
			p.line("    %s", s.Known)
		}
		frames, more := head(s.Frames, textFrames)
		for _, f := range frames {
			p.line("      %s %s", f.Short(), f.Position())
		}
		if more > 0 {
			p.line("      %s", and(more, "frame"))
		}
		targets, more := head(s.Targets, textFleetTargets)
		for _, t := range targets {
			why := ""
			if t.Outcome != leak.Leaking {
				why = " (undecided: " + t.Reason + ")"
			}
			p.line("    %s: %s, %s%s", t.Name, t.Grew, t.Rate, why)
		}
		if more > 0 {
			p.line("    %s", and(more, "target"))
		}
		if s.Note != "" {
			p.line("    %s", s.Note)
		}
	}
}
