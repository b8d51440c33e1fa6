package reports

import (
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestUnexplained checks that growth without a sampled stack is reported for the program and for components whose
// heap grew.
func TestUnexplained(t *testing.T) {
	in := fixture()
	const program, kubelet = "only +1.0 KiB of +2.00 MiB are on stacks of the sampled profile", "only <b>2</b> of 3 are on stacks"
	const exact, sampled = "+2.00 MiB exact = +1.0 KiB on sampled stacks (± 0 B)", "+3 B exact = +2 B on sampled stacks (± 0 B) + 1 B unexplained"
	for i := range in.Verdict.Variants {
		vv := &in.Verdict.Variants[i]
		vv.HeapExplained = &leak.HeapExplained{Grew: 2 << 20, Explained: 1 << 10, Unexplained: program}
		vv.ComponentHeaps = []leak.HeapExplained{{Probe: "kubelet/heap", Grew: 3, Explained: 2, Unexplained: kubelet}, {Probe: "shim/heap"}}
	}
	// leaky and natural leak. The checks found the heap of the other variants clean, and judged no kubelet's heap.
	for format, want := range map[string][]string{
		"text":     {" heap: " + exact + " + 2.00 MiB unexplained; " + program, " heap: kubelet: " + sampled + "; " + kubelet},
		"html":     {"<li>Heap: " + exact, "<li>Heap: kubelet: " + sampled + "; only &lt;b&gt;2&lt;/b&gt;"},
		"markdown": {"Heap: " + exact, "Heap: kubelet: " + sampled + "; only &lt;b&gt;"},
	} {
		got := render(t, format, in)
		checkForm(t, format, got)
		got = strings.Join(strings.Fields(got), " ") // text is wrapped
		for _, w := range want {
			if n := strings.Count(got, w); n != 2 {
				t.Errorf("%s: %q is in it %d times", format, w, n)
			}
		}
	}
	// A check that finds the kubelet's heap clean removes its line.
	x := newView(in).Variants[0]
	x.Verdict.Findings = append(x.Verdict.Findings, leak.Finding{Series: "kubelet/heap.alloc", Outcome: leak.Clean})
	if got := x.Reconciled(); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
