package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// calls returns a stack from a list of functions, outermost first: "main work recv".
func calls(names string) leak.Stack {
	var s leak.Stack
	for _, name := range strings.Fields(names) {
		s.Frames = append([]leak.Frame{{Func: "example.com/p." + name, File: "p.go", Line: 1}}, s.Frames...)
	}
	return s
}

func changed(names string, from, to int64) stackChange { return stackChange{calls(names), from, to} }

// tones are short names of the colours.
var tones = map[string]string{
	flameGrew[0]: "g1", flameGrew[1]: "g2", flameGrew[2]: "g3", flameGrew[3]: "g4",
	flameShrank[0]: "s1", flameShrank[1]: "s2", flameShrank[2]: "s3", flameShrank[3]: "s4", flameNeutral: "n",
}

// TestFlameColoursInTheDark checks that the style sheet replaces each colour in dark mode.
func TestFlameColoursInTheDark(t *testing.T) {
	for fill := range tones {
		if !strings.Contains(styleSource, `[fill="`+fill+`"] { fill: #`) {
			t.Errorf("none for %s", fill)
		}
	}
}

// boxes lists the frames of a graph as "depth name total own x+width".
func boxes(f flame) []string {
	var out []string
	for _, b := range f.Frames {
		name, rest, _ := strings.Cut(b.Tip, "\n")
		name = strings.TrimPrefix(name, "example.com/p.")
		out = append(out, fmt.Sprintf("%d %s | %s | %s+%s %s", b.Y/flameRow, name, strings.ReplaceAll(rest, "\n", ", "), b.X, b.W, tones[b.Fill]))
	}
	return out
}

func TestFlame(t *testing.T) {
	list := []stackChange{
		changed("main work send", 2, 62),
		changed("main work recv", 10, 0),
		changed("main idle", 7, 7),
		changed("main", 0, 10),
		changed("gc", 0, 20),
	}
	got := boxes(newFlame("", flameGraph{Unit: "goroutines", List: list}, map[string]bool{"example.com/p.send": true}, 100))
	want := []string{
		"0 all stacks | total +80, 19 → 99, 100.0 % of all change, own 0 | 0%+100% g4",
		"1 main | total +60, 19 → 79, 80.0 % of all change, own +10 | 0%+80% g4",
		"2 work | total +50, 12 → 62, 70.0 % of all change, own 0 | 0%+70% g3",
		"3 send | the fingerprint stands here, total +60, 2 → 62, 60.0 % of all change, own +60 | 0%+60% g4",
		"3 recv | total −10, vanished, 10.0 % of all change, own −10 | 60%+10% s2",
		"1 gc | total +20, new, 20.0 % of all change, own +20 | 80%+20% g2",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	const summary = "+80 goroutines: +90 grew, −10 shrank on 4 stacks. 1 stack with 7 goroutines did not move and have no width."
	if s := flameSummary(list, "goroutines"); s != summary {
		t.Errorf("got %s", s)
	}
}

// TestFlameCancels checks a frame below which one stack grows and another shrinks by the same amount. It is as wide
// as both together, and grey.
func TestFlameCancels(t *testing.T) {
	got := boxes(newFlame("", flameGraph{Unit: "objects", List: []stackChange{changed("main a", 50, 0), changed("main b", 0, 50)}}, nil, 100))
	if len(got) != 4 || !strings.HasSuffix(got[1], "0%+100% n") || !strings.HasSuffix(got[2], "0%+50% s3") || !strings.HasSuffix(got[3], "50%+50% g3") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestFlameOfNothing(t *testing.T) {
	for _, list := range [][]stackChange{nil, {changed("main", 5, 5)}, {{From: 1, To: 1}}} {
		if f := newFlame("", flameGraph{Unit: "bytes", List: list}, nil, 100); len(f.Frames) > 0 || f.Summary == "" {
			t.Errorf("%+v", f)
		}
	}
}

// TestFunctions checks that a recursive function counts once, as in go tool pprof.
func TestFunctions(t *testing.T) {
	got := functions([]stackChange{changed("main f f f", 0, 5), changed("main g f", 1, 3), changed("main still", 4, 4)})
	want := []functionChange{{"example.com/p.f", 7, 7}, {"example.com/p.main", 0, 7}, {"example.com/p.g", 0, 2}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFlameLead checks that the leaking metric is shown first.
func TestFlameLead(t *testing.T) {
	in := fixture()
	for i := range in.Verdict.Variants[0].Findings {
		f := &in.Verdict.Variants[0].Findings[i]
		f.Fingerprint = f.Check == "heap-growth"
	}
	v := newView(in)
	for i, want := range []string{"Heap bytes", "Goroutines"} { // leaky leaks heap, fixed does not leak
		for _, m := range newFlameSet(v.Variants[i].flameSubject(), "", 100).Metrics {
			if m.Lead != (m.Name == want) {
				t.Errorf("%s: %s leads: %t", v.Variants[i].Name, m.Name, m.Lead)
			}
		}
	}
	out := render(t, "svg", in)
	if heap, goroutines := strings.Index(out, ">Heap bytes<"), strings.Index(out, ">Goroutines<"); heap < 0 || heap > goroutines {
		t.Errorf("heap at %d, goroutines at %d", heap, goroutines)
	}
	in.Verdict.Variants[0].Findings[0].Fingerprint, in.Verdict.Variants[0].Findings[1].Fingerprint = true, false
	if lead := newView(in).Variants[0].leadProbe(); lead != "goroutine" {
		t.Errorf("got %s", lead)
	}
}

// TestFlamePrunes checks every amount of pruning. Each box is as wide as its children, and no box sticks out. Boxes
// and stated omissions add up to the total change.
func TestFlamePrunes(t *testing.T) {
	var list []stackChange
	for i := range 2_000 {
		list = append(list, changed(fmt.Sprintf("main handle%d work%d %s leaf%d", i%7, i%97, strings.Repeat("deep ", i%90), i), int64(i%5), int64(i%5+1+i%11*i%13)))
	}
	for _, most := range []int{1, 10, 138, 5000} {
		f := newFlame("", flameGraph{Unit: "goroutines", List: list}, nil, most)
		if len(f.Frames) > 2*most {
			t.Errorf("%d frames, at most %d wanted", len(f.Frames), most)
		}
		checkBoxes(t, f)
	}
}

func checkBoxes(t *testing.T, f flame) {
	t.Helper()
	type box struct{ left, right float64 }
	var above []box // the boxes that enclose the next box
	for _, b := range f.Frames {
		depth := b.Y / flameRow
		left, width := percentage(t, b.X), percentage(t, b.W)
		if depth > flameDepth {
			t.Fatalf("depth %d", depth)
		}
		if depth > 0 && (left < above[depth-1].left-0.01 || left+width > above[depth-1].right+0.01) {
			t.Fatalf("%s at %v+%v sticks out of %v", b.Tip, left, width, above[depth-1])
		}
		if depth < len(above) && left < above[depth].right-0.01 {
			t.Fatalf("%s at %v overlaps %v", b.Tip, left, above[depth])
		}
		above = above[:depth]
		for range (b.H + 1) / flameRow {
			above = append(above, box{left, left + width})
		}
		if len(above) == depth {
			t.Fatalf("%s is %d high", b.Tip, b.H)
		}
	}
}

// TestFlameOfForeignNumbers checks that invalid numbers in a record produce no graph and no panic.
func TestFlameOfForeignNumbers(t *testing.T) {
	in := fixture()
	for _, n := range []int64{math.MaxInt64, math.MinInt64, -1} {
		last := &in.Record.Variants[0].Snapshots[fixtureRounds]
		for _, groups := range [][]leak.Group{last.Samples[0].Groups["profile"], last.Samples[1].Groups["heap"]} {
			for i := range groups {
				groups[i].Count, groups[i].Bytes = n, n
			}
		}
		for _, m := range newFlameSet(newView(in).Variants[0].flameSubject(), "", 100).Metrics {
			for _, v := range m.Views {
				checkBoxes(t, v.flame)
			}
		}
	}
}

func percentage(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || math.IsNaN(v) {
		t.Fatal(s, err)
	}
	return v
}

// manyStacks gives a variant 10,000 stacks in every profile of its last snapshot.
func manyStacks(vr *leak.VariantRecord) {
	if len(vr.Snapshots) == 0 {
		return
	}
	last := &vr.Snapshots[len(vr.Snapshots)-1]
	for i := range 10_000 {
		s := calls(fmt.Sprintf("main serve%d %s work%d leaf%d", i%50, strings.Repeat("middle ", 20), i%1000, i))
		vr.Stacks[s.ID()] = s
		g := leak.Group{Stack: s.ID(), Count: int64(1 + i%100), Bytes: int64(1000 + i)}
		last.Samples[0].Groups["profile"] = append(last.Samples[0].Groups["profile"], g)
		last.Samples[1].Groups["heap"] = append(last.Samples[1].Groups["heap"], g)
	}
}

// TestFlameChains checks that frames which only call the next one are merged into one box, with a row per name and
// the numbers once. A frame with its own numbers, or a mark, stays separate.
func TestFlameChains(t *testing.T) {
	list := []stackChange{changed("main serve handle work send", 0, 40), changed("main serve handle idle", 5, 15)}
	f := newFlame("", flameGraph{Unit: "goroutines", List: list}, nil, 100)
	got := boxes(f)
	want := []string{
		"0 all stacks | total +50, 5 → 55, 100.0 % of all change, own 0 | 0%+100% g4",
		"1 main | example.com/p.serve, example.com/p.handle, total +50, 5 → 55, 100.0 % of all change, own 0 | 0%+100% g4",
		"4 work | example.com/p.send, total +40, new, 80.0 % of all change, own +40, of the last | 0%+80% g4",
		"4 idle | total +10, 5 → 15, 20.0 % of all change, own +10 | 80%+20% g2",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var labels []string
	for _, l := range f.Frames[1].Labels {
		labels = append(labels, fmt.Sprint(l.Y, " ", l.Text))
	}
	if fmt.Sprint(labels) != "[13 p.main 32 p.serve 51 p.handle]" || f.Frames[1].H != 56 || f.Height != 6*flameRow {
		t.Errorf("labels %q, %d high of %d", labels, f.Frames[1].H, f.Height)
	}
	checkBoxes(t, f)
	// The fingerprint is in a separate box.
	f = newFlame("", flameGraph{Unit: "goroutines", List: list[:1]}, map[string]bool{"example.com/p.handle": true}, 100)
	if got := boxes(f); len(got) != 4 || !strings.HasPrefix(got[2], "3 handle | the fingerprint stands here, total +40") || !f.Frames[2].Fingerprint || f.Frames[1].Fingerprint {
		t.Errorf("%q", got)
	}
}
