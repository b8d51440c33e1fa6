package reports

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestLoadLines checks that text, HTML and history show latency and failures, and the schedule of an open load.
func TestLoadLines(t *testing.T) {
	in := fixture()
	open := &leak.OpenLoad{Rate: 200, Waited: 3, InFlight: 41, LateSeconds: 0.0012}
	v := in.Verdict.Variants[0]
	v.Load = []leak.LoadSummary{
		{Action: "cut", Fault: "cut of backend for 2s", Attempted: 5},
		{Action: "post", Attempted: 400, Failed: 4, P50: 0.002, P99: 0.098, Max: 0.102, Open: open},
	}
	in.Verdict.Variants[0] = v
	in.Record.Variants[0].Snapshots[1].Load[0].Open = open
	text := render(t, "text", in)
	joined := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"fault cut: cut of backend for 2s, 5 injections",
		"load post: 400 operations, 1 % failed, p50 2.0 ms, p99 98 ms, max 102 ms; arrivals at 200 a second, at most 41 unfinished, 3 waited for a place, started at most 1.2 ms late",
	} {
		if !strings.Contains(joined, want) {
			t.Errorf("not in the text: %s\n%s", want, text)
		}
	}
	if html := render(t, "html", in); !strings.Contains(html, "arrivals at 200 a second, at most 41 unfinished") {
		t.Error("not in the page")
	}
	page := renderHistory(t, []HistoryRun{{Dir: "runs/x/1", Record: in.Record, Verdict: in.Verdict}})
	if want := v.Variant + ": p99 98 ms, 1 % failed"; !strings.Contains(page, want) {
		t.Errorf("not in the history: %s", want)
	}
	// A closed load that no check judges adds no line.
	v.Load = []leak.LoadSummary{{Action: "post", Attempted: 400}}
	if lines := (variant{Verdict: v}).LoadLines(); len(lines) != 0 {
		t.Errorf("%q", lines)
	}
}
