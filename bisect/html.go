package bisect

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/leakrig/leakrig/leak/display"

	_ "embed"
)

//go:embed bisect.html.tmpl
var page string

var pageTemplate = template.Must(template.New("bisect").Parse(page))

// bar is one version of the strip.
type bar struct {
	Name, State, Short, Title string
	// Height is in percent of the largest growth.
	Height   int
	Boundary string
}

// view is what the page shows.
type view struct {
	*Record
	Head, Says, Effort string
	// Measure is what the heights of the bars are.
	Measure string
	Bars    []bar
	Rows    []tableRow
	Ends    []end
}

type tableRow struct {
	Number                                       int
	Name, State, Growth, Why, Reason, Run, Build string
	Seconds                                      string
}

// end is one side of a boundary.
type end struct {
	Line, Compare string
	Sides         []side
}

type side struct{ State, Name, Command, Print string }

// html writes a self-contained page without scripts.
func html(w io.Writer, r *Record, _ string) error {
	v := view{Record: r, Head: r.about(), Says: r.sentence(), Effort: r.effort()}
	last := map[string]Step{}
	for i, s := range r.Steps {
		if old, ok := last[s.Version]; !ok || old.State != Leaky {
			last[s.Version] = s
		}
		v.Rows = append(v.Rows, tableRow{i + 1, r.name(s.Version), string(s.State), grew(s), s.Why, shorten(s.Reason), s.Run, seconds(s.BuildSeconds), seconds(s.RunSeconds)})
	}
	most := 0.0
	for _, s := range last {
		most = math.Max(most, rate(s))
	}
	boundary := map[string]string{}
	for _, a := range r.Answers {
		if a.Leaky == "" {
			continue
		}
		boundary[a.Leaky], boundary[a.Clean] = "leaky", "clean"
		v.Ends = append(v.Ends, end{a.Line, r.compare(a), []side{
			{"leaky", r.name(a.Leaky), r.Question.Command(a.Leaky), prints(last[a.Leaky])},
			{"clean", r.name(a.Clean), r.Question.Command(a.Clean), prints(last[a.Clean])},
		}})
	}
	for _, c := range r.Candidates {
		s, ok := last[c.Version]
		b := bar{Name: c.Name(), State: "open", Title: "not measured", Boundary: boundary[c.Version]}
		if ok {
			b.State, b.Title = strings.ReplaceAll(string(s.State), " ", "-"), string(s.State)
			if len(s.Growth) > 0 {
				b.Short, v.Measure = amount(s.Growth[0]), measure(s.Growth[0])
			}
			if s.Reason != "" {
				b.Title += ": " + shorten(s.Reason)
			}
			if most > 0 {
				b.Height = int(math.Round(100 * rate(s) / most))
			}
		}
		if len(r.Candidates) <= maxBars || ok || b.Boundary != "" {
			v.Bars = append(v.Bars, b)
		}
	}
	var b strings.Builder
	if err := pageTemplate.Execute(&b, v); err != nil {
		return err
	}
	return display.WriteText(w, b.String())
}

// maxBars bounds the strip. With more versions, it shows only measured ones.
const maxBars = 60

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
	var all []string
	for _, g := range s.Growth {
		all = append(all, fmt.Sprintf("%s %s → %s", g.Check, display.Value(g.From, g.Unit), display.Value(g.To, g.Unit)))
	}
	return strings.Join(all, ", ")
}

// AnswersByLine reports whether there is an answer for each release line.
func (v view) AnswersByLine() bool { return v.Question.AllLines && len(v.Answers) > 0 }
