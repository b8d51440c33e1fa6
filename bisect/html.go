package bisect

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/reports"
)

// maxBars bounds the strip. With more versions, it shows only measured ones.
const maxBars = 60

// html writes the page of a bisection.
func html(w io.Writer, r *Record, _ string) error {
	in := reports.BisectionInput{
		Scenario: r.Scenario, Sentence: r.sentence(), About: r.about(), Effort: r.effort(), Leakrig: r.Leakrig, Tone: leak.Inconclusive.String(),
	}
	if r.Result == leak.Met {
		in.Tone = leak.Clean.String()
	}
	last := map[string]Step{}
	for i, s := range r.Steps {
		if old, ok := last[s.Version]; !ok || old.State != Leaky {
			last[s.Version] = s
		}
		in.Steps = append(in.Steps, reports.BisectionStep{
			Number: i + 1, Name: r.name(s.Version), State: string(s.State), Tone: tone(s.State), Growth: cmp.Or(grew(s), shorten(s.Reason)),
			Why: s.Why, Run: s.Run, Build: seconds(s.BuildSeconds), Seconds: seconds(s.RunSeconds),
		})
	}
	most := 0.0
	for _, s := range last {
		most = math.Max(most, rate(s))
	}
	boundary := map[string]string{}
	for _, a := range r.Answers {
		if r.Question.AllLines {
			in.Lines = append(in.Lines, reports.BisectionFact{Name: a.Line, Value: a.Sentence})
		}
		if a.Leaky == "" {
			continue
		}
		boundary[a.Leaky], boundary[a.Clean] = "leaky", "clean"
		end := reports.BisectionEnd{Line: a.Line, Link: r.compare(a)}
		for _, side := range []struct {
			state   State
			version string
		}{{Leaky, a.Leaky}, {Clean, a.Clean}} {
			end.Sides = append(end.Sides, reports.BisectionSide{
				State: string(side.state), Tone: tone(side.state), Name: r.name(side.version),
				Command: r.Question.Command(side.version), Print: prints(last[side.version]),
			})
		}
		in.Ends = append(in.Ends, end)
	}
	for _, c := range r.Candidates {
		s, ok := last[c.Version]
		b := reports.BisectionBar{Name: c.Name(), Tone: leak.Inconclusive.String(), Title: "not measured", Boundary: boundary[c.Version]}
		if ok {
			b.Tone, b.Title = tone(s.State), string(s.State)
			if len(s.Growth) > 0 {
				b.Short, in.Measure = amount(s.Growth[0]), measure(s.Growth[0])
			}
			if s.Reason != "" {
				b.Title += ": " + shorten(s.Reason)
			}
			if most > 0 {
				b.Height = int(math.Round(100 * rate(s) / most))
			}
		}
		if len(r.Candidates) <= maxBars || ok || b.Boundary != "" {
			in.Bars = append(in.Bars, b)
		}
	}
	for _, list := range [][]Missing{r.Missing, r.LeftOut} {
		for _, m := range list {
			in.Missing = append(in.Missing, reports.BisectionFact{Name: m.Version, Value: m.Why})
		}
	}
	return reports.Bisection(w, in)
}

// tone is the outcome whose colour a state has.
func tone(s State) string {
	switch s {
	case Leaky:
		return leak.Leaking.String()
	case Clean:
		return leak.Clean.String()
	}
	return leak.Inconclusive.String()
}

// rate returns the growth of the most significant check; 0 without growth.
func rate(s Step) float64 {
	if len(s.Growth) == 0 {
		return 0
	}
	if g := s.Growth[0]; g.InAll {
		return math.Max(0, g.To-g.From)
	}
	return math.Max(0, s.Growth[0].PerOperation)
}

// prints are the counts of the fingerprint, from the baseline to the end.
func prints(s Step) string {
	text := ""
	for i, g := range s.Growth {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %s → %s", g.Check, display.Value(g.From, g.Unit), display.Value(g.To, g.Unit))
	}
	return text
}
