package reports

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/rundir"

	_ "embed"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Limits of the page's lists; each list states how much it omits.
const (
	htmlStacks   = 8 // goroutine stacks of a variant that leaks alone; several variants share them
	htmlSites    = 5 // allocation sites, shared in the same way
	htmlLeast    = 3 // minimum of both, for every variant
	htmlFrames   = 40
	htmlOthers   = 8 // frames of a stack that is not first in its list: the flame graph has all
	htmlRounds   = 120
	htmlCharts   = 4 // large charts, for the first series
	htmlWarnings = 100
	htmlModules  = 500
	htmlErrors   = 10
	htmlSource   = 20
)

//go:embed html_report.tmpl
var pageSource string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"rate": rate, "value": value, "seconds": seconds, "comparison": comparison, "bound": bound,
	"count": count, "more": and, "modules": newModuleTable, "variantTable": newVariantTable, "expected": expected, "join": strings.Join, "keyFill": keyFill,
}).Funcs(assets).Parse(squeezePage(pageSource)))

// html writes one self-contained page that sends no requests. It shows everything that matters without the script, and
// also without the style sheet if the policy of a viewer refuses both.
func html(b *bytes.Buffer, v view) error {
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, newPage(v)); err != nil {
		return err
	}
	b.Write(plainPlus(page.Bytes()))
	return nil
}

// page is the data of the template, top to bottom.
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
	Rows         []variantRow
	Folded       []foldedVariants
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
	leaking := 0
	for _, x := range v.Variants {
		if x.Outcome() == leak.Leaking {
			leaking++
		}
	}
	for _, x := range v.Variants {
		p.Stacks = append(p.Stacks, newVariantStacks(x, v.Sources, leaking))
		p.Loads = append(p.Loads, newVariantLoad(x))
	}
	p.Gates = v.gateTables()
	p.Rows, p.Folded = v.variantRows()
	p.drawFlames()
	p.Built, p.Modules, p.ModulesMore = modules(v)
	p.Commands, p.Profiles = commands(v), v.pprofCommands()
	return p
}

// look is the colour and icon of a result.
type look struct{ Tone, Icon string }

func resultLook(result leak.Result, outcomes ...leak.Outcome) look {
	switch {
	case result == leak.Met:
		return look{leak.Clean.String(), "check"}
	case result == leak.NotMet && slices.Contains(outcomes, leak.Leaking):
		return look{leak.Leaking.String(), "cross"}
	case result == leak.NotMet: // a leak that was not found: red is for found leaks
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

// Look returns the colour and icon of the variant's result.
func (x variant) Look() look { return resultLook(x.Verdict.Result, x.Verdict.Outcome) }

type fact struct{ Name, Value string }

func facts(v view) []fact {
	operations := 0
	for _, x := range v.Variants {
		operations = max(operations, x.Operations())
	}
	load := count(operations, "operation")
	if n := v.Record.Plan.Replicas; n > 1 {
		load += fmt.Sprintf(" on the one shown of %d replicas", n)
	}
	rounds := count(v.Record.Plan.Rounds, "round") + " planned"
	if budget := v.Record.Plan.For; budget > 0 {
		rounds = fmt.Sprintf("rounds added for up to %s", budget)
	}
	list := []fact{{"Load", load + ", " + rounds}}
	if text := soak(v); text != "" {
		list = append(list, fact{"Soak", text})
	}
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

// soak describes a soak, or returns "" for other runs.
func soak(v view) string {
	plan := v.Record.Plan.Soak
	if plan == nil {
		return ""
	}
	text := fmt.Sprintf("every %s for %s", plan.Every, plan.For)
	for _, x := range v.Variants {
		s := x.Record.Soak
		if s == nil {
			continue
		}
		text += "; "
		if len(v.Variants) > 1 {
			text += x.Name + ": "
		}
		text += fmt.Sprintf("%s measured, %d kept", count(s.Rounds, "round"), len(x.Record.Snapshots)-1)
		if s.Late > 0 {
			text += fmt.Sprintf(", %d late, %d missed", s.Late, s.Missed)
		}
		if s.Resumptions > 0 {
			text += fmt.Sprintf(", resumed %d times", s.Resumptions)
		}
	}
	return text
}

type link struct{ URL, Text string }

// links keeps https links. Anything else stays text.
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

// chartFigure is a chart with a table of its numbers, for readers who cannot or do not want to read the chart.
type chartFigure struct {
	Chart chart
	// Wide figures fill a row, with the table next to the chart.
	Wide    bool
	Columns []string
	Rows    []numberRow
	More    int
	// Unsettled is set if a number has an asterisk.
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
		if s.Judged && len(p.Charts) < htmlCharts {
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

// variantStacks holds the growing stacks of one variant.
type variantStacks struct {
	variant
	// Lists are the lists that are not empty.
	Lists []stackList
}

type stackList struct {
	Title, Unit, Noun string
	// Total is the growth of all stacks, of which the list has the largest.
	Total  string
	Stacks []stackItem
	More   int
}

type stackItem struct {
	leak.StackGrowth
	// InAll is set if a rate is meaningless for the stack.
	InAll  bool
	Unit   string
	Open   bool
	Frames []linkedFrame
	More   int
	// Creator is the frame that created the goroutine.
	Creator  *linkedFrame
	Excerpts []excerpt
	// Known names the known leak that the stack belongs to, "" if there is none. Link is its issue.
	Known, Link string
	// Held says who holds the memory, or what the goroutines hold.
	Held []string
}

// Component returns the component that the stack belongs to, or "" for the program.
func (s stackItem) Component() string { return component(s.StackGrowth) }

// linkedFrame is a frame with the URL of its source line, "" if unknown.
type linkedFrame struct {
	leak.Frame
	URL string
}

// At returns the location of the frame. Next to the function's name, with a link to the line, the file is sufficient.
func (f linkedFrame) At() string {
	if f.URL == "" {
		return f.Position()
	}
	return path.Base(f.Position())
}

// locate fills in the frames, at most most, with their links and source lines.
func (s *stackItem) locate(info leak.SubjectInfo, sources rundir.Sources, most int) {
	link := func(f leak.Frame) linkedFrame { return linkedFrame{f, upstream(info, f)} }
	var frames []leak.Frame
	frames, s.More = head(s.Stack.Frames, most)
	for _, f := range frames {
		s.Frames = append(s.Frames, link(f))
	}
	if c := s.Stack.Creator; c != nil {
		creator := link(*c)
		s.Creator = &creator
	}
	s.Excerpts = excerpts(s.Stack, info, sources)
}

// newVariantStacks lists the stacks of a variant. leaking is the number of leaking variants on the page.
func newVariantStacks(x variant, sources rundir.Sources, leaking int) variantStacks {
	stacks, sites := htmlLeast, htmlLeast
	if x.Outcome() == leak.Leaking || leaking == 0 {
		stacks, sites = max(htmlStacks/max(leaking, 1), htmlLeast), max(htmlSites/max(leaking, 1), htmlLeast)
	}
	lists := []stackList{
		newStackList("Goroutines", x, false, x.Goroutines(), x.leadProbe() == "goroutine", stacks),
		newStackList("Heap", x, true, x.heapApart(), x.leadProbe() == "heap", sites),
	}
	for _, l := range lists {
		shown := map[string]bool{} // positions of creators: many stacks share one
		for i := range l.Stacks {
			most := htmlFrames
			if i > 0 && !l.Stacks[i].Fingerprint {
				most = htmlOthers
			}
			l.Stacks[i].InAll = x.Verdict.Lead().InAll()
			l.Stacks[i].Held = x.held(l.Stacks[i].StackGrowth, l.Unit)
			if m := x.knownLeak(l.Stacks[i].StackGrowth, l.Unit); m != nil {
				l.Stacks[i].Known, l.Stacks[i].Link = m.Sentence(), m.Links[0]
			}
			l.Stacks[i].locate(x.Record.Binary(l.Stacks[i].Probe), sources, most)
			l.Stacks[i].Excerpts = slices.DeleteFunc(l.Stacks[i].Excerpts, func(e excerpt) bool {
				seen := e.Creator && shown[e.Position]
				shown[e.Position] = shown[e.Position] || e.Creator
				return seen
			})
		}
	}
	return variantStacks{x, slices.DeleteFunc(lists, func(l stackList) bool { return len(l.Stacks) == 0 })}
}

func newStackList(title string, x variant, heap bool, stacks []leak.StackGrowth, open bool, most int) stackList {
	unit, all := stackUnit(heap), x.growthOf(heap)
	l := stackList{Title: title, Unit: unit, Noun: stackNoun(heap)}
	l.Total = fmt.Sprintf("%s grew, %s in total, exact", count(all.Stacks, l.Noun), display.Delta(float64(all.Grew), unit))
	if heap {
		l.Total = fmt.Sprintf("%s grew, %s in total, sampled", count(all.Stacks, l.Noun), display.Delta(float64(all.Grew), unit))
	}
	found := len(stacks) + x.unlisted(heap)
	stacks, _ = head(slices.DeleteFunc(stacks, func(g leak.StackGrowth) bool { return !g.Fingerprint && flat(g, unit) }), most)
	l.More = found - len(stacks)
	for i, g := range stacks {
		l.Stacks = append(l.Stacks, stackItem{StackGrowth: g, Unit: unit, Open: open && i == 0})
	}
	return l
}

// flat reports whether the stack's growth per operation rounds to zero. It may have grown since the baseline, but not
// in proportion to the operations.
func flat(g leak.StackGrowth, unit string) bool { return rate(g.PerOperation, unit) == rate(0, unit) }

// Grew formats the amounts before and after: "2 → 142".
func (s stackItem) Grew() string {
	return value(float64(s.From), s.Unit) + " → " + value(float64(s.To), s.Unit)
}

// variantFlames holds the flame graphs of one variant.
type variantFlames struct {
	ID, Of string
	Open   bool
	Set    flameSet
}

// drawFlames divides the frames of the page among the variants. Leaking variants get more, and their graphs are open.
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
		set.pack(flameData * share(x) / shares)
		p.Flames = append(p.Flames, variantFlames{fmt.Sprintf("flame%d", i+1), x.Name, x.Outcome() == leak.Leaking, set})
	}
	if len(p.Flames) > 0 && !slices.ContainsFunc(p.Flames, func(f variantFlames) bool { return f.Open }) {
		p.Flames[0].Open = true
	}
}

// variantLoad is the load on one variant, by round.
type variantLoad struct {
	variant
	Attempted, Failed int
	Rounds            []loadRow
	More              int
}

type loadRow struct {
	Round string
	// Settle is nil if the round settled for the same reason as the row above.
	Settle *leak.SettleResult
	leak.Tally
	// Crew describes the workers that performed the operations, the schedule of an open load, and a fault.
	Crew         []string
	Messages     []leak.ErrorCount
	MessagesMore int
}

func newVariantLoad(x variant) variantLoad {
	l := variantLoad{variant: x}
	said := "" // reason of the previous row: most rounds settle for the same one
	add := func(round string, settle *leak.SettleResult, t leak.Tally) {
		row := loadRow{Round: round, Tally: t, Crew: crew(t.Workers)}
		if t.Open != nil {
			row.Crew = append(row.Crew, openLoad(t.Open))
		}
		if t.Fault != "" {
			row.Crew = append(row.Crew, "fault: "+t.Fault)
		}
		if settle != nil && (!settle.Settled || settle.Reason != said) {
			row.Settle, said = settle, settle.Reason
		}
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
			round := fmt.Sprint(s.Round)
			if s.Merged > 0 {
				round = fmt.Sprintf("%d–%d", s.First(), s.Round)
			}
			add(round, &s.Settle, t)
		}
	}
	l.Rounds, l.More = head(l.Rounds, htmlRounds)
	return l
}

// crew returns one line about all workers of a tally, and one line per lost worker.
func crew(workers []leak.WorkerTally) []string {
	if len(workers) == 0 {
		return nil
	}
	nodes, latest := map[string]bool{}, 0.0
	var lost []string
	for i, w := range workers {
		nodes[w.Node], latest = true, max(latest, w.LateSeconds)
		if w.Lost != "" {
			lost = append(lost, fmt.Sprintf("worker %d (%s on %s) lost: %s; of its %s it reported %d", i+1, w.Pod, w.Node, w.Lost, count(w.Operations, "operation"), w.Attempted))
		}
	}
	all := fmt.Sprintf("from %s on %s, of which the last began %s after the common start", count(len(workers), "worker"), count(len(nodes), "node"), seconds(latest))
	return append([]string{all}, lost...)
}

// moduleRow is a row of the table of versions, with one cell per variant.
type moduleRow struct {
	Path     string
	Versions []string
	// Differs is set if variants were built with different versions.
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

// modules splits the versions into modules with growing stacks and all others.
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
	for _, module := range main {
		built = append(built, version(module))
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
		{"Run it again", v.rerun()},
		{"Decide again from this record", "leakrig judge " + ShellPath(v.RunDir)},
	}
	if line, ok := v.reproduce(); ok {
		list = append(list, command{"See it in the raw profiles", line})
	}
	return list
}

// pinnedVersions formats the pinned modules: "github.com/containerd/containerd v1.6.36, github.com/containerd/ttrpc
// v1.0.2".
func pinnedVersions(c leak.NodeCommand) string {
	var parts []string
	for _, m := range c.Modules {
		version := m.Version
		if _, replaced, ok := strings.Cut(m.Replace, " "); ok {
			version = replaced
		}
		parts = append(parts, m.Path+" "+version)
	}
	return strings.Join(parts, ", ")
}

// VersionFacts returns the versions and the machine of the run.
func (p page) VersionFacts() []fact {
	m := p.Record.Machine
	list := []fact{{"leakrig", p.Record.Leakrig}, {"Go", m.Go}}
	if c := p.Record.Cluster; c != nil {
		list = append(list, fact{"Kubernetes", c.Kubernetes + " (" + c.Provider + ")"})
		if c.Binaries != "" {
			list = append(list, fact{"Control plane", c.Binaries})
		}
	}
	for _, x := range p.Variants {
		if c := x.Record.Cluster; c != nil {
			for _, command := range c.Pinned {
				list = append(list, fact{x.Name + ", " + path.Base(command.Path), pinnedVersions(command)})
			}
		}
	}
	machine := fmt.Sprintf("%s/%s, %s", m.OS, m.Arch, count(m.CPUs, "CPU"))
	if m.MemoryBytes > 0 {
		machine += ", " + value(float64(m.MemoryBytes), "bytes")
	}
	return slices.DeleteFunc(append(list, fact{"Machine", machine}, fact{"Kernel", m.Kernel}), func(f fact) bool { return f.Value == "" })
}

// Outcome, Expect and similar methods are shortcuts for the template.
func (x variant) Outcome() leak.Outcome    { return x.Verdict.Outcome }
func (x variant) Expect() leak.Expectation { return x.Verdict.Expect }
