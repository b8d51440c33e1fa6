package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// presentShare is the part of the amount that stands out from which an entry is printed at all: one in presentShare.
const presentShare = 10

// Explain writes what the catalogue has on profiles. It prints at most top unknown stacks of each.
func Explain(w io.Writer, explanations []*catalogue.Explanation, top int) error {
	var b bytes.Buffer
	p := printer{&b}
	for i, x := range explanations {
		if i > 0 {
			p.line("")
		}
		p.explanation(x, top)
	}
	return display.WriteText(w, b.String())
}

func (p printer) explanation(x *catalogue.Explanation, top int) {
	total := amount(x.Total, x.Unit)
	if x.Grew {
		total += " grew"
	}
	p.line("%s: %s", x.Title, total)
	var present []catalogue.Match
	for _, m := range x.Matches {
		switch {
		case m.Status != catalogue.Present:
			p.line("")
			p.match(x, &m)
		case presentShare*m.N >= m.Threshold:
			present = append(present, m)
		}
	}
	if len(present) > 0 {
		p.line("")
		p.line("in the catalogue, with an amount that a healthy process can have")
	}
	for _, m := range present {
		fixed := ""
		if m.FixedIn != "" {
			fixed = ", fixed in " + m.FixedIn
		}
		p.para("  ", fmt.Sprintf("%s, stands out from %s: %s (%s%s)", amount(m.N, x.Unit), value(float64(m.Threshold), x.Unit), m.Title, m.ID, fixed))
	}
	if len(x.Unknown) == 0 {
		return
	}
	p.line("")
	p.line("not in the catalogue")
	shown, more := head(x.Unknown, top)
	for _, g := range shown {
		p.line("  %11s  %s", value(float64(g.N), x.Unit), leak.Stack{State: g.State, Frames: []leak.Frame{g.At}}.String())
		details := []string{g.At.Position(), waited(g.OldestMinutes)}
		if g.Caller != nil && *g.Caller != g.At {
			details = append(details, "called by "+at(g.Caller))
		}
		if line := joined(details...); line != "" {
			p.line("               %s", line)
		}
	}
	if more += x.Omitted; more > 0 {
		p.line("               %s", and(more, "stack"))
	}
}

// match prints one entry with what it explains.
func (p printer) match(x *catalogue.Explanation, m *catalogue.Match) {
	head := string(m.Status) + ": " + m.Title
	switch m.Status {
	case catalogue.KnownLeak:
		head = m.Sentence()
	case catalogue.NotAffected:
		head = fmt.Sprintf("not affected: the stack of %s, but %s %s has the fix", m.Reference, m.Module, m.Version)
	}
	p.para("", head)
	row := func(name, text string) {
		if text != "" {
			p.para(fmt.Sprintf("  %-10s", name), text)
		}
	}
	if m.Leak() {
		row("leak", m.Title)
	}
	row("amount", joined(fmt.Sprintf("%s of %s (%.0f %%)", value(float64(m.N), x.Unit), amount(x.Total, x.Unit), 100*m.Share),
		m.Stack.String(), waited(m.OldestMinutes)))
	row("version", version(m))
	if m.Caller != nil {
		row("called by", at(m.Caller))
	}
	if m.Status != catalogue.NotAffected {
		row("look for", m.Look)
		row("confirm", m.Confirm)
	}
	if m.Scenario != "" {
		row("reproduce", "leakrig run "+m.Scenario)
	}
	row("entry", m.ID+", "+map[catalogue.Evidence]string{
		catalogue.ByScenario: "verified by its scenario", catalogue.ByIssue: "from its links, not verified by a scenario",
	}[m.Verified])
	for _, link := range m.Links {
		row("see", link)
	}
}

// version describes the version of a known leak's module.
func version(m *catalogue.Match) string {
	switch {
	case !m.Leak():
		return ""
	case m.Version == "" && m.FixedIn != "":
		return "unknown, affected before " + m.FixedIn + " (--binary reads it from the binary)"
	case m.Version == "":
		return "unknown, and all versions are affected"
	case m.Status == catalogue.NotAffected:
		return fmt.Sprintf("%s %s (from the %s), fixed in %s", m.Module, m.Version, m.VersionFrom, m.FixedIn)
	case m.FixedIn == "":
		return fmt.Sprintf("%s %s (from the %s) is affected, no version has a fix", m.Module, m.Version, m.VersionFrom)
	}
	return fmt.Sprintf("%s %s (from the %s) is affected, fixed in %s", m.Module, m.Version, m.VersionFrom, m.FixedIn)
}

func amount(n int64, unit string) string {
	if unit == "bytes" {
		return value(float64(n), unit)
	}
	return count(int(n), strings.TrimSuffix(unit, "s"))
}

func waited(minutes int) string {
	if minutes == 0 {
		return ""
	}
	return "for up to " + count(minutes, "minute")
}

// at is a frame with its position.
func at(f *leak.Frame) string { return strings.TrimSpace(f.Short() + "  " + f.Position()) }

// joined joins the parts that are not empty with commas.
func joined(parts ...string) string {
	var all []string
	for _, p := range parts {
		if p != "" {
			all = append(all, p)
		}
	}
	return strings.Join(all, ", ")
}
