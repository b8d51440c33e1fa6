package reports

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// The strip has the modules that differ, with what came of each version, and no others.
func TestStrip(t *testing.T) {
	v := newView(fixture())
	strip := v.Strip()
	if len(strip) == 0 || strip[0].Path != "k8s.io/apimachinery" || len(strip[0].Versions) != 3 {
		t.Fatalf("%+v", strip)
	}
	for i, want := range []leak.Outcome{leak.Leaking, leak.Clean, leak.Clean} {
		if got := strip[0].Versions[i]; got.Outcome != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	for _, s := range v.strips() {
		if s.Path == "golang.org/x/net" {
			t.Error("a module with one version is in the strip")
		}
	}
}

// A red run leaves words after the next green one.
func TestHistoryTellsThePast(t *testing.T) {
	red, green := fixture(), fixture()
	red.Verdict.Result, red.Verdict.Sentence = leak.NotMet, "fixed leaked that night."
	green.Record.Started = green.Record.Started.AddDate(0, 0, 1)
	var b bytes.Buffer
	if err := History(&b, []HistoryRun{{Dir: "a", Record: red.Record, Verdict: red.Verdict}, {Dir: "b", Record: green.Record, Verdict: green.Verdict}}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if want := "1 of 2 runs not as expected, the last on 2026-11-20 14:03 (not as expected): fixed leaked that night."; !strings.Contains(b.String(), want) {
		t.Error("the page says nothing of the red run")
	}
}
