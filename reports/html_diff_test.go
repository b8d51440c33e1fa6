package reports

import (
	"bytes"
	"fmt"
	stdhtml "html"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func diffFixture() DiffInput {
	d := &leak.Diff{Unit: "goroutines", Source: "dump", From: 12, To: 45, Operations: 20, Same: 3, Stacks: []leak.StackGrowth{
		{Stack: receiveStack(), From: 2, To: 42, PerOperation: 2, OldestMinutes: 7},
		{Stack: acceptStack(), From: 0, To: 1, PerOperation: 0.05},
		{Stack: serveStack(), From: 10, To: 2, PerOperation: -0.4},
	}}
	return DiffInput{Diff: d, Base: "monday.txt", Now: "it's friday.txt", Max: 10}
}

func renderDiff(t testing.TB, in DiffInput) string {
	t.Helper()
	var b bytes.Buffer
	if err := Diff(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDiffPage checks that the page has the flame graph, the numbers of every stack, and its two inputs. None of these
// needs the script.
func TestDiffPage(t *testing.T) {
	got := renderDiff(t, diffFixture())
	checkForm(t, "html", got)
	plain := stdhtml.UnescapeString(got)
	for _, want := range []string{
		"<h1>+33 goroutines</h1>", "12 → 45", "2 stacks, 1 of them new", "1 stack, 0 of them vanished", "10 for one stack: 1 over it", "20 operations",
		`<b class="tone-leaking">+40</b>`, "+2.00", "−8", "created by watch.NewStreamWatcher", "the oldest for 7 minutes", "watch.(*StreamWatcher).receive",
		"total +40, 2 → 42", "+33 goroutines: +41 grew, −8 shrank on 3 stacks.", "IO wait",
		`leakrig diff monday.txt 'it'\''s friday.txt'`, `id="diff-0-2"`,
	} {
		if !strings.Contains(plain, want) {
			t.Errorf("%q is not in it", want)
		}
	}
	if strings.Contains(got, "go tool pprof -") {
		t.Error("pprof does not read dumps")
	}
	heap := diffFixture()
	heap.Diff.Unit, heap.Diff.Source, heap.Max, heap.Diff.Operations = "bytes", "heap", -1, 0
	got = renderDiff(t, heap)
	if !strings.Contains(got, "go tool pprof -top -sample_index=inuse_space -base monday.txt") || strings.Contains(got, "over the bound") || strings.Contains(got, "Per operation") {
		t.Error("of heaps it says something else")
	}
	empty := renderDiff(t, DiffInput{Diff: &leak.Diff{Unit: "goroutines", Source: "dump", From: 3, To: 3, Same: 3}, Max: -1})
	checkForm(t, "html", empty)
	if strings.Count(empty, "No stack changed.") != 2 {
		t.Error("it does not say that nothing changed")
	}
}

// TestDiffPageEscapes checks that names of profiles and files are escaped.
func TestDiffPageEscapes(t *testing.T) {
	for _, evil := range []string{`<script>alert(1)</script>`, `"onload="alert(1)`, `'><img src=x onerror=alert(1)>`, "\x1b[2J", `</title><svg onload=alert(1)>`, "{{.}}"} {
		in := diffFixture()
		in.Base, in.Now = evil, "-"+evil
		s := leak.Stack{State: evil, Frames: []leak.Frame{{Func: evil, File: evil, Line: 3}, {Func: "main." + evil, File: evil + ".go"}}, Creator: &leak.Frame{Func: evil}}
		in.Diff.Stacks = append([]leak.StackGrowth{{ID: evil, Stack: s, From: 1, To: 90, Module: evil}}, in.Diff.Stacks...)
		got := renderDiff(t, in)
		checkForm(t, "html", got)
		if strings.Count(got, "<script") != 1 || strings.Contains(got, "<img") || strings.Contains(got, "<svg onload") || strings.Contains(got, ` onload="`) || strings.Contains(got, "\x1b") {
			t.Errorf("%q is more than text", evil)
		}
	}
}

// TestDiffPageOfMany checks that a page of 10,000 stacks stays small and states what it omits.
func TestDiffPageOfMany(t *testing.T) {
	in := DiffInput{Diff: &leak.Diff{Unit: "goroutines", Source: "profile"}, Base: "a", Now: "b", Max: -1}
	for i := range 10_000 {
		var frames []leak.Frame
		for k := range 12 {
			frames = append(frames, leak.Frame{Func: fmt.Sprintf("example.com/some/module/package%d.(*Type%d).Method%d", i%50, i/(k+1), k), File: "example.com/some/module/file.go", Line: i})
		}
		in.Diff.Stacks = append(in.Diff.Stacks, leak.StackGrowth{Stack: leak.Stack{Frames: frames}, To: int64(20_000 - i)})
		in.Diff.To += int64(20_000 - i)
	}
	got := renderDiff(t, in)
	if len(got) > 2<<20 {
		t.Errorf("%d KiB", len(got)>>10)
	}
	if !strings.Contains(got, "9900 more stacks") {
		t.Error("it does not say how many stacks it leaves out")
	}
}
