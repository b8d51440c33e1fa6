package reports

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Where the page's lists end; each says how much it left out.
const (
	htmlStacks   = 10
	htmlFrames   = 40
	htmlRounds   = 120
	htmlWarnings = 100
	htmlModules  = 500
	htmlErrors   = 10
	htmlSource   = 20
)

//go:embed report.html.tmpl
var pageSource string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"rate": rate, "value": value, "seconds": seconds, "comparison": comparison, "bound": bound,
	"count": count, "more": and, "modules": newModuleTable, "expected": expected, "join": strings.Join, "keyFill": keyFill,
}).Funcs(assets).Parse(pageSource))

// html is one page that opens anywhere: no request, and nothing that matters needs the script or, in a
// viewer whose policy refuses both, the style sheet.
func html(b *bytes.Buffer, v view) error {
	return pageTemplate.Execute(b, newPage(v))
}

// page is what the template draws, top to bottom.
type page struct {
	view
	Look         look
	Facts        []fact
	Links        []link
	Checks       []checkRow
	Charts       []chartFigure
	SmallCharts  []chart
	Rates        []rateRow
	Stacks       []variantStacks
	Flames       []variantFlames
	Gates        []gateTable
	Loads        []variantLoad
	WarningList  []string
	WarningsMore int
	Built        []moduleRow
	Modules      []moduleRow
	ModulesMore  int
	Commands     []command
	Profiles     []command
}

func newPage(v view) page {
	p := page{view: v, Look: verdictLook(v), Facts: facts(v), Links: links(v.Scenario.Metadata.Links), Checks: v.rankedRows()}
	p.WarningList, p.WarningsMore = head(v.Warnings(), htmlWarnings)
	p.drawSeries()
	for _, x := range v.Variants {
		p.Stacks = append(p.Stacks, newVariantStacks(x, v.Sources))
		p.Loads = append(p.Loads, newVariantLoad(x))
	}
	p.Gates = v.gateTables()
	p.drawFlames()
	p.Built, p.Modules, p.ModulesMore = modules(v)
	p.Commands, p.Profiles = commands(v), v.pprofCommands()
	return p
}

// look is how a result is coloured, and the icon beside its words.
type look struct{ Tone, Icon string }

func resultLook(result leak.Result, outcomes ...leak.Outcome) look {
	switch {
	case result == leak.Met:
		return look{leak.Clean.String(), "check"}
	case result == leak.NotMet && slices.Contains(outcomes, leak.Leaking):
		return look{leak.Leaking.String(), "cross"}
	case result == leak.NotMet: // a leak that was not seen: red is for those that were
		return look{leak.Inconclusive.String(), "cross"}
	case result == leak.Unmeasured:
		return look{leak.Inconclusive.String(), "bang"}
	}
	return look{leak.Inconclusive.String(), "question"}
}

func verdictLook(v view) look {
	var outcomes []leak.Outcome
	for _, x := range v.Variants {
		if x.Verdict.Result == leak.NotMet {
			outcomes = append(outcomes, x.Verdict.Outcome)
		}
	}
	return resultLook(v.Result(), outcomes...)
}

// Look is that of the variant's result.
func (x variant) Look() look { return resultLook(x.Verdict.Result, x.Verdict.Outcome) }

type fact struct{ Name, Value string }

func facts(v view) []fact {
	operations := 0
	for _, x := range v.Variants {
		operations = max(operations, x.Operations())
	}
	list := []fact{{"Load", fmt.Sprintf("%s, %s planned", count(operations, "operation"), count(v.Record.Plan.Rounds, "round"))}}
	if p := parameters(v.Record.Parameters); p != "" {
		list = append(list, fact{"Parameters", p})
	}
	if c := v.Record.Cluster; c != nil {
		list = append(list, fact{"Cluster", strings.TrimSpace(c.Provider + ", Kubernetes " + c.Kubernetes)})
	}
	if !v.Record.Started.IsZero() {
		list = append(list, fact{"Started", v.Record.Started.UTC().Format("2006-01-02 15:04 UTC")})
	}
	if d := v.Elapsed(); d > 0 {
		list = append(list, fact{"Took", d.Round(time.Second).String()})
	}
	return list
}

type link struct{ URL, Text string }

// links keeps https; anything else stays text.
func links(list []string) []link {
	var out []link
	for _, s := range list {
		l := link{Text: s}
		if u, err := url.Parse(s); err == nil && u.Scheme == "https" && u.Host != "" {
			l.URL = s
		}
		out = append(out, l)
	}
	return out
}

// chartFigure is a chart with its numbers, for who cannot or would not read the picture.
type chartFigure struct {
	Chart chart
	// Wide figures fill a row, with their numbers beside the picture.
	Wide    bool
	Columns []string
	Rows    []numberRow
	More    int
	// Unsettled is set where a number carries an asterisk.
	Unsettled bool
}

type numberRow struct {
	Label  string
	Values []string
}

// rateRow is one series of the table below the charts.
type rateRow struct {
	Name, Unit string
	Values     []string
}

func (p *page) drawSeries() {
	for i, s := range p.series() {
		id := fmt.Sprintf("chart%d", i+1)
		if s.Judged {
			p.Charts = append(p.Charts, newFigure(newChart(id, s, bigChart), s))
		} else {
			p.SmallCharts = append(p.SmallCharts, newChart(id, s, smallChart))
		}
		p.Rates = append(p.Rates, newRateRow(s, p.Variants))
	}
	if len(p.Charts)%2 == 1 {
		p.Charts[0].Wide = true
	}
}

func newRateRow(s series, variants []variant) rateRow {
	r := rateRow{Name: s.Name, Unit: s.Unit}
	for _, x := range variants {
		cell := "–"
		for _, l := range s.Lines {
			if l.Variant == x.Name && l.Fitted {
				cell = rate(l.Slope, s.Unit)
			}
		}
		r.Values = append(r.Values, cell)
	}
	return r
}

func newFigure(c chart, s series) chartFigure {
	f := chartFigure{Chart: c}
	type moment struct {
		idle  bool
		round int
	}
	var moments []moment
	for i, l := range s.Lines {
		f.Columns = append(f.Columns, l.Variant)
		for _, p := range l.Points {
			k := slices.Index(moments, moment{p.Idle, p.Round})
			if k < 0 {
				k, moments = len(moments), append(moments, moment{p.Idle, p.Round})
				f.Rows = append(f.Rows, numberRow{momentLabel(p), make([]string, len(s.Lines))})
			}
			cell := value(p.Value, s.Unit)
			if p.Unsettled {
				cell, f.Unsettled = cell+"*", true
			}
			f.Rows[k].Values[i] = cell
		}
	}
	f.Rows, f.More = head(f.Rows, htmlRounds)
	return f
}

func momentLabel(p leak.Point) string {
	if p.Idle {
		return "idle"
	}
	return fmt.Sprint(p.Operations)
}

// variantStacks are the stacks of one variant that grew.
type variantStacks struct {
	variant
	// Lists are those with a stack in them.
	Lists []stackList
}

type stackList struct {
	Title, Unit, Noun string
	Stacks            []stackItem
	More              int
}

type stackItem struct {
	leak.StackGrowth
	Unit   string
	Open   bool
	Frames []linkedFrame
	More   int
	// Creator is that of the stack.
	Creator  *linkedFrame
	Excerpts []excerpt
}

// linkedFrame is a frame with the address of its line, where that is known.
type linkedFrame struct {
	leak.Frame
	URL string
}

// locate fills in where the frames come from.
func (s *stackItem) locate(info leak.SubjectInfo, sources leak.Sources) {
	link := func(f leak.Frame) linkedFrame { return linkedFrame{f, upstream(info, f)} }
	var frames []leak.Frame
	frames, s.More = head(s.Stack.Frames, htmlFrames)
	for _, f := range frames {
		s.Frames = append(s.Frames, link(f))
	}
	if c := s.Stack.Creator; c != nil {
		creator := link(*c)
		s.Creator = &creator
	}
	s.Excerpts = excerpts(s.Stack, info, sources)
}

func newVariantStacks(x variant, sources leak.Sources) variantStacks {
	lists := []stackList{
		newStackList("Goroutines", "stack", stackUnit(false), x.Goroutines(), x.leadProbe() == "goroutine"),
		newStackList("Heap", "allocation site", stackUnit(true), x.Heap(), x.leadProbe() == "heap"),
	}
	for _, l := range lists {
		for i := range l.Stacks {
			l.Stacks[i].locate(x.binary(l.Stacks[i].Probe), sources)
		}
	}
	return variantStacks{x, slices.DeleteFunc(lists, func(l stackList) bool { return len(l.Stacks) == 0 })}
}

func newStackList(title, noun, unit string, stacks []leak.StackGrowth, open bool) stackList {
	l := stackList{Title: title, Unit: unit, Noun: noun}
	found := len(stacks)
	stacks, _ = head(slices.DeleteFunc(stacks, func(g leak.StackGrowth) bool { return !g.Fingerprint && flat(g, unit) }), htmlStacks)
	l.More = found - len(stacks)
	for i, g := range stacks {
		l.Stacks = append(l.Stacks, stackItem{StackGrowth: g, Unit: unit, Open: open && i == 0})
	}
	return l
}

// flat is whether the stack's growth rounds to nothing: more at the end than at the baseline, but not
// the more the longer it ran.
func flat(g leak.StackGrowth, unit string) bool { return rate(g.PerOperation, unit) == rate(0, unit) }

// Grew is "2 → 142".
func (s stackItem) Grew() string {
	return value(float64(s.From), s.Unit) + " → " + value(float64(s.To), s.Unit)
}

// variantFlames are the flame graphs of one variant.
type variantFlames struct {
	ID, Of string
	Open   bool
	Set    flameSet
}

// drawFlames shares the frames of the page among the variants, more to those that leak, and opens these.
func (p *page) drawFlames() {
	share := func(x variant) int {
		if x.Outcome() == leak.Leaking {
			return 3
		}
		return 1
	}
	shares := 0
	for _, x := range p.Variants {
		shares += share(x)
	}
	for i, x := range p.Variants {
		set := newFlameSet(x.flameSubject(), x.Name, flameFrames*share(x)/shares)
		if len(set.Metrics) == 0 {
			continue
		}
		p.Flames = append(p.Flames, variantFlames{fmt.Sprintf("flame%d", i+1), x.Name, x.Outcome() == leak.Leaking, set})
	}
	if len(p.Flames) > 0 && !slices.ContainsFunc(p.Flames, func(f variantFlames) bool { return f.Open }) {
		p.Flames[0].Open = true
	}
}

// gateTable is all comparisons of one check, the variants beside each other.
type gateTable struct {
	checkRow
	Open bool
	Rows []gateRow
}

type gateRow struct {
	Name, Doc string
	// Cells are in the order of the variants, nil where the comparison was not made.
	Cells []*leak.Gate
}

// gateTables opens the first check and those that keep a variant from its expectation.
func (v view) gateTables() []gateTable {
	var tables []gateTable
	for _, row := range v.rankedRows() {
		t := gateTable{checkRow: row, Open: len(tables) == 0}
		for i, c := range row.Cells {
			if c.Finding == nil {
				continue
			}
			t.Open = t.Open || v.Variants[i].Against(*c.Finding)
			for _, g := range c.Finding.Gates {
				k := slices.IndexFunc(t.Rows, func(r gateRow) bool { return r.Name == g.Name && r.Cells[i] == nil })
				if k < 0 {
					k, t.Rows = len(t.Rows), append(t.Rows, gateRow{g.Name, g.Doc, make([]*leak.Gate, len(row.Cells))})
				}
				t.Rows[k].Cells[i] = &g
			}
		}
		tables = append(tables, t)
	}
	return tables
}

// variantLoad is what was asked of one variant, round by round.
type variantLoad struct {
	variant
	Attempted, Failed int
	Rounds            []loadRow
	More              int
}

type loadRow struct {
	Round  string
	Settle *leak.SettleResult
	leak.Tally
	Messages     []leak.ErrorCount
	MessagesMore int
}

func newVariantLoad(x variant) variantLoad {
	l := variantLoad{variant: x}
	add := func(round string, settle *leak.SettleResult, t leak.Tally) {
		row := loadRow{Round: round, Settle: settle, Tally: t}
		row.Messages, row.MessagesMore = head(t.Errors, htmlErrors)
		l.Rounds = append(l.Rounds, row)
	}
	for _, t := range x.Record.Warmup {
		add("warm-up", nil, t)
	}
	for _, s := range x.Record.Snapshots {
		for _, t := range s.Load {
			l.Attempted += t.Attempted
			l.Failed += t.Failed
			add(fmt.Sprint(s.Round), &s.Settle, t)
		}
	}
	l.Rounds, l.More = head(l.Rounds, htmlRounds)
	return l
}

// moduleRow is one line of the table of versions, a cell a variant.
type moduleRow struct {
	Path     string
	Versions []string
	// Differs is set where variants were built with different versions.
	Differs bool
}

// moduleTable is a table of versions.
type moduleTable struct {
	Caption  string
	Variants []variant
	Rows     []moduleRow
}

func newModuleTable(caption string, variants []variant, rows []moduleRow) moduleTable {
	return moduleTable{caption, variants, rows}
}

// modules splits the versions into those of modules that growing stacks lie in, and the rest.
func modules(v view) (built, rest []moduleRow, more int) {
	row := func(path string, cell func(x variant) string) moduleRow {
		r := moduleRow{Path: path}
		for _, x := range v.Variants {
			c := cell(x)
			if c == "" {
				c = "–"
			}
			r.Versions = append(r.Versions, c)
		}
		r.Differs = len(unique(slices.Clone(r.Versions))) > 1
		return r
	}
	version := func(path string) moduleRow {
		return row(path, func(x variant) string { return x.version(path) })
	}
	built = append(built,
		row("go.mod", func(x variant) string { return x.Record.Subject.Modfile }),
		row("Go", func(x variant) string { return x.Record.Subject.GoVersion }))
	if slices.ContainsFunc(v.Variants, func(x variant) bool { return x.Record.Subject.Rewrite != nil }) {
		built = append(built, row("re-enacted", func(x variant) string {
			if r := x.Record.Subject.Rewrite; r != nil {
				return reenacted(r)
			}
			return ""
		}))
	}
	main, _ := head(v.stackModules(), 8)
	for _, path := range main {
		built = append(built, version(path))
	}
	var paths []string
	for _, x := range v.Variants {
		for _, b := range x.binaries() {
			for _, m := range b.Modules {
				paths = append(paths, m.Path)
			}
		}
	}
	slices.Sort(paths)
	paths = slices.DeleteFunc(unique(paths), func(p string) bool { return slices.Contains(main, p) })
	paths, more = head(paths, htmlModules)
	for _, path := range paths {
		rest = append(rest, version(path))
	}
	return built, rest, more
}

func commands(v view) []command {
	list := []command{
		{"Run it again", v.again()},
		{"Decide again from this record", "leakrig judge " + shellPath(v.RunDir)},
	}
	if line, ok := v.reproduce(); ok {
		list = append(list, command{"See it in the raw profiles", line})
	}
	return list
}

// VersionFacts is where and with what the run was made.
func (p page) VersionFacts() []fact {
	m := p.Record.Machine
	list := []fact{{"leakrig", p.Record.Leakrig}, {"Go", m.Go}}
	if c := p.Record.Cluster; c != nil {
		list = append(list, fact{"Kubernetes", c.Kubernetes + " (" + c.Provider + ")"})
	}
	machine := fmt.Sprintf("%s/%s, %s", m.OS, m.Arch, count(m.CPUs, "CPU"))
	if m.MemoryBytes > 0 {
		machine += ", " + value(float64(m.MemoryBytes), "bytes")
	}
	return slices.DeleteFunc(append(list, fact{"Machine", machine}, fact{"Kernel", m.Kernel}), func(f fact) bool { return f.Value == "" })
}

// Outcome, Expect and the like are short for the template.
func (x variant) Outcome() leak.Outcome    { return x.Verdict.Outcome }
func (x variant) Expect() leak.Expectation { return x.Verdict.Expect }
