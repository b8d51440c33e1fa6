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
	if err := History(&b, runs); err != nil {
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
	h := newHistory(nights(10, 8))
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
	if h := newHistory(nights(10, 99)); h.Scenarios[0].Changes != nil {
		t.Errorf("new although nothing is wrong: %v", h.Scenarios[0].Changes)
	}
}

func TestCalendar(t *testing.T) {
	runs := nights(2, 1) // Friday met its expectation, Saturday did not
	late := runs[0]
	record := *late.Record
	record.Started = record.Started.AddDate(0, 0, 200)
	late.Record = &record
	weeks, days := calendar(newHistory(runs).Scenarios[0].rowsInOrder())
	if len(weeks) != 1 || weeks[0] != "Nov 16" || len(days) != 7 || days[0].Day != "Mon" {
		t.Fatalf("%v %v", weeks, days)
	}
	for i, want := range []string{"", "", "", "", "clean", "leaking", ""} {
		if got := days[i].Cells[0].Tone; got != want {
			t.Errorf("%s: %q, want %q", days[i].Day, got, want)
		}
	}
	if weeks, _ := calendar(newHistory(append(runs, late)).Scenarios[0].rowsInOrder()); len(weeks) != historyWeeks {
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
