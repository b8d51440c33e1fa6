package bisect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/leakrig/leakrig/leak/display"
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
		words[i] = quoted(word)
	}
	command := strings.Join(words, " ")
	if q.Kind == OfCommit {
		command = "git checkout " + version + " && " + command
	}
	return command
}

func quoted(word string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@%+=:,./_-", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
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

func text(out io.Writer, r *Record, dir string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.about())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  step\tversion\t\tgrowth per operation\tbuild\trun\t\n")
	for i, s := range r.Steps {
		run := "-"
		if s.measured() {
			run = seconds(s.RunSeconds)
		}
		what := grew(s)
		if s.State == Skipped || s.State == Unsure {
			what = shorten(s.Reason)
		}
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\t%s\t\n", i+1, r.name(s.Version), s.State, what, seconds(s.BuildSeconds), run)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	if r.Question.AllLines && r.Sentence != "" {
		for _, a := range r.Answers {
			fmt.Fprintf(&b, "%s: %s\n", a.Line, a.Sentence)
		}
		for _, wrong := range r.wrongEnds() {
			fmt.Fprintln(&b, wrong)
		}
	} else {
		fmt.Fprintln(&b, r.sentence())
	}
	b.WriteString("\n")
	fmt.Fprintf(&b, "%s\n", r.effort())
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "unavailable: %s: %s\n", m.Version, m.Why)
	}
	pre := 0
	for _, m := range r.LeftOut {
		if IsPre(m.Version) {
			pre++
		} else {
			fmt.Fprintf(&b, "not tested: %s: %s\n", m.Version, m.Why)
		}
	}
	if pre > 0 {
		fmt.Fprintf(&b, "not tested: %d pre-releases (--pre includes all of them, --candidates single ones)\n", pre)
	}
	for _, a := range r.Answers {
		if a.Leaky == "" {
			continue
		}
		if url := r.compare(a); url != "" {
			fmt.Fprintf(&b, "what changed: %s\n", url)
		}
		fmt.Fprintf(&b, "leaky side:   %s\nclean side:   %s\n", r.Question.Command(a.Leaky), r.Question.Command(a.Clean))
	}
	if r.Open() {
		fmt.Fprintf(&b, "go on:        leakrig bisect --resume %s\n", quoted(dir))
	}
	fmt.Fprintf(&b, "report:       %s\n", filepath.Join(dir, HTMLFile))
	return display.WriteText(out, b.String())
}

// shorten keeps a reason, which may be a compiler's, to one line of a table.
func shorten(reason string) string {
	first, _, _ := strings.Cut(reason, "\n")
	if runes := []rune(first); len(runes) > 80 {
		return string(runes[:79]) + "…"
	}
	return first
}

// escapeCell keeps foreign text from ending a cell of a table, or from being markup.
var escapeCell = strings.NewReplacer("|", `\|`, "`", "'", "<", "&lt;", "\n", " ")

func markdown(out io.Writer, r *Record, _ string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n%s. %s.\n\n", escapeCell.Replace(r.sentence()), escapeCell.Replace(r.about()), escapeCell.Replace(r.effort()))
	fmt.Fprintf(&b, "| step | version | | growth per operation | run |\n| --- | --- | --- | --- | --- |\n")
	for i, s := range r.Steps {
		what := grew(s)
		if s.State == Skipped || s.State == Unsure {
			what = shorten(s.Reason)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", i+1, escapeCell.Replace(r.name(s.Version)), s.State, escapeCell.Replace(what), seconds(s.RunSeconds))
	}
	for _, a := range r.Answers {
		if a.Leaky == "" {
			continue
		}
		if url := r.compare(a); url != "" {
			fmt.Fprintf(&b, "\n[What changed](%s)\n", url)
		}
		fmt.Fprintf(&b, "\n```\n%s\n%s\n```\n", r.Question.Command(a.Leaky), r.Question.Command(a.Clean))
	}
	return display.WriteText(out, b.String())
}
