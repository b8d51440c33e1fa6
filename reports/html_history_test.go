package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// nights returns n runs of the fixture, one per night. From night leaksFrom on, the current release leaks, because
// its module has a new version.
func nights(n, leaksFrom int) []HistoryRun {
	var runs []HistoryRun
	for i := range n {
		in := fixture()
		for k := range in.Record.Variants {
			in.Record.Variants[k].Snapshots, in.Record.Variants[k].Idle, in.Record.Variants[k].Stacks = nil, nil, nil
		}
		in.Record.Started = in.Record.Started.AddDate(0, 0, i)
		in.Record.Finished = in.Record.Finished.AddDate(0, 0, i)
		for k := range in.Verdict.Variants {
			f := &in.Verdict.Variants[k].Findings[2]
			f.PerOperation *= 1 - 0.01*float64(i%5)
		}
		if i >= leaksFrom {
			leakAgain(&in)
		}
		dir := fmt.Sprintf("runs/watch-then-delete/%s", in.Record.Started.Format("20060102T150405Z"))
		runs = append(runs, HistoryRun{Dir: dir, Report: strings.TrimPrefix(dir, "runs/") + "/report.html", Record: in.Record, Verdict: in.Verdict})
	}
	return runs
}

func leakAgain(in *Input) {
	const k = 2 // the index of the current release
	for m := range in.Record.Variants[k].Subject.Modules {
		if in.Record.Variants[k].Subject.Modules[m].Path == "k8s.io/apimachinery" {
			in.Record.Variants[k].Subject.Modules[m].Version = "v0.38.0"
		}
	}
	vv, leaky := &in.Verdict.Variants[k], in.Verdict.Variants[0]
	vv.Outcome, vv.Result, vv.Growing = leak.Leaking, leak.NotMet, leaky.Growing
	for i := range vv.Findings {
		f := leaky.Findings[i]
		f.Fingerprint = false
		vv.Findings[i] = f
	}
	vv.Reason = "It should be clean, and leaks again."
	in.Verdict.Variants[5].HeapGrowing = append(in.Verdict.Variants[5].HeapGrowing, grown(serveStack(), 0, 5_000_000, "", false))
	in.Verdict.Result, in.Verdict.Sentence = leak.NotMet, "current leaks +1.00 goroutines per operation although it should be clean."
}

func renderHistory(t testing.TB, runs []HistoryRun) string {
	t.Helper()
	var b bytes.Buffer
	if err := History(&b, runs, time.Time{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHistoryGolden(t *testing.T) {
	runs := nights(40, 37)
	runs = append(runs[:20], runs[23:]...) // three nights without a run
	runs = append(runs, HistoryRun{Dir: "runs/x/broken", Problem: "read run.json: unexpected end of JSON input"})
	got := renderHistory(t, runs)
	checkHTML(t, got)
	got = withoutAssets(got)
	path := filepath.Join("testdata", "history.html")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; look at it with go test -update && git diff", path)
	}
}

func TestHistoryTellsWhatIsNew(t *testing.T) {
	h := newHistory(nights(10, 8), time.Time{})
	s := h.Scenarios[0]
	if s.Green == nil || s.Green.day() != "2026-11-27" || s.Last.day() != "2026-11-29" {
		t.Fatalf("green %+v, last %s", s.Green, s.Last.day())
	}
	all := strings.Join(s.Changes, "\n")
	for _, want := range []string{
		"current: receive was clean and is leaking. +1.00 goroutines per operation",
		"current: a stack that did not grow before: +1.00 goroutines per operation, chan send at watch.(*StreamWatcher).receive",
		"current, k8s.io/apimachinery: v0.37.2 became v0.38.0",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("not said: %s\nin\n%s", want, all)
		}
	}
	if strings.Contains(all, "natural:") {
		t.Errorf("stacks of an expected variant are not new:\n%s", all)
	}
	if strings.Contains(all, "leaky:") {
		t.Errorf("leaky leaked before:\n%s", all)
	}
	if len(s.Versions) != 1 || s.Versions[0].run != 8 || s.Versions[0].To != "v0.38.0" {
		t.Errorf("versions %+v", s.Versions)
	}
	if n := len(s.Charts); n == 0 || len(s.Charts[0].Marks) != 1 || len(s.Charts[0].X) == 0 {
		t.Errorf("%d charts: %+v", n, s.Charts)
	}
	if h := newHistory(nights(10, 99), time.Time{}); h.Scenarios[0].Changes != nil {
		t.Errorf("new although nothing is wrong: %v", h.Scenarios[0].Changes)
	}
}

func TestCalendar(t *testing.T) {
	runs := nights(2, 1) // Friday met its expectation, Saturday did not
	late := runs[0]
	record := *late.Record
	record.Started = record.Started.AddDate(0, 0, 200)
	late.Record = &record
	weeks, days := calendar(newHistory(runs, time.Time{}).Scenarios[0].rowsInOrder())
	if len(weeks) != 1 || weeks[0] != "Nov 16" || len(days) != 7 || days[0].Day != "Mon" {
		t.Fatalf("%v %v", weeks, days)
	}
	for i, want := range []string{"", "", "", "", "clean", "leaking", ""} {
		if got := days[i].Cells[0].Tone; got != want {
			t.Errorf("%s: %q, want %q", days[i].Day, got, want)
		}
	}
	if weeks, _ := calendar(newHistory(append(runs, late), time.Time{}).Scenarios[0].rowsInOrder()); len(weeks) != historyWeeks {
		t.Errorf("%d weeks", len(weeks))
	}
}

// rowsInOrder returns the rows of the table, first run first.
func (s scenarioHistory) rowsInOrder() []historyRow {
	var rows []historyRow
	for i := range s.Rows {
		rows = append(rows, s.Rows[len(s.Rows)-1-i])
	}
	return rows
}

// TestHistoryReadsOldRecords reads a record of schema 1 as the first release wrote it, with only the required fields.
// It also reads the record of a run that was interrupted before the first measurement.
func TestHistoryReadsOldRecords(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	for name, data := range map[string]string{
		rundir.RecordFile:  `{"schema":1,"scenario":"old","leakrig":"v0.1.0","started":"2026-01-02T03:04:05Z","machine":{"os":"linux","arch":"amd64","cpus":2,"go":"go1.26"},"plan":{"variants":["leaky"],"warmup":1,"rounds":7},"metrics":{},"variants":[{"name":"leaky","subject":{},"snapshots":[]}]}`,
		rundir.VerdictFile: `{"schema":1,"scenario":"old","result":"as expected","sentence":"leaky leaks.","variants":[{"variant":"leaky","expect":"leaking","outcome":"leaking","result":"as expected","reason":"","findings":[]}]}`,
	} {
		if err := dir.WriteFile(name, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	record, err := dir.ReadRecord()
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := dir.ReadVerdict()
	if err != nil {
		t.Fatal(err)
	}
	page := renderHistory(t, []HistoryRun{{Dir: "a", Record: record, Verdict: verdict}, {Dir: "b", Record: &leak.Record{Scenario: "old"}}, {Dir: "c", Record: &leak.Record{}}})
	checkHTML(t, page)
	for _, want := range []string{"leaky leaks.", "The run was not judged.", "at an unknown time", "unnamed scenario"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// board returns the only scenario of these runs.
func board(t *testing.T, runs []HistoryRun, now time.Time) scenarioHistory {
	t.Helper()
	h := newHistory(runs, now)
	if len(h.Scenarios) != 1 {
		t.Fatalf("%d scenarios", len(h.Scenarios))
	}
	return h.Scenarios[0]
}

// TestBoard checks the row of a scenario: its sentence for every kind of past, its nights, and its age.
func TestBoard(t *testing.T) {
	good := nights(30, 99)
	last := good[29].Record.Started
	for _, c := range []struct {
		name, want string
		runs       []HistoryRun
		change     func(runs []HistoryRun)
	}{
		{"steady", "As expected in all 30 runs. leaky: +0.96 goroutines per operation, unchanged; three runs would show a change of 0.05 goroutines per operation.", good, nil},
		{"new leak", "current leaks +1.00 goroutines per operation although it should be clean. Changed that night: k8s.io/apimachinery: v0.37.2 → v0.38.0.", nights(30, 29), nil},
		{"old leak", "For 3 runs, since 2026-12-17 14:03: current leaks +1.00 goroutines per operation although it should be clean. Changed that night: k8s.io/apimachinery: v0.37.2 → v0.38.0.", nights(30, 27), nil},
		{"first run", "As expected in the only run. leaky: +1.00 goroutines per operation.", nights(1, 99), nil},
	} {
		s := board(t, c.runs, last)
		if got := s.Board.Sentence; got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
	// A leak that doubles on three nights is still told when it is back, and so is a fixed variant that leaked once.
	doubled := nights(30, 99)
	for i := 10; i < 13; i++ {
		for k := range doubled[i].Verdict.Variants[0].Findings {
			doubled[i].Verdict.Variants[0].Findings[k].PerOperation *= 2
		}
	}
	s := board(t, doubled, last)
	if got := s.Board.Sentence; !strings.HasPrefix(got, "As expected. Changed on 2026-12-03 14:03: leaky, growth of ") || !strings.Contains(got, "+1.98 → +0.98 goroutines per operation (−50.5 %)") {
		t.Errorf("doubled: %s", got)
	}
	if n := len(s.LevelChanges); n != 2 || s.LevelChanges[0].run != 13 || s.LevelChanges[1].run != 10 {
		t.Errorf("changes %+v", s.LevelChanges)
	}
	once := nights(30, 20)[:21]
	s = board(t, append(once, nights(30, 99)[21:]...), last)
	if got := s.Board.Sentence; !strings.HasPrefix(got, "As expected. 1 of 30 runs not as expected, the last on 2026-12-10 14:03 ") {
		t.Errorf("once: %s", got)
	}

	s = board(t, append(nights(20, 99), nights(30, 99)[25:]...), last)
	if n := len(s.Board.Nights); n != boardNights || s.Board.Nights[19].Icon != "check" || s.Board.Nights[22].Icon != "" || s.Board.Nights[22].Label != "2026-12-12: no run" || s.Board.Nights[29].URL == "" {
		t.Errorf("%d nights: %+v", n, s.Board.Nights)
	}
	if s.Board.Stale != "" || s.Board.Spark == nil {
		t.Errorf("%+v", s.Board)
	}
	if got := board(t, good, last.AddDate(0, 0, 9)).Board.Stale; got != "stale: last run 9 days ago" {
		t.Errorf("stale: %q", got)
	}
}

// TestLevelChanges checks what the page says about a change: the numbers, what else differs between both nights, and the
// command that finds the cause.
func TestLevelChanges(t *testing.T) {
	runs := nights(30, 27)
	runs[27].Record.Cluster = &leak.ClusterInfo{Provider: "kind", Kubernetes: "v1.36.1"}
	for i := range runs {
		runs[i].Seconds = map[string]float64{"leaky": 40 + float64(i%3)}
		for k := range runs[i].Record.Variants {
			runs[i].Record.Variants[k].Subject.Revision = map[bool]string{true: "0123456789abcdef", false: "fedcba9876543210"}[i < 27]
		}
		if i >= 20 {
			runs[i].Seconds["leaky"] *= 2
		}
	}
	s := board(t, runs, time.Time{})
	var all []string
	for _, c := range s.LevelChanges {
		all = append(all, fmt.Sprintf("%d %s | %s | %s", c.run, strings.Join(c.Lines, "; "), strings.Join(c.Diffs, "; "), fmt.Sprint(c.Commands)))
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"27 current, growth of ", "0 → +1.00 goroutines per operation",
		"revision of the subject: 0123456789ab → fedcba987654", "k8s.io/apimachinery: v0.37.2 → v0.38.0", "Kubernetes: ", " → v1.36.1 kind",
		"leakrig bisect watch-then-delete --variant current --repo . --bad fedcba987654 --good 0123456789ab",
		"20 leaky, run time: 41s → 1m22s (+100.0 %)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not said: %s\nin\n%s", want, text)
		}
	}
	recent := RecentChanges(runs)
	if len(recent) == 0 || recent[0].Scenario != "watch-then-delete" || !strings.HasPrefix(recent[0].Text, "current, growth of ") {
		t.Errorf("%+v", recent)
	}
	for _, c := range recent {
		if strings.Contains(c.Text, "rig") {
			t.Errorf("the change of ten nights ago is recent: %+v", c)
		}
	}
	if got := revision("fedcba9876543210+dirty"); got != "fedcba987654 with local changes" {
		t.Error(got)
	}
	if got := RecentChanges(nights(30, 99)); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestHistoryStaysText(t *testing.T) {
	for _, s := range hostile {
		runs := nights(4, 2)
		for i := range runs {
			poison(reflect.ValueOf(runs[i].Record), s)
			poison(reflect.ValueOf(runs[i].Verdict), s)
			runs[i].Dir, runs[i].Report = s, s+"/report.html"
		}
		checkHTML(t, renderHistory(t, append(runs, HistoryRun{Dir: s, Problem: s})))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var runs []HistoryRun
	one, err := json.Marshal(nights(1, 0)[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		var r HistoryRun
		if err := json.Unmarshal(one, &r); err != nil {
			t.Fatal(err)
		}
		r.Record.Started = r.Record.Started.Add(time.Duration(i) * 24 * time.Hour)
		runs = append(runs, r)
	}
	if page := renderHistory(t, runs); len(page) > 2<<20 {
		t.Errorf("%d bytes for %d runs", len(page), len(runs))
	}
}
