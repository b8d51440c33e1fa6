package reports

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestSoakIsTold checks that a soak's report describes how the soak went. A row of the load states which rounds it
// stands for.
func TestSoakIsTold(t *testing.T) {
	in := fixture()
	if got := soak(newView(in)); got != "" {
		t.Fatalf("a run that is not a soak: %q", got)
	}
	in.Record.Plan.Soak = &leak.SoakSpec{Every: leak.Duration(10 * time.Minute), For: leak.Duration(72 * time.Hour)}
	v := &in.Record.Variants[0]
	v.Soak = &leak.SoakRecord{Rounds: 432, Late: 3, Missed: 1, Resumptions: 2}
	last := v.Final()
	last.Round, last.Merged = 432, 7
	want := "every 10m0s for 72h0m0s; leaky: 432 rounds measured, 7 kept, 3 late, 1 missed, resumed 2 times"
	if got := soak(newView(in)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := f.Render(&b, in); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if f.Name == "html" && (!strings.Contains(b.String(), want) || !strings.Contains(b.String(), "425–432")) {
			t.Error("the page does not mention it")
		}
	}
}
