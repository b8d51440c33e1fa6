package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/reports"
)

// grows is what a random record truly has, counted without the code under test.
type grows struct {
	stacks         int
	total, largest int64
}

func (g grows) share() float64 { return float64(g.largest) / float64(g.total) }

// randomRecord is a run whose stacks grow by random integers per operation. Some shrink or stay.
func randomRecord(r *rand.Rand) (*leak.Scenario, *leak.Record, grows) {
	const rounds, operations = 8, 20
	bound := leak.Quantity(0.01)
	s := &leak.Scenario{Spec: leak.Spec{
		Variants: []leak.Variant{{Name: "now", Expect: leak.ExpectClean}},
		Checks: []leak.Block[leak.Check]{
			{Kind: "growth", Name: "goroutines", Value: &checks.Growth{Probe: "goroutine", MaxPerOp: &bound}},
			{Kind: "stack", Name: "jobs", Value: &checks.Stack{Probe: "goroutine", Match: "jobs", MaxPerOp: &bound}},
		},
	}}
	v := leak.VariantRecord{Name: "now", Stacks: map[string]leak.Stack{}}
	started := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	for i := range rounds + 2 {
		shot := leak.Snapshot{Round: min(i, rounds), Time: started.Add(time.Duration(i) * time.Second), Operations: min(i, rounds) * operations, Settle: leak.SettleResult{Settled: true}}
		if i > 0 && i <= rounds {
			shot.Load = []leak.Tally{{Action: "post", Attempted: operations, Succeeded: operations}}
		}
		shot.Samples = []leak.Sample{{Probe: "goroutine", Values: map[string]float64{}, Groups: map[string][]leak.Group{}}}
		v.Snapshots = append(v.Snapshots, shot)
	}
	n := 1 + r.IntN(60)
	heavy := r.IntN(3) == 0 // one stack with most of it
	var truth grows
	for i := range n {
		stack := leak.Stack{State: "select", Frames: []leak.Frame{{Func: fmt.Sprintf("example.org/jobs.F%d", i), File: "example.org/jobs@v1.0.0/jobs.go", Line: i + 1}}}
		v.Stacks[stack.ID()] = stack
		rate := int64(r.IntN(4))
		if i == 0 {
			rate = 1
			if heavy {
				rate = 500
			}
		}
		base := int64(r.IntN(5))
		gain := rate * rounds * operations
		if gain > 0 {
			truth.stacks++
			truth.total += gain
			truth.largest = max(truth.largest, gain)
		}
		for k := range v.Snapshots {
			sample := &v.Snapshots[k].Samples[0]
			count := base + rate*int64(v.Snapshots[k].Operations)
			sample.Values["count"] += float64(count)
			for _, source := range []string{"dump", "profile"} {
				sample.Groups[source] = append(sample.Groups[source], leak.Group{Stack: stack.ID(), Count: count})
			}
		}
	}
	idle := v.Snapshots[rounds+1]
	v.Idle, v.Snapshots = &idle, v.Snapshots[:rounds+1]
	record := &leak.Record{
		Schema: leak.RecordSchema, Scenario: "random", Started: started, Plan: leak.Plan{Variants: []string{"now"}, Rounds: rounds},
		Metrics:  map[string]leak.Metric{"goroutine.count": {Name: "count", Unit: "goroutines"}},
		Variants: []leak.VariantRecord{v},
	}
	return s, record, truth
}

var (
	textMore  = regexp.MustCompile(`… and (\d+) more stack`)
	textRow   = regexp.MustCompile(`(?m)^ +\+[\d.]+/op  `)
	htmlTotal = regexp.MustCompile(`(\d+) stacks? grew, \+(\d+) in total, exact`)
	htmlMore  = regexp.MustCompile(`… and (\d+) more stacks?</p>`)
	htmlRow   = regexp.MustCompile(`<details class="stack`)
	shareOf   = regexp.MustCompile(`(?:(&lt;|&gt;|<|>) )?(\d+) % of the growth on (\d+) stacks`)
	spreadFor = regexp.MustCompile(`spread over (\d+) stacks`)
)

// TestReportsTellTheTruth compares counts, totals, shares and headlines of all formats with random records.
func TestReportsTellTheTruth(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	spread := 0
	for i := range 60 {
		s, record, truth := randomRecord(r)
		verdict := checks.Judge(s, record)
		if verdict.Variants[0].Outcome != leak.Leaking {
			t.Fatalf("run %d: %s", i, verdict.Sentence)
		}
		out := map[string]string{}
		for _, f := range reports.Formats() {
			var b bytes.Buffer
			if err := f.Render(&b, reports.Input{Scenario: s, Record: record, Verdict: verdict, RunDir: "runs/random/x"}); err != nil {
				t.Fatal(err)
			}
			out[f.Name] = b.String()
		}
		fail := func(format string, args ...any) {
			t.Errorf("run %d, %+v: %s", i, truth, fmt.Sprintf(format, args...))
		}
		// Lists: what is shown and what is not add up.
		listed := len(textRow.FindAllString(out["text"], -1))
		if m := textMore.FindStringSubmatch(out["text"]); m != nil {
			listed += int(number(m[1]))
		}
		if listed != truth.stacks {
			fail("text lists %d stacks", listed)
		}
		listed = len(htmlRow.FindAllString(out["html"], -1))
		if m := htmlMore.FindStringSubmatch(out["html"]); m != nil {
			listed += int(number(m[1]))
		}
		if m := htmlTotal.FindStringSubmatch(out["html"]); m == nil || number(m[1]) != int64(truth.stacks) || number(m[2]) != truth.total || listed != truth.stacks {
			fail("html says %v and lists %d", m, listed)
		}
		// Shares
		for _, format := range []string{"text", "html", "markdown", "json"} {
			text := strings.Join(strings.Fields(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(out[format])), " ")
			m := shareOf.FindStringSubmatch(text)
			if truth.stacks == 1 {
				if m != nil {
					fail("%s says %q of one stack", format, m[0])
				}
				continue
			}
			if m == nil {
				fail("%s has no share", format)
				continue
			}
			off := truth.share()*100 - float64(number(m[2]))
			if number(m[3]) != int64(truth.stacks) || m[1] == "" && (off > 0.51 || off < -0.51) {
				fail("%s says %q, the share is %.3f", format, m[0], truth.share())
			}
			// Headline
			switch m := spreadFor.FindStringSubmatch(text); {
			case truth.share() >= 0.5 && m != nil, truth.share() < 0.5 && (m == nil || number(m[1]) != int64(truth.stacks)):
				fail("%s says %v, the share is %.3f", format, m, truth.share())
			case m != nil:
				spread++
			}
			if truth.share() < 0.5 && strings.Contains(text, "most of it") {
				fail("%s says most of it", format)
			}
		}
		var report reports.Report
		if err := json.Unmarshal([]byte(out["json"]), &report); err != nil {
			t.Fatal(err)
		}
		if all := report.Verdict.Variants[0].SpreadIn("goroutine"); all == nil || all.Stacks != truth.stacks || all.Grew != truth.total || all.Largest != truth.largest {
			fail("json counts %+v", all)
		}
		perOperation := float64(truth.total) / float64(record.Variants[0].Final().Operations)
		if want := fmt.Sprintf("+%.2f goroutines per operation", perOperation); len(report.Answer.Cost) == 0 || !strings.HasPrefix(report.Answer.Cost[0], want) {
			fail("the cost is %v, want %s", report.Answer.Cost, want)
		}
	}
	if spread == 0 {
		t.Error("no record was spread over stacks: the test compares nothing")
	}
}
