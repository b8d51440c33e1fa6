package reports

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/leakrig/leakrig/leak/display"

	_ "embed"

	"github.com/leakrig/leakrig/leak"
)

// diffStacks limits each of the page's two tables of stacks. diffFrames limits the frames of its only graph.
const (
	diffStacks = 100
	diffFrames = 2000
)

//go:embed html_diff.tmpl
var diffSource string

var diffTemplate = template.Must(pageTemplate.New("diff").Funcs(template.FuncMap{
	"flamesOf": func(id, of string, set flameSet) variantFlames { return variantFlames{id, of, true, set} },
}).Parse(squeezePage(diffSource)))

// DiffInput is the input of the page that compares two profiles.
type DiffInput struct {
	Diff *leak.Diff
	// Base and Now are the two file names as the user typed them.
	Base, Now string
	// Max is the maximum growth of one stack, negative if not given.
	Max float64
}

// Diff writes the page that compares two profiles. Like a run's report, it is one self-contained file.
func Diff(w io.Writer, in DiffInput) error {
	err := writePage(w, diffTemplate, newDiffPage(in))
	for i := 1; i < len(rooms) && errors.Is(err, display.ErrOutput); i++ {
		short := *in.Diff
		short.Stacks = slices.Clone(short.Stacks)
		for k := range short.Stacks {
			short.Stacks[k].Stack = short.Stacks[k].Stack.Cut(rooms[i].frames, rooms[i].name)
		}
		in.Diff = &short
		err = writePage(w, diffTemplate, newDiffPage(in))
	}
	return err
}

// diffPage is the data of the template, top to bottom.
type diffPage struct {
	Base, Now, What string
	// Change is the total change: "+42 goroutines".
	Change   string
	Facts    []fact
	Flames   flameSet
	Tables   []diffTable
	Commands []command
}

type diffTable struct {
	Title string
	// Rated is set if the number of operations is known.
	Rated bool
	Rows  []diffRow
	More  int
}

type diffRow struct {
	Change, Rate, From, To string
	State, Place, Position string
	Creator                string
	Oldest, Objects        string
	// Over is set if the stack grew by more than the maximum.
	Over   bool
	Frames []leak.Frame
	More   int
}

func newDiffPage(in DiffInput) diffPage {
	d := in.Diff
	p := diffPage{Base: in.Base, Now: in.Now, What: diffSources[d.Source], Change: diffChange(d.To-d.From, d.Unit)}
	var grew, shrank []leak.StackGrowth
	fresh, gone := 0, 0
	for _, s := range d.Stacks {
		if s.To > s.From {
			grew = append(grew, s)
		} else {
			shrank = append(shrank, s)
		}
		if s.From == 0 {
			fresh++
		}
		if s.To == 0 {
			gone++
		}
	}
	slices.Reverse(shrank) // largest decrease first
	p.Facts = []fact{
		{"In all", value(float64(d.From), d.Unit) + " → " + value(float64(d.To), d.Unit)},
		{"Grew", fmt.Sprintf("%s, %d of them new", count(len(grew), "stack"), fresh)},
		{"Shrank", fmt.Sprintf("%s, %d of them vanished", count(len(shrank), "stack"), gone)},
		{"Unchanged", count(d.Same, "stack")},
	}
	if d.Operations > 0 {
		p.Facts = append(p.Facts, fact{"Between them", count(d.Operations, "operation")})
	}
	if in.Max >= 0 {
		over := 0
		for _, s := range grew {
			if float64(s.To-s.From) > in.Max {
				over++
			}
		}
		p.Facts = append(p.Facts, fact{"Bound", fmt.Sprintf("%s for one stack: %d over it", value(in.Max, d.Unit), over)})
	}
	p.Flames = diffFlames(d, p.What)
	for _, t := range []struct {
		title string
		list  []leak.StackGrowth
	}{{"Grew", grew}, {"Shrank", shrank}} {
		if len(t.list) > 0 {
			p.Tables = append(p.Tables, newDiffTable(t.title, d, t.list, in.Max))
		}
	}
	p.Commands = []command{{"In the terminal", "leakrig diff " + ShellPath(in.Base) + " " + ShellPath(in.Now)}}
	if d.Source == "heap" || d.Source == "profile" {
		words := "go tool pprof -top "
		if d.Source == "heap" {
			words += "-sample_index=inuse_space "
		}
		p.Commands = append(p.Commands, command{"With pprof", words + "-base " + ShellPath(in.Base) + " " + ShellPath(in.Now)})
	}
	return p
}

// diffSources describes the two profiles by their kind.
var diffSources = map[string]string{
	"dump": "goroutine dumps", "profile": "goroutine profiles", "heap": "heap profiles, bytes in use", "leaked": "goroutine leak profiles",
}

func diffChange(change int64, unit string) string {
	s := display.Delta(float64(change), unit)
	if unit != "bytes" {
		s += " " + unit
	}
	return s
}

// diffFlames draws the flame graphs of the changes.
func diffFlames(d *leak.Diff, what string) flameSet {
	var list []stackChange
	for _, s := range d.Stacks {
		list = append(list, stackChange{Stack: s.Stack, From: min(max(s.From, 0), flameMost), To: min(max(s.To, 0), flameMost)})
	}
	if len(list) == 0 {
		return flameSet{}
	}
	g := flameGraph{d.Unit, d.Source, d.Operations, list}
	m := newFlameMetric("What changed between two "+what, g, nil, diffFrames, flameTable)
	m.Name, m.Lead = what, true
	set := flameSet{Metrics: []flameMetric{m}, Total: m.Total, graphs: []flameGraph{g}}
	set.pack(flameData)
	return set
}

func newDiffTable(title string, d *leak.Diff, list []leak.StackGrowth, most float64) diffTable {
	t := diffTable{Title: title, Rated: d.Operations > 0}
	list, t.More = head(list, diffStacks)
	for _, s := range list {
		change := s.To - s.From
		r := diffRow{
			Change: display.Delta(float64(change), d.Unit), Rate: rate(s.PerOperation, d.Unit),
			From: value(float64(s.From), d.Unit), To: value(float64(s.To), d.Unit),
			State: s.Stack.State, Place: s.Stack.Place().Short(), Position: s.Stack.Place().Position(), Over: most >= 0 && float64(change) > most,
		}
		if r.Place == "" {
			r.Place = "an unknown place"
		}
		if s.Stack.Creator != nil {
			r.Creator = s.Stack.Creator.Short()
		}
		if s.OldestMinutes > 0 {
			r.Oldest = "the oldest for " + count(s.OldestMinutes, "minute")
		}
		if s.Objects != 0 {
			r.Objects = display.Delta(float64(s.Objects), "objects") + " objects"
		}
		r.Frames, r.More = head(s.Stack.Frames, htmlFrames)
		t.Rows = append(t.Rows, r)
	}
	return t
}
