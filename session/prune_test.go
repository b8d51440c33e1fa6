package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
)

func TestPruneRule(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	// Runs are written "age:result"; results are met, not (met), undecided, failed, none (no verdict).
	for _, c := range []struct {
		name, runs, old string
		rule            PruneRule
	}{
		{"nothing", "", "", PruneRule{1, 1}},
		{"recent ones stay, in any number", "1:met 2:met 3:met", "", PruneRule{3, 1}},
		{"this number stays at any age", "100:met 200:met 300:met", "", PruneRule{1, 3}},
		{"old ones beyond that go, in any order", "300:met 100:met 200:met", "200:met 300:met", PruneRule{1, 1}},
		{"the newest of each result stays", "10:met 20:not 30:undecided 40:failed 50:met 60:not 70:undecided 80:failed", "50:met 60:not 70:undecided 80:failed", PruneRule{1, 1}},
		{"no verdict is could not measure", "10:failed 20:none 30:none", "20:none 30:none", PruneRule{1, 1}},
		{"the last good one long ago", "1:not 2:not 40:not 300:met 400:met", "40:not 400:met", PruneRule{30, 2}},
	} {
		var runs []reports.HistoryRun
		for word := range strings.FieldsSeq(c.runs) {
			days, result := 0, ""
			if _, err := fmt.Sscanf(strings.Replace(word, ":", " ", 1), "%d %s", &days, &result); err != nil {
				t.Fatal(err)
			}
			r := reports.HistoryRun{Dir: word, Record: &leak.Record{Scenario: "s", Started: now.Add(-time.Duration(days) * 24 * time.Hour)}}
			switch result {
			case "met":
				r.Verdict = &leak.Verdict{Result: leak.Met}
			case "not":
				r.Verdict = &leak.Verdict{Result: leak.NotMet}
			case "undecided":
				r.Verdict = &leak.Verdict{}
			case "failed":
				r.Verdict, r.Record.Failure = &leak.Verdict{Result: leak.Met}, &leak.Failure{}
			}
			runs = append(runs, r)
		}
		before := slices.Clone(runs)
		var old []string
		for _, r := range c.rule.old(runs, now) {
			old = append(old, r.Dir)
		}
		if got := strings.Join(old, " "); got != c.old {
			t.Errorf("%s: %q go, want %q", c.name, got, c.old)
		}
		if !slices.EqualFunc(runs, before, func(a, b reports.HistoryRun) bool { return a.Dir == b.Dir && a.Record == b.Record }) {
			t.Errorf("%s: the list was changed", c.name)
		}
	}
	// A soak that began long ago and had a round an hour ago may still go on.
	soak := &leak.Record{Scenario: "s", Started: now.AddDate(0, 0, -9), Variants: []leak.VariantRecord{{Soak: &leak.SoakRecord{Time: now.Add(-time.Hour)}}}}
	later := &leak.Record{Scenario: "s", Started: now.AddDate(0, 0, -8)}
	if old := (PruneRule{1, 1}).old([]reports.HistoryRun{{Dir: "soak", Record: soak}, {Dir: "later", Record: later}}, now); len(old) != 0 {
		t.Errorf("%v go", old)
	}
	soak.Variants[0].Soak.Time = now.Add(-25 * time.Hour)
	if old := (PruneRule{1, 1}).old([]reports.HistoryRun{{Dir: "soak", Record: soak}, {Dir: "later", Record: later}}, now); len(old) != 1 {
		t.Errorf("%v go, and not the soak that has ended", old)
	}
	// Scenarios do not count for each other.
	two := []reports.HistoryRun{
		{Record: &leak.Record{Scenario: "a", Started: now.AddDate(-1, 0, 0)}}, {Record: &leak.Record{Scenario: "b", Started: now.AddDate(-2, 0, 0)}},
	}
	if old := (PruneRule{1, 1}).old(two, now); len(old) != 0 {
		t.Errorf("%v go", old)
	}
}
