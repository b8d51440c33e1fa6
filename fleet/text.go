package fleet

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
)

// Limits for a terminal.
const (
	textStacks    = 10
	textTargets   = 5
	textUnjudged  = 5
	textWarnings  = 10
	textFrames    = 6
	shortName     = 44
	minAllGrowing = 0.5
)

var marks = map[leak.Result]string{leak.Met: "✓", leak.NotMet: "✗", leak.Undecided: "?", leak.Unmeasured: "!"}

// Text writes the verdict for an engineer in a terminal: the sentence, the stacks that grow, and what could not
// be judged.
func Text(w io.Writer, v *Verdict) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s fleet: %s", marks[v.Result], v.Outcome)
	line("  %s", v.Sentence)
	if v.Failure != nil && v.Failure.Hint != "" {
		line("  hint: %s", v.Failure.Hint)
	}
	if v.Interrupted {
		line("  interrupted after %s", plural(v.Sweeps, "sweep"))
	}
	if len(v.Stacks) > 0 {
		line("")
		table(&b, v)
		details(&b, v)
	}
	line("")
	t := v.Targets
	line("  %s: %d leaking, %d clean, %d undecided, %d not judged; %d of them ended or restarted", plural(t.Seen, "target"), t.Leaking, t.Clean, t.Undecided, t.NotJudged, t.Gone)
	for i, u := range v.NotJudged {
		if i == textUnjudged {
			line("    and %d more", len(v.NotJudged)-i)
			break
		}
		line("    not judged: %s: %s", u.Target, firstLine(u.Reason))
	}
	line("  %s over %s, the slowest in %s; %s were tested, each at p ≤ %.2g (false-alarm budget %g)",
		plural(v.Sweeps, "sweep"), hours(v.Hours), time.Duration(v.SlowestSweep*float64(time.Second)).Round(10*time.Millisecond), plural(v.Tests, "series"), v.Alpha, v.FalseAlarmBudget)
	if v.Floor > 0 {
		line("  floor: growth of one target below %s would not have been detected", rateOf(v.Floor, "goroutines", "hour"))
	}
	for i, warning := range v.Warnings {
		if i == textWarnings {
			line("  and %d warnings more", len(v.Warnings)-i)
			break
		}
		line("  warning: %s", firstLine(warning))
	}
	if v.RunDir != "" {
		next(&b, v)
		line("")
		line("  run directory: %s", v.RunDir)
		line("  report:        %s", rundir.Dir(v.RunDir).Path(HTMLFile))
	}
	return display.WriteText(w, b.String())
}

// next prints the commands that take what leaks further.
func next(b *strings.Builder, v *Verdict) {
	for i, c := range nextCommands(v) {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "  next: %s\n    %s\n", c.Name, c.Value)
	}
}

// nextCommands are the commands that take what leaks further, each with what it does.
func nextCommands(v *Verdict) []reports.FleetFact {
	dir := rundir.Dir(v.RunDir)
	for _, unit := range []string{"goroutines", "bytes"} {
		if v.RunDir == "" || len(v.leaking(unit)) == 0 {
			continue
		}
		return []reports.FleetFact{
			{Name: "compare with known leaks", Value: "leakrig explain " + reports.ShellPath(v.RunDir)},
			{Name: "write a scenario that reproduces it", Value: "leakrig match --skeleton " + reports.ShellPath(dir.Path(rundir.GrowthFile(unit))) + " > reproduction.yaml"},
		}
	}
	return nil
}

// table has a row for each stack that grows.
func table(b *strings.Builder, v *Verdict) {
	rows := [][]string{{"stack", "grows in", "worst", "median", "elsewhere"}}
	for i := range v.Stacks {
		if i == textStacks {
			break
		}
		s := &v.Stacks[i]
		rows = append(rows, []string{cut(s.name(), shortName), s.growsIn(v), s.Targets[0].rate(), s.median(), display.Value(s.Typical, s.Unit)})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		text := "  "
		for i, cell := range row {
			text += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		fmt.Fprintln(b, strings.TrimRight(text, " "))
	}
	if more := len(v.Stacks) - textStacks; more > 0 {
		fmt.Fprintf(b, "  and %s more\n", plural(more, "stack"))
	}
}

// details prints the origin and the worst targets of each stack that leaks.
func details(b *strings.Builder, v *Verdict) {
	for i := range v.Stacks {
		s := &v.Stacks[i]
		if i == textStacks {
			return
		}
		fmt.Fprintf(b, "\n  %s\n", s.name())
		if s.Known != "" {
			fmt.Fprintf(b, "    %s\n", s.Known)
		}
		if s.Stack != nil {
			for k, f := range s.Stack.Frames {
				if k == textFrames {
					fmt.Fprintf(b, "      and %d frames more\n", len(s.Stack.Frames)-k)
					break
				}
				fmt.Fprintf(b, "      %s %s\n", f.Short(), f.Position())
			}
		}
		for k := range s.Targets {
			g := &s.Targets[k]
			if k == textTargets {
				fmt.Fprintf(b, "    and in %s more\n", plural(len(s.Targets)-k, "target"))
				break
			}
			why := ""
			if g.Outcome != leak.Leaking {
				why = " (undecided: " + g.Reason + ")"
			}
			fmt.Fprintf(b, "    %s: %s → %s, %s%s\n", g.Target, display.Value(float64(g.From), g.Unit), display.Value(float64(g.To), g.Unit), g.rate(), why)
		}
		if grow := s.Leaking + s.Undecided; v.Targets.Judged > 1 && float64(grow) >= minAllGrowing*float64(v.Targets.Judged) && s.Targets[0].PerOperation == nil {
			fmt.Fprintf(b, "    most targets grow together, as with rising traffic: --counter measures growth per operation\n")
		}
	}
}

func rateOf(v float64, unit, per string) string {
	if unit == "bytes" {
		return display.Delta(v, unit) + " per " + per
	}
	switch a := math.Abs(v); {
	case a > 0 && a < 0.01:
		return fmt.Sprintf("%+.2g per %s", v, per)
	case a >= 100:
		return fmt.Sprintf("%+.0f per %s", v, per)
	case a >= 10:
		return fmt.Sprintf("%+.1f per %s", v, per)
	}
	return fmt.Sprintf("%+.2f per %s", v, per)
}

func hours(h float64) string {
	return time.Duration(h * float64(time.Hour)).Round(time.Second).String()
}

func plural(n int, word string) string {
	if n == 1 || strings.HasSuffix(word, "s") {
		return strconv.Itoa(n) + " " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

func cut(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}
