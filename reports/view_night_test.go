package reports

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func night() Night {
	return Night{
		Command: []string{"run", "--all"}, Started: time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC), ExitCode: 3,
		Runs: []NightRun{
			{Scenario: "fine", Took: 62 * time.Second, Dir: "runs/fine/1", Why: "All is well.", Summary: "## fine"},
			{Scenario: "leaks", ExitCode: 1, Took: time.Second, Dir: "runs/leaks/1", Why: "It leaks.", Summary: "## leaks\n"},
			{Scenario: "no-engine", ExitCode: 3, Why: "no container engine | <answers>\x1b[31m"},
			{Scenario: "left", Left: "--skip names it"},
		},
	}
}

func TestNight(t *testing.T) {
	var text, page bytes.Buffer
	if err := NightText(&text, night()); err != nil {
		t.Fatal(err)
	}
	if err := NightMarkdown(&page, night()); err != nil {
		t.Fatal(err)
	}
	const wantText = `
leakrig: 1 of 3 scenarios as expected, 1 not run
scenario   verdict           exit  time  run directory
fine       as expected       0     1m2s  runs/fine/1
leaks      not as expected   1     1s    runs/leaks/1
no-engine  could not measure  3     0s
left       not run           –     –
`
	for i, line := range strings.Split(strings.TrimSuffix(wantText, "\n"), "\n") { // blanks only align the table
		if got := strings.Split(text.String(), "\n")[i]; strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(line), " ") {
			t.Errorf("line %d is %q, want %q", i, got, line)
		}
	}
	for _, want := range []string{"  leaks: It leaks.\n", "  no-engine: no container engine | <answers>", "  left: --skip names it\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	for _, want := range []string{
		"# leakrig: 1 of 3 scenarios as expected, 1 not run\n", "Started 2026-11-20 02:00 UTC with `leakrig run --all`; exit code 3, could not measure.",
		"| leaks | not as expected | 1 | 1s | runs/leaks/1 |", "| left | not run | – | – |  |", "\n## leaks\n",
		"**left** was not run: --skip names it", "**no-engine**: no container engine &#124; &lt;answers&gt;",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in\n%s", want, page.String())
		}
	}
	for _, s := range []string{text.String(), page.String()} {
		if strings.Contains(s, "\x1b") || strings.Contains(s, "## fine") || strings.Contains(s, "All is well") {
			t.Errorf("it shows what it should not:\n%s", s)
		}
	}
}

// TestNightIsBounded checks that the page fits into an issue for any number of failures, and that it lists every
// scenario.
func TestNightIsBounded(t *testing.T) {
	n := Night{}
	for range 40 {
		n.Runs = append(n.Runs, NightRun{Scenario: "s", ExitCode: 1, Dir: "runs/s/1", Why: "It leaks.", Summary: strings.Repeat("x", nightSummary)})
	}
	n.Runs[0].Summary += "x"
	var page bytes.Buffer
	if err := NightMarkdown(&page, n); err != nil {
		t.Fatal(err)
	}
	if page.Len() > 65_536 || strings.Count(page.String(), "its summary is too long") != 40-4 {
		t.Errorf("%d bytes, %d summaries omitted", page.Len(), strings.Count(page.String(), "its summary is too long"))
	}
}
