package fleet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// The sentences of a verdict, from its numbers.

// sentence is the verdict in one sentence.
func (v *Verdict) sentence() string {
	t, text := v.Targets, v.conclusion()
	if t.Leaking > 0 && !v.enough() {
		text += fmt.Sprintf("; only %d of %s were judged", t.Judged, plural(t.Seen, "target"))
	}
	return text
}

func (v *Verdict) conclusion() string {
	t, targets := v.Targets, plural(v.Targets.Seen, "target")
	switch {
	case v.Failure != nil:
		return "could not measure: " + v.Failure.Message
	case t.Leaking > 0:
		return v.leaks()
	case t.Judged == 0 && t.Undecided > 0:
		return fmt.Sprintf("nothing was decided on: %s grow, and are undecided", plural(t.Undecided, "target"))
	case t.Judged == 0 && v.Sweeps >= v.Needed:
		return "no target was read often enough to be judged"
	case t.Judged == 0:
		return fmt.Sprintf("no target was judged: %d sweeps are too few, %d are needed for %s in %s", v.Sweeps, v.Needed, plural(v.Tests, "stack"), targets)
	case !v.enough():
		return fmt.Sprintf("only %d of %s were judged, and %.4g %% are asked for: nothing leaks in those", t.Judged, targets, 100*v.MinJudged)
	}
	text := fmt.Sprintf("no leak in %d of %s over %s", t.Judged, targets, hours(v.Hours))
	if t.Undecided > 0 {
		text += fmt.Sprintf("; %d more grow, and are undecided", t.Undecided)
	}
	return text
}

// leaks describes the largest growth of the unit that most targets leak.
func (v *Verdict) leaks() string {
	worst := &v.Stacks[0]
	units := map[string]bool{}
	for i := range v.Stacks {
		s := &v.Stacks[i]
		if s.Targets[0].Outcome != leak.Leaking {
			continue
		}
		units[s.Unit] = true
		if s.Unit == worst.Unit && s.Targets[0].PerHour > worst.Targets[0].PerHour {
			worst = s
		}
	}
	what := "goroutines"
	switch {
	case len(units) > 1:
		what = "goroutines or memory"
	case units["bytes"]:
		what = "memory"
	}
	g := worst.Targets[0]
	s := fmt.Sprintf("%d of %s leak %s: at worst %s, in %s", v.Targets.Leaking, plural(v.Targets.Seen, "target"), what, g.rate(), g.Target)
	if worst.Stack != nil {
		s += ", " + worst.name()
	}
	return s
}

// reason is why growth is not called a leak, "" if it is: the first gate that is undecided.
func (g *Growth) reason() string {
	i := slices.IndexFunc(g.Gates, func(g leak.Gate) bool { return g.Supports == leak.Undecides })
	if i < 0 {
		return ""
	}
	return map[string]string{
		"lower limit":  "the size of the growth is uncertain",
		"trend":        "with this number of targets it may be chance",
		"rises":        "it grew in a few steps only",
		"drawdown":     "it falls in between",
		"elsewhere":    "on the same stack others lose as much: it may wander",
		"saturation":   "it is slowing down",
		"last quarter": "it slowed down in the end",
	}[g.Gates[i].Name]
}

// name is the stack in one line.
func (sv *StackVerdict) name() string {
	if sv.Stack == nil {
		return sv.all
	}
	if sv.Unit == "bytes" {
		return "heap at " + sv.Stack.Origin().Short()
	}
	return sv.Stack.String()
}

// rate is the growth in the unit that was judged.
func (g *Growth) rate() string {
	if g.PerOperation != nil {
		return rateOf(*g.PerOperation, g.Unit, "operation")
	}
	return rateOf(g.PerHour, g.Unit, "hour")
}

// median is the typical growth in the unit that was judged.
func (sv *StackVerdict) median() string {
	if sv.MedianPerOperation > 0 {
		return rateOf(sv.MedianPerOperation, sv.Unit, "operation")
	}
	return rateOf(sv.MedianPerHour, sv.Unit, "hour")
}

// growsIn is "3 of 1000": the targets with growth, of the judged ones.
func (sv *StackVerdict) growsIn(v *Verdict) string {
	if sv.Leaking == 0 {
		return fmt.Sprintf("%d undecided", sv.Undecided)
	}
	return fmt.Sprintf("%d of %d", sv.Leaking, v.Targets.Judged)
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
