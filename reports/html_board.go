package reports

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/stats"
)

// Limits of the board.
const (
	boardNights  = 30
	boardChanges = 12                 // nights with changes of one scenario
	boardLines   = 6                  // series of one night
	boardDiffs   = 8                  // versions of one night
	staleAfter   = 3 * 24 * time.Hour // a nightly job may miss a weekend
	recentRuns   = 7                  // a change is recent while it is in this number of newest runs
	steadyRuns   = 8                  // fewer runs say nothing about a level
)

// Elapsed returns the seconds that each variant was measured. History keeps them of a record without samples.
func Elapsed(r *leak.Record) map[string]float64 {
	out := map[string]float64{}
	for i := range r.Variants {
		if d := (variant{Record: &r.Variants[i]}).Elapsed(); d > 0 {
			out[r.Variants[i].Name] = d.Seconds()
		}
	}
	return out
}

// nightSeries is one number of a variant over the runs of a scenario.
type nightSeries struct {
	Variant, Name, Unit string
	// Check is the check whose growth per operation it is, "" for latency and time.
	Check string
	// Runs are the indexes of the runs that have a value.
	Runs   []int
	Values []float64
	// Changes are the changes of the level, with indexes into Runs.
	Changes []stats.Change
}

// least returns the least change of growth that matters: what the page would round away, or what no one notices.
func (s *nightSeries) least() float64 {
	if s.Unit == "bytes" {
		return 64
	}
	return 0.02
}

// leastLog is the least change of the logarithm of a latency or a time that matters.
const leastLog = 0.05

// changes finds the changes of the level. It compares logarithms of latencies and times, because their noise is
// proportional and skewed.
func (s *nightSeries) changes() []stats.Change {
	if s.Check != "" {
		return stats.Changes(s.Values, s.least())
	}
	middle := stats.Median(s.Values)
	logs := make([]float64, len(s.Values))
	for i, v := range s.Values {
		logs[i] = math.Log(v / middle)
	}
	list := stats.Changes(logs, leastLog)
	for i := range list {
		list[i].Before, list[i].After = middle*math.Exp(list[i].Before), middle*math.Exp(list[i].After)
	}
	return list
}

// text formats a value: "+1.00 goroutines per operation", "12 ms", "41s".
func (s *nightSeries) text(v float64) string {
	switch {
	case s.Check != "":
		return perOperation(v, s.Unit)
	case s.Name == nightTime:
		return (time.Duration(math.Round(v*10)) * time.Second / 10).String()
	}
	return seconds(v)
}

// Names of the series that are no growth.
const (
	nightLatency = "latency (p50)"
	nightTime    = "run time"
)

// nightSeriesOf returns the numbers of all variants of the last run, those of the most important check first.
func nightSeriesOf(rows []historyRow) []nightSeries {
	var list []nightSeries
	last := rows[len(rows)-1].view
	add := func(s nightSeries, value func(historyRow) (float64, bool)) {
		for i, r := range rows {
			if v, ok := value(r); ok && finite(v) {
				s.Runs, s.Values = append(s.Runs, i), append(s.Values, v)
			}
		}
		if len(s.Runs) > 0 {
			s.Changes = s.changes()
			list = append(list, s)
		}
	}
	for _, row := range last.rankedRows() {
		if row.InAll() || row.Unit == "seconds" {
			continue // sudden growth has no rate, and the latency is a series below
		}
		for _, x := range last.Variants {
			add(nightSeries{Variant: x.Name, Name: "growth of " + row.Title(), Unit: row.Unit, Check: row.Check}, func(r historyRow) (float64, bool) {
				p, _, ok := growthPoint(r.view, x.Name, row.Check)
				return p.Value, ok
			})
		}
	}
	for _, x := range last.Variants {
		add(nightSeries{Variant: x.Name, Name: nightLatency, Unit: "seconds"}, func(r historyRow) (float64, bool) {
			for _, l := range r.view.variant(x.Name).Verdict.Load {
				if l.Fault == "" {
					return l.P50, l.P50 > 0
				}
			}
			return 0, false
		})
	}
	for _, x := range last.Variants {
		add(nightSeries{Variant: x.Name, Name: nightTime, Unit: "seconds"}, func(r historyRow) (float64, bool) {
			v, ok := r.Seconds[x.Name]
			return v, ok && r.view.Result() != leak.Unmeasured
		})
	}
	return list
}

// variant returns the variant of this name, an empty one if there is none.
func (v view) variant(name string) variant {
	for _, x := range v.Variants {
		if x.Name == name {
			return x
		}
	}
	return variant{Name: name, Record: &leak.VariantRecord{}}
}

// nightChange is a run from which on series have another level.
type nightChange struct {
	Number int
	// run is the index of the first run of the new level.
	run       int
	When, URL string
	Lines     []string
	LinesMore int
	// Diffs says what else differs from the run before.
	Diffs     []string
	DiffsMore int
	Commands  []command
	// variants are those that changed, flipped the first whose outcome changed, "" if none.
	variants []string
}

// nightChanges groups the changes of all series by their run, newest first.
func nightChanges(rows []historyRow, list []nightSeries) []nightChange {
	byRun := map[int]*nightChange{}
	var runs []int
	for _, s := range list {
		for _, c := range s.Changes {
			run := s.Runs[c.At]
			n := byRun[run]
			if n == nil {
				n = &nightChange{run: run, When: rows[run].When(), URL: rows[run].URL()}
				byRun[run], runs = n, append(runs, run)
			}
			n.Lines = append(n.Lines, s.Variant+", "+s.Name+": "+s.change(c))
			n.variants = append(n.variants, s.Variant)
		}
	}
	slices.Sort(runs)
	var out []nightChange
	for i, run := range slices.Backward(runs) {
		n := byRun[run]
		n.Number = i + 1
		n.variants = unique(n.variants)
		n.Lines, n.LinesMore = head(n.Lines, boardLines)
		n.Diffs, n.DiffsMore = head(runDiffs(rows[run-1], rows[run], n.variants), boardDiffs)
		n.Commands = changeCommands(rows[run-1].view, rows[run].view)
		out = append(out, *n)
	}
	return out
}

// change formats a change: "+36.2 KiB → +40.1 KiB per operation (+10.8 %)".
func (s *nightSeries) change(c stats.Change) string {
	before := s.text(c.Before)
	if s.Check != "" {
		before = rate(c.Before, s.Unit)
	}
	text := before + " → " + s.text(c.After)
	if c.Before != 0 && math.Signbit(c.Before) == math.Signbit(c.After) {
		if percent := 100 * (c.After - c.Before) / math.Abs(c.Before); math.Abs(percent) < 1000 {
			text += " (" + strings.Replace(fmt.Sprintf("%+.1f %%", percent), "-", "−", 1) + ")"
		}
	}
	return text
}

// runDiffs lists what differs between two runs: leakrig, Kubernetes, machine, and of these variants program, revision,
// Go and modules.
func runDiffs(before, after historyRow, variants []string) []string {
	var list []string
	note := func(what, from, to string) {
		if from != to {
			list = append(list, fmt.Sprintf("%s: %s → %s", what, cmp.Or(from, "none"), cmp.Or(to, "none")))
		}
	}
	for _, name := range variants {
		a, b := before.view.variant(name), after.view.variant(name)
		label := func(what string) string {
			if len(variants) > 1 {
				return name + ", " + what
			}
			return what
		}
		note(label("revision of the subject"), revision(a.Record.Subject.Revision), revision(b.Record.Subject.Revision))
		for _, d := range after.view.differing(b, a, "") {
			note(label(d.Path), d.Clean, d.Leaky) // d has the versions of b and a
		}
		note(label("Go"), a.Record.Subject.GoVersion, b.Record.Subject.GoVersion)
	}
	kubernetes := func(r historyRow) string {
		if c := r.Record.Cluster; c != nil {
			return strings.TrimSpace(c.Kubernetes + " " + c.Provider)
		}
		return ""
	}
	note("Kubernetes", kubernetes(before), kubernetes(after))
	note("leakrig", before.Record.Leakrig, after.Record.Leakrig)
	machine := func(r historyRow) string {
		m := r.Record.Machine
		return strings.TrimSpace(fmt.Sprintf("%s, %s, kernel %s", count(m.CPUs, "CPU"), value(float64(m.MemoryBytes), "bytes"), m.Kernel))
	}
	note("machine", machine(before), machine(after))
	note("parameters", parameters(before.Record.Parameters), parameters(after.Record.Parameters))
	return unique(list)
}

// revision shortens a commit.
func revision(s string) string {
	commit, rest, _ := strings.Cut(s, "+")
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if rest != "" {
		commit += " with local changes"
	}
	return commit
}

// changeCommands returns the commands that search for the cause of a change. A bisection needs a variant that leaks in one of
// two consecutive runs and is clean in the other.
func changeCommands(before, after view) []command {
	for _, b := range after.Variants {
		a := before.variant(b.Name)
		var t *twin
		switch {
		case a.Verdict.Outcome == leak.Clean && b.Verdict.Outcome == leak.Leaking:
			t = &twin{clean: a, leaky: b, Modules: after.differing(b, a, "")}
		case a.Verdict.Outcome == leak.Leaking && b.Verdict.Outcome == leak.Clean:
			t = &twin{clean: b, leaky: a, Modules: after.differing(a, b, "")}
		default:
			continue
		}
		if old, now := a.Record.Subject.Revision, b.Record.Subject.Revision; old != "" && now != "" && old != now && !strings.Contains(old+now, "+") {
			good, bad := t.clean.Record.Subject.Revision, t.leaky.Record.Subject.Revision
			return []command{{"Find the commit, in the repository of the subject", "leakrig bisect " + ShellWord(scenarioArg(after)) + " --variant " + ShellWord(b.Name) + " --repo . --bad " + ShellWord(revision(bad)) + " --good " + ShellWord(revision(good))}}
		}
		if c := bisection(scenarioArg(after), t); c != "" {
			return []command{{"Find the version", c}}
		}
	}
	// The size of a leak changed. A run with the previous version shows whether that is the cause.
	for _, b := range after.Variants {
		for _, d := range after.differing(b, before.variant(b.Name), "") {
			if release.MatchString(d.Leaky) && release.MatchString(d.Clean) {
				return []command{{"Measure with the previous version", "leakrig run " + ShellWord(scenarioArg(after)) + " --variant " + ShellWord(b.Name) + " --with " + ShellWord(d.Path+"@"+d.Clean)}}
			}
		}
	}
	return nil
}

// scenarioArg is the scenario as the run was given it.
func scenarioArg(v view) string {
	if len(v.Record.Args) > 1 && v.Record.Args[0] == "run" && !strings.HasPrefix(v.Record.Args[1], "-") {
		return v.Record.Args[1]
	}
	return v.Name()
}

// boardRow is one scenario on the board.
type boardRow struct {
	// Sentence sums up the nights. Stale says how old the last run is, "" if it is recent.
	Sentence, Stale string
	Nights          []calendarCell
	Spark           *spark
}

// spark is the most important number of a scenario over its last runs.
type spark struct {
	Title, Name, Path, Tone string
	X, Y                    px
}

// sparkWidth and sparkHeight are in units.
const sparkWidth, sparkHeight = 150, 34

func newBoardRow(s *scenarioHistory, rows []historyRow, list []nightSeries, today, now time.Time) boardRow {
	last := rows[len(rows)-1]
	b := boardRow{Sentence: boardSentence(s, rows, list)}
	if age := now.Sub(last.Record.Started); !now.IsZero() && !last.Record.Started.IsZero() && age > staleAfter {
		b.Stale = fmt.Sprintf("stale: last run %d days ago", int(age.Hours()/24))
	}
	byDay := map[string][]historyRow{}
	for _, r := range rows {
		byDay[r.day()] = append(byDay[r.day()], r)
	}
	if !today.IsZero() {
		for i := range boardNights {
			day := today.AddDate(0, 0, i-boardNights+1).Format("2006-01-02")
			cell := newCalendarCell(byDay[day])
			if cell.Label == "" {
				cell.Label = day + ": no run"
			}
			b.Nights = append(b.Nights, cell)
		}
	}
	if len(list) > 0 {
		b.Spark = newSpark(leadSeries(last.view, list), last.view)
	}
	return b
}

// leadSeries is the series that the last report shows largest, for a variant that is not as expected, or for the most
// important one.
func leadSeries(v view, list []nightSeries) nightSeries {
	x, _ := v.lead()
	for _, other := range slices.Backward(v.Variants) {
		if other.Verdict.Result == leak.NotMet {
			x = other
		}
	}
	if c := v.Figure(x); c != nil {
		for _, s := range list {
			if s.Variant == x.Name && s.Check == c.Finding.Check {
				return s
			}
		}
	}
	return list[0]
}

func newSpark(s nightSeries, v view) *spark {
	skip := max(len(s.Values)-boardNights, 0)
	values := s.Values[skip:]
	if len(values) < 2 {
		return nil
	}
	low, high := min(slices.Min(values), 0), max(slices.Max(values), 0)
	if high == low {
		high = low + 1
	}
	out := &spark{Name: s.Variant + ", " + strings.TrimPrefix(s.Name, "growth of "), Tone: v.variant(s.Variant).Verdict.Outcome.String()}
	out.Title = fmt.Sprintf("%s, %s in the last %s: %s at first, now %s", s.Variant, s.Name, count(len(values), "run"), s.text(values[0]), s.text(values[len(values)-1]))
	var b strings.Builder
	for i, y := range values {
		out.X = px(3 + float64(i)/float64(len(values)-1)*(sparkWidth-6))
		out.Y = px(sparkHeight - 4 - (y-low)/(high-low)*(sparkHeight-8))
		fmt.Fprintf(&b, "%s%s %s", map[bool]string{true: "M", false: "L"}[i == 0], out.X, out.Y)
	}
	out.Path = b.String()
	return out
}

// boardSentence says in one sentence what a reader has to know about a scenario.
func boardSentence(s *scenarioHistory, rows []historyRow, list []nightSeries) string {
	last := rows[len(rows)-1]
	if last.Result() != leak.Met {
		first := len(rows) - 1
		for first > 0 && rows[first-1].Result() != leak.Met {
			first--
		}
		text := fmt.Sprintf("For %s, since %s: %s", count(len(rows)-first, "run"), rows[first].When(), last.Sentence())
		if first == len(rows)-1 {
			text = last.Sentence()
		}
		if first > 0 {
			var names []string
			for _, x := range last.view.Variants {
				if x.Verdict.Result != leak.Met {
					names = append(names, x.Name)
				}
			}
			if diffs := runDiffs(rows[first-1], rows[first], names); len(diffs) > 0 {
				text += " Changed that night: " + diffs[0]
				if more := len(diffs) - 1; more > 0 {
					text += ", " + and(more, "difference")
				}
				text += "."
			}
		}
		return text
	}
	if len(s.LevelChanges) > 0 && len(rows)-s.LevelChanges[0].run <= boardNights {
		c := s.LevelChanges[0]
		text := "As expected. Changed on " + c.When + ": " + c.Lines[0]
		if more := len(c.Lines) - 1 + c.LinesMore; more > 0 {
			text += ", and " + count(more, "other number")
		}
		return text + "."
	}
	if s.Past != "" {
		return "As expected. " + s.Past
	}
	text := "As expected in " + allRuns(len(rows)) + "."
	if len(list) > 0 {
		lead := leadSeries(last.view, list)
		n := len(lead.Values)
		text += fmt.Sprintf(" %s: %s", lead.Variant, lead.text(lead.Values[n-1]))
		if floor := stats.Detectable(lead.Values, lead.least()); n >= steadyRuns {
			text += ", unchanged; three runs would show a change of " + strings.TrimPrefix(lead.text(floor), "+")
		}
		text += "."
	}
	return text
}

// allRuns is "the only run" or "all 30 runs".
func allRuns(n int) string {
	if n == 1 {
		return "the only run"
	}
	return fmt.Sprintf("all %d runs", n)
}

// RecentChange is a change of a level in one of the newest runs of a scenario.
type RecentChange struct{ Scenario, When, Text, Report string }

// RecentChanges returns the changes of levels in the newest runs of every scenario, for jobs that fail on them.
func RecentChanges(runs []HistoryRun) []RecentChange {
	var out []RecentChange
	for _, s := range newHistory(runs, time.Time{}).Scenarios {
		for _, c := range s.LevelChanges {
			if s.Runs-c.run > recentRuns {
				continue
			}
			for _, line := range c.Lines {
				out = append(out, RecentChange{s.Name, c.When, display.OneLine(line, 300), path.Clean(c.URL)})
			}
		}
	}
	return out
}
