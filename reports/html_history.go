package reports

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// Limits of the lists on the history page; each list states how much it omits.
const (
	historyWeeks   = 27
	historyRuns    = 120
	historyCharts  = 6
	historyChanges = 12
	historyModules = 8
	historyStacks  = 3
)

// HistoryRun is one run directory. History uses its record without the samples.
type HistoryRun struct {
	// Dir is the run directory, and Report its HTML report, "" if it has none. Both are relative to the page.
	Dir, Report string
	Record      *leak.Record
	// Verdict is nil if the run was not judged.
	Verdict *leak.Verdict
	// Seconds is how long each variant was measured; see Elapsed.
	Seconds map[string]float64
	// Problem is the reason why the directory could not be read. If it is set, the other fields are empty.
	Problem string
}

//go:embed html_history.tmpl
var historySource string

var historyTemplate = template.Must(pageTemplate.New("history").Parse(squeezePage(historySource)))

// History writes the page over many runs. A board has a row for each scenario. Below, each has the results by date, the
// growth, changes of its level, and what is new since the last run that met its expectation. now marks scenarios
// without recent runs; the zero time marks none.
func History(w io.Writer, runs []HistoryRun, now time.Time) error {
	return writePage(w, historyTemplate, newHistory(runs, now))
}

// history is the data of the template, top to bottom.
type history struct {
	Runs      int
	Scenarios []scenarioHistory
	Problems  []HistoryRun
	More      int
	// Leakrig is the version of the newest run.
	Leakrig string
}

// scenarioHistory holds all runs of one scenario.
type scenarioHistory struct {
	ID, Name string
	Last     historyRow
	Runs     int
	// Green is the last run that met its expectation, nil if none did.
	Green   *historyRow
	Changes []string
	// Past says when the scenario was not as expected before, "" if it never was or is not now.
	Past string
	// Board is the row of the scenario on the board, and LevelChanges the runs with changed levels, newest first.
	Board            boardRow
	LevelChanges     []nightChange
	LevelChangesMore int

	More     int
	Weeks    []string
	Days     []calendarRow
	Charts   []chart
	Versions []versionChange
	Columns  []string
	Rows     []historyRow
	RowsMore int
}

// historyRow is one run in the table.
type historyRow struct {
	HistoryRun
	view view
	// Growth is the growth per operation of each variant, by the check that Figure selects.
	Growth []string
	// Load has the latency and the failures of each variant.
	Load []string
}

// calendarRow is one day of the week, with a cell per week.
type calendarRow struct {
	Day   string
	Cells []calendarCell
}

// calendarCell is one day. Label is "" if no run started.
type calendarCell struct {
	look
	Label, URL string
}

// versionChange is a version that differs between consecutive runs.
type versionChange struct {
	Number, run          int
	When, What, From, To string
}

func newHistory(runs []HistoryRun, now time.Time) history {
	h := history{Runs: len(runs)}
	byName := map[string][]historyRow{}
	var names []string
	for _, r := range runs {
		if r.Problem != "" || r.Record == nil {
			h.Problems = append(h.Problems, r)
			continue
		}
		row := historyRow{HistoryRun: r, view: newView(Input{Record: r.Record, Verdict: r.Verdict})}
		name := row.view.Name()
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], row)
	}
	slices.Sort(names)
	var today time.Time
	for _, r := range runs {
		if r.Record != nil && r.Record.Started.After(today) {
			today, h.Leakrig = r.Record.Started.UTC(), r.Record.Leakrig
		}
	}
	for i, name := range names {
		rows := byName[name]
		slices.SortStableFunc(rows, func(a, b historyRow) int {
			return cmp.Or(a.Record.Started.Compare(b.Record.Started), cmp.Compare(a.Dir, b.Dir))
		})
		h.Scenarios = append(h.Scenarios, newScenarioHistory(fmt.Sprintf("s%d", i+1), name, rows, today, now))
	}
	// Scenarios that need attention come first.
	slices.SortStableFunc(h.Scenarios, func(a, b scenarioHistory) int { return cmp.Compare(urgency(b.Last), urgency(a.Last)) })
	h.Problems, h.More = head(h.Problems, htmlWarnings)
	return h
}

func urgency(r historyRow) int {
	return slices.Index([]leak.Result{leak.Met, leak.Undecided, leak.Unmeasured, leak.NotMet}, r.Result())
}

func newScenarioHistory(id, name string, rows []historyRow, today, now time.Time) scenarioHistory {
	s := scenarioHistory{ID: id, Name: name, Last: rows[len(rows)-1], Runs: len(rows)}
	for i := range slices.Backward(rows) {
		if rows[i].Result() == leak.Met {
			s.Green = &rows[i]
			break
		}
	}
	if s.Green != nil && s.Last.Result() != leak.Met {
		s.Changes, s.More = head(whatIsNew(s.Green.view, s.Last.view), historyChanges)
	}
	s.Past = past(rows)
	s.Weeks, s.Days = calendar(rows)
	s.Versions = versionChanges(rows)
	list := nightSeriesOf(rows)
	s.LevelChanges = nightChanges(rows, list)
	s.Board = newBoardRow(&s, rows, list, today, now)
	s.LevelChanges, s.LevelChangesMore = head(s.LevelChanges, boardChanges)
	s.drawCharts(rows, list)
	for _, x := range s.Last.view.Variants {
		s.Columns = append(s.Columns, x.Name)
	}
	for i := range rows {
		rows[i].Growth = leadGrowth(rows[i].view, s.Columns)
		for _, x := range rows[i].view.Variants {
			if load := loadGrowth(&x.Verdict); load != "" {
				rows[i].Load = append(rows[i].Load, x.Name+": "+load)
			}
		}
	}
	s.Rows = slices.Clone(rows)
	slices.Reverse(s.Rows)
	s.Rows, s.RowsMore = head(s.Rows, historyRuns)
	return s
}

// past describes the runs before a green one that were not as expected, "" if there are none.
func past(rows []historyRow) string {
	if rows[len(rows)-1].Result() != leak.Met {
		return ""
	}
	red := slices.DeleteFunc(slices.Clone(rows), func(r historyRow) bool { return r.Result() == leak.Met })
	if len(red) == 0 {
		return ""
	}
	last := red[len(red)-1]
	return fmt.Sprintf("%d of %s not as expected, the last on %s (%s): %s", len(red), count(len(rows), "run"), last.When(), last.Status(), last.Sentence())
}

// Result returns the result of the whole run.
func (r historyRow) Result() leak.Result { return r.view.Result() }

// Look returns the colour and icon of the result.
func (r historyRow) Look() look { return verdictLook(r.view) }

// Status and Sentence are the same as in the report.
func (r historyRow) Status() string   { return r.view.Status() }
func (r historyRow) Sentence() string { return r.view.Sentence() }

// When returns the time at which the run started.
func (r historyRow) When() string {
	if r.Record.Started.IsZero() {
		return "at an unknown time"
	}
	return r.Record.Started.UTC().Format("2006-01-02 15:04")
}

// day returns the date of the run, or "" if unknown.
func (r historyRow) day() string {
	if r.Record.Started.IsZero() {
		return ""
	}
	return r.Record.Started.UTC().Format("2006-01-02")
}

// URL returns the address of the report, relative to the page.
func (r historyRow) URL() string {
	if r.Report == "" {
		return ""
	}
	return (&url.URL{Path: "./" + strings.TrimPrefix(r.Report, "./")}).String()
}

func leadGrowth(v view, variants []string) []string {
	var out []string
	for _, name := range variants {
		growth := "–"
		for _, x := range v.Variants {
			if c := v.Figure(x); x.Name == name && c != nil {
				growth = rate(c.Finding.PerOperation, c.Finding.Unit)
			}
		}
		out = append(out, growth)
	}
	return out
}

// whatIsNew lists what differs in last from green, an earlier run that met its expectation.
func whatIsNew(green, last view) []string {
	var list []string
	if f := last.Record.Failure; f != nil {
		list = append(list, "the run ended early: "+oneLine(f.Message))
	}
	was := func(name string) variant {
		for _, x := range green.Variants {
			if x.Name == name {
				return x
			}
		}
		return variant{Record: &leak.VariantRecord{}}
	}
	for _, x := range last.Variants {
		before := was(x.Name)
		if f := x.Record.Failure; f != nil {
			list = append(list, x.Name+" broke off: "+oneLine(f.Message))
		}
		for _, f := range x.Verdict.Findings {
			i := slices.IndexFunc(before.Verdict.Findings, func(b leak.Finding) bool { return b.Check == f.Check })
			switch {
			case i < 0:
				list = append(list, fmt.Sprintf("%s: the check %s is new: %s. %s", x.Name, f.Check, f.Outcome, f.Summary))
			case before.Verdict.Findings[i].Outcome != f.Outcome:
				list = append(list, fmt.Sprintf("%s: %s was %s and is %s. %s", x.Name, f.Check, before.Verdict.Findings[i].Outcome, f.Outcome, f.Summary))
			}
		}
		for _, l := range []struct {
			unit      string
			old, list []leak.StackGrowth
		}{{stackUnit(false), before.Goroutines(), x.Goroutines()}, {stackUnit(true), before.Heap(), x.Heap()}} {
			known := map[string]bool{}
			for _, g := range l.old {
				known[g.Stack.String()] = true
			}
			fresh := slices.DeleteFunc(l.list, func(g leak.StackGrowth) bool { return known[g.Stack.String()] || flat(g, l.unit) })
			if x.Verdict.Result == leak.Met {
				fresh = nil // heap profiles are sampled, so the visible sites differ from run to run
			}
			fresh, _ = head(fresh, historyStacks)
			for _, g := range fresh {
				list = append(list, fmt.Sprintf("%s: a stack that did not grow before: %s, %s", x.Name, perOperation(g.PerOperation, l.unit), g.Stack))
			}
		}
	}
	for _, c := range versionChanges([]historyRow{{HistoryRun: HistoryRun{Record: green.Record}, view: green}, {HistoryRun: HistoryRun{Record: last.Record}, view: last}}) {
		list = append(list, fmt.Sprintf("%s: %s became %s", c.What, c.From, c.To))
	}
	return list
}

// versionChanges lists the version changes between consecutive runs, of builds and platforms. Of the modules it
// includes only those with a growing stack in any run, because a scenario may have hundreds.
func versionChanges(rows []historyRow) []versionChange {
	var modules []string
	for _, r := range rows {
		modules = append(modules, r.view.stackModules()...)
	}
	modules, _ = head(unique(modules), historyModules)
	var list []versionChange
	last := map[string]string{}
	for i, r := range rows {
		note := func(what, version string) {
			if version == "" {
				return
			}
			if from := last[what]; from != "" && from != version {
				list = append(list, versionChange{len(list) + 1, i, r.When(), what, from, version})
			}
			last[what] = version
		}
		note("leakrig", r.Record.Leakrig)
		if c := r.Record.Cluster; c != nil {
			note("Kubernetes", c.Kubernetes)
		}
		for _, x := range r.view.Variants {
			note(x.Name+", Go", x.Record.Subject.GoVersion)
			for _, m := range modules {
				note(x.Name+", "+m, x.version(m))
			}
		}
	}
	return list
}

// calendar returns the weeks up to the last run, with the worst result of each day.
func calendar(rows []historyRow) (weeks []string, days []calendarRow) {
	byDay := map[string][]historyRow{}
	var first, last time.Time
	for _, r := range rows {
		if day := r.day(); day != "" {
			byDay[day] = append(byDay[day], r)
			at, _ := time.Parse("2006-01-02", day)
			if first.IsZero() {
				first = at
			}
			last = at
		}
	}
	if first.IsZero() {
		return nil, nil
	}
	monday := func(t time.Time) time.Time { return t.AddDate(0, 0, -(int(t.Weekday())+6)%7) }
	start := monday(first)
	if earliest := monday(last).AddDate(0, 0, -7*(historyWeeks-1)); start.Before(earliest) {
		start = earliest
	}
	for at := start; !at.After(last); at = at.AddDate(0, 0, 7) {
		weeks = append(weeks, at.Format("Jan 2"))
	}
	for d := range 7 {
		row := calendarRow{Day: start.AddDate(0, 0, d).Weekday().String()[:3]}
		for w := range weeks {
			row.Cells = append(row.Cells, newCalendarCell(byDay[start.AddDate(0, 0, 7*w+d).Format("2006-01-02")]))
		}
		days = append(days, row)
	}
	return weeks, days
}

func newCalendarCell(rows []historyRow) calendarCell {
	if len(rows) == 0 {
		return calendarCell{}
	}
	worst := slices.MaxFunc(rows, func(a, b historyRow) int { return cmp.Compare(urgency(a), urgency(b)) })
	label := worst.day() + ": " + worst.Status()
	if len(rows) > 1 {
		label += fmt.Sprintf(", the worst of %d runs", len(rows))
	}
	return calendarCell{worst.Look(), label, worst.URL()}
}

// drawCharts draws each number over the runs, with all variants on one scale.
func (s *scenarioHistory) drawCharts(rows []historyRow, list []nightSeries) {
	if len(rows) < 2 {
		return
	}
	var names []string
	for _, one := range list {
		names = append(names, one.Name+one.Check)
	}
	growth := 0
	for _, name := range unique(names) {
		var group []nightSeries
		for _, one := range list {
			if one.Name+one.Check == name {
				group = append(group, one)
			}
		}
		first := group[0]
		over := series{Name: first.Name, Unit: first.Unit, Doc: "median of a typical round, without actions with faults"}
		switch {
		case first.Check != "":
			if growth++; growth > historyCharts {
				continue
			}
			over.Name, over.Rate = strings.TrimPrefix(first.Name, "growth of "), true
			over.Doc = "growth per operation that the check “" + first.Check + "” found"
		case first.Name == nightTime:
			over.Doc = "seconds from the first measurement of a variant to its last"
		}
		for _, one := range group {
			l := line{Variant: one.Variant, Outcome: s.Last.view.variant(one.Variant).Verdict.Outcome}
			for i, run := range one.Runs {
				p := leak.Point{Value: one.Values[i], Operations: run}
				p.Unsettled = slices.ContainsFunc(one.Changes, func(c stats.Change) bool { return c.At == i }) // drawn with a ring
				l.Points = append(l.Points, p)
				if first.Check != "" {
					if _, bounds, ok := growthPoint(rows[run].view, one.Variant, one.Check); ok {
						l.Bounds = bounds
					}
				}
			}
			over.Lines = append(over.Lines, l)
		}
		s.Charts = append(s.Charts, s.overRuns(fmt.Sprintf("%s-c%d", s.ID, len(s.Charts)+1), over, group, rows))
	}
}

// growthPoint returns the finding of a check in a variant of one run. It also returns the bounds that are per
// operation.
func growthPoint(v view, variant, check string) (p leak.Point, bounds []limit, ok bool) {
	for _, x := range v.Variants {
		for _, f := range x.Verdict.Findings {
			if x.Name != variant || f.Check != check || !finite(f.PerOperation) || len(rounds(f.Points)) < 2 {
				continue
			}
			if f.BoundPerOperation && !f.Unbounded {
				bounds = []limit{{Value: f.Bound}}
			}
			return leak.Point{Value: f.PerOperation}, bounds, true
		}
	}
	return p, nil, false
}

// overRuns is a chart with runs on the X axis instead of operations. It has dates as labels, the run at each mark,
// a link from each mark to the report, a ring at each change of the level, and a vertical line at each version change.
func (s *scenarioHistory) overRuns(id string, over series, group []nightSeries, rows []historyRow) chart {
	c := newChart(id, over, historyChart)
	c.XLabel, c.Desc = "runs", describeRuns(over, group, rows)
	at := func(run int) px {
		return c.Left + px(float64(run)/float64(len(rows)-1)*float64(c.LastRound-c.Left))
	}
	for i, l := range slices.Backward(over.Lines) {
		markers := c.Lines[len(over.Lines)-1-i].Markers
		for k := range markers {
			p := l.Points[k]
			markers[k].Tip = l.Variant + ", " + rows[p.Operations].When() + ": " + group[i].text(p.Value)
			markers[k].URL = rows[p.Operations].URL()
			for _, change := range group[i].Changes {
				if change.At == k {
					markers[k].Tip += "\nanother level from here on: " + group[i].change(change)
				}
			}
		}
	}
	c.X = nil
	step := max(1, (len(rows)+5)/6)
	for i := 0; i < len(rows); i += step {
		if day := rows[i].day(); day != "" {
			c.X = append(c.X, tick{at(i), day[5:]})
		}
	}
	for _, v := range s.Versions {
		label := fmt.Sprint(v.Number)
		if n := len(c.Marks); n > 0 && c.Marks[n-1].At == at(v.run) {
			c.Marks[n-1].Label += "," + label
			continue
		}
		c.Marks = append(c.Marks, tick{at(v.run), label})
	}
	return c
}

// describeRuns returns the text alternative of the chart.
func describeRuns(over series, group []nightSeries, rows []historyRow) string {
	var parts []string
	for _, one := range group {
		last := len(one.Runs) - 1
		parts = append(parts, fmt.Sprintf("%s: %s on %s, %s on %s", one.Variant,
			one.text(one.Values[0]), rows[one.Runs[0]].When(), one.text(one.Values[last]), rows[one.Runs[last]].When()))
	}
	what := over.Name
	if over.Rate {
		what = "growth per operation of " + over.Name
	}
	return fmt.Sprintf("%s over %s. %s.", what, count(len(rows), "run"), strings.Join(parts, "; "))
}
