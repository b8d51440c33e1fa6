package reports

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestWorkers checks that the page shows how many workers performed the load, and which of them were lost.
func TestWorkers(t *testing.T) {
	in := fixture()
	if strings.Contains(render(t, "html", in), "common start") {
		t.Error("there were no workers, and the page speaks of them")
	}
	in.Record.Variants[0].Snapshots[2].Load[0].Workers = []leak.WorkerTally{
		{Pod: "w-0", Node: "a", First: 1, Operations: 10, Attempted: 10, Succeeded: 10, LateSeconds: 0.0005},
		{Pod: "w-1", Node: "b", First: 11, Operations: 10, Attempted: 4, Succeeded: 4, LateSeconds: 0.002, Lost: "<evicted>"},
	}
	page := render(t, "html", in)
	checkForm(t, "html", page)
	for _, want := range []string{
		"from 2 workers on 2 nodes, of which the last began 2.0 ms after the common start",
		"worker 2 (w-1 on b) lost: &lt;evicted&gt;; of its 10 operations it reported 4",
	} {
		if strings.Count(page, want) != 1 {
			t.Errorf("%q is not in it once", want)
		}
	}
}
