package bisect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/session"
)

// Format is a way to render a record.
type Format struct {
	Name string
	// File is its name in the directory of the bisection, "" if it is not written there.
	File string
	// Render writes the report of a record in dir.
	Render func(w io.Writer, r *Record, dir string) error
}

// Formats lists every format.
func Formats() []Format {
	return []Format{
		{"text", "", text},
		{"json", "", toJSON}, // bisect.json is the same, and written with every step
		{"markdown", MarkdownFile, markdown},
		{"html", HTMLFile, html},
	}
}

func text(w io.Writer, r *Record, dir string) error { return reports.BisectionText(w, r.view(dir)) }
func markdown(w io.Writer, r *Record, dir string) error {
	return reports.BisectionMarkdown(w, r.view(dir))
}
func html(w io.Writer, r *Record, dir string) error { return reports.BisectionHTML(w, r.view(dir)) }

func toJSON(w io.Writer, r *Record, _ string) error {
	out := json.NewEncoder(w)
	out.SetIndent("", " ")
	return out.Encode(r)
}

// RunArgs returns the arguments of leakrig that run one version alone.
func (q Question) RunArgs(version string) []string {
	o := session.Options{Variants: []string{q.Variant}, Rounds: q.Rounds, Cluster: q.Cluster, Placement: q.Placement}
	if q.Kind != OfCommit {
		for _, path := range append([]string{q.Module}, q.With...) {
			o.With = append(o.With, path+"@"+version)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Set)) {
		o.Set = append(o.Set, name+"="+q.Set[name])
	}
	return o.Argv(q.Scenario)
}

// Command returns the command line that runs one version alone.
func (q Question) Command(version string) string {
	words := append([]string{"leakrig"}, q.RunArgs(version)...)
	for i, word := range words {
		words[i] = reports.ShellWord(word)
	}
	command := strings.Join(words, " ")
	if q.Kind == OfCommit {
		command = "git checkout " + version + " && " + command
	}
	return command
}

// Compare is the page on which a known host shows what changed between two versions of a module, "" for others.
func Compare(module, from, to string) string {
	repo, sub := "", ""
	parts := strings.Split(module, "/")
	switch {
	case len(parts) >= 3 && parts[0] == "github.com":
		repo, sub = strings.Join(parts[:3], "/"), strings.Join(parts[3:], "/")
	case len(parts) == 2 && parts[0] == "k8s.io":
		repo = "github.com/kubernetes/" + parts[1]
	case len(parts) == 2 && parts[0] == "sigs.k8s.io":
		repo = "github.com/kubernetes-sigs/" + parts[1]
	case len(parts) == 3 && parts[0] == "golang.org" && parts[1] == "x":
		repo = "github.com/golang/" + parts[2]
	default:
		return ""
	}
	tag := func(version string) string {
		version = strings.TrimSuffix(version, "+incompatible")
		if i := strings.LastIndexByte(version, '-'); i >= 0 && pseudo(version) {
			return version[i+1:]
		}
		if dir := strings.TrimSuffix(majorOf.ReplaceAllString("/"+sub, ""), "/"); dir != "" { // a module in a folder of its repository
			return strings.TrimPrefix(dir, "/") + "/" + version
		}
		return version
	}
	return "https://" + repo + "/compare/" + tag(from) + "..." + tag(to)
}

// compare is the page on an answer's neighbours, older one first.
func (r *Record) compare(a Answer) string {
	if r.Question.Kind == OfCommit || a.Leaky == "" {
		return ""
	}
	if a.Kind == Broken {
		return Compare(r.Question.Module, a.Clean, a.Leaky)
	}
	return Compare(r.Question.Module, a.Leaky, a.Clean)
}

// about describes the question.
func (r *Record) about() string {
	q := r.Question
	if q.Kind == OfCommit {
		return fmt.Sprintf("%s/%s over %d commits", r.Scenario, q.Variant, len(r.Candidates))
	}
	what := q.Module
	if len(q.With) > 0 {
		what += " with " + strings.Join(q.With, ", ")
	}
	return fmt.Sprintf("%s/%s over %d versions of %s, %s (leaky) to %s (clean)", r.Scenario, q.Variant, len(r.Candidates), what, q.Bad, q.Good)
}

// effort describes the number of measurements and their duration.
func (r *Record) effort() string {
	build, wait := 0.0, 0.0
	for _, s := range r.Steps {
		build, wait = build+s.BuildSeconds, wait+s.WaitSeconds
	}
	text := fmt.Sprintf("%d measured steps", r.Measured())
	if n := len(r.Steps) - r.Measured(); n > 0 {
		text += fmt.Sprintf(" and %d skipped", n)
	}
	text += fmt.Sprintf(" in %s; %s of building, of which the search waited %s", seconds(r.Seconds), seconds(build), seconds(wait))
	if r.Boots > 0 {
		of := "boot of a cluster"
		if r.Boots > 1 {
			of = "boots of clusters"
		}
		text += fmt.Sprintf("; %d %s, %s", r.Boots, of, seconds(r.BootSeconds))
	}
	return text
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// grew describes the growth of a step by its most significant check.
func grew(s Step) string {
	if len(s.Growth) == 0 {
		return ""
	}
	g := s.Growth[0]
	text := g.Check + " " + amount(g)
	if g.Unit != "bytes" && g.Unit != "" {
		text += " " + g.Unit
	}
	if g.InAll {
		text += " in total"
	}
	return text
}

// amount is the growth as a number.
func amount(g Growth) string {
	if g.InAll {
		return display.Delta(g.To-g.From, g.Unit)
	}
	return display.Rate(g.PerOperation, g.Unit)
}

// measure is what the amount is of.
func measure(g Growth) string {
	unit := g.Unit
	if unit != "" {
		unit = ", " + unit
	}
	if g.InAll {
		return g.Check + unit + " in total"
	}
	return g.Check + unit + " per operation"
}

func (r *Record) name(version string) string {
	for _, c := range r.Candidates {
		if c.Version == version {
			return c.Name()
		}
	}
	return version
}

// sentence is the answer, or how far the search came.
func (r *Record) sentence() string {
	switch {
	case r.Sentence != "":
		return r.Sentence
	case r.Failure != nil:
		return "could not go on: " + r.Failure.Message
	}
	return fmt.Sprintf("interrupted after %d steps", len(r.Steps))
}

// maxBars bounds the strip. With more versions, it shows only measured ones.
const maxBars = 60

// view is what reports show of a record in dir.
func (r *Record) view(dir string) reports.Bisection {
	in := reports.Bisection{
		Scenario: r.Scenario, Sentence: r.sentence(), About: r.about(), Effort: r.effort(), Leakrig: r.Leakrig, Tone: leak.Inconclusive.String(),
		Page: filepath.Join(dir, HTMLFile),
	}
	if r.Result == leak.Met {
		in.Tone = leak.Clean.String()
	}
	if r.Open() {
		in.Resume = "leakrig bisect --resume " + reports.ShellWord(dir)
	}
	last := map[string]Step{}
	for i, s := range r.Steps {
		if old, ok := last[s.Version]; !ok || old.State != Leaky {
			last[s.Version] = s
		}
		step := reports.BisectionStep{
			Number: i + 1, Name: r.name(s.Version), State: string(s.State), Tone: tone(s.State), Growth: grew(s),
			Why: s.Why, Run: s.Run, Build: seconds(s.BuildSeconds), Took: "-",
		}
		if s.measured() {
			step.Took = seconds(s.RunSeconds)
		}
		if s.State == Skipped || s.State == Unsure {
			step.Growth = reports.Short(s.Reason)
		}
		in.Steps = append(in.Steps, step)
	}
	boundary := map[string]string{}
	for _, a := range r.Answers {
		if r.Question.AllLines {
			in.Lines = append(in.Lines, reports.Fact{Name: a.Line, Value: a.Sentence})
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
	if r.Question.AllLines && r.Sentence != "" {
		in.WrongEnds = r.wrongEnds()
	}
	most := 0.0
	for _, s := range last {
		most = math.Max(most, rate(s))
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
				b.Title += ": " + reports.Short(s.Reason)
			}
			if most > 0 {
				b.Height = int(math.Round(100 * rate(s) / most))
			}
		}
		if len(r.Candidates) <= maxBars || ok || b.Boundary != "" {
			in.Bars = append(in.Bars, b)
		}
	}
	for _, m := range r.Missing {
		in.Unavailable = append(in.Unavailable, reports.Fact{Name: m.Version, Value: m.Why})
	}
	for _, m := range r.LeftOut {
		list := &in.NotTested
		if IsPre(m.Version) {
			list = &in.PreReleases
		}
		*list = append(*list, reports.Fact{Name: m.Version, Value: m.Why})
	}
	return in
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
