package reports

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// flameDataOf matches the compressed frames of a page.
var flameDataOf = regexp.MustCompile(`<template class="all-frames">([^<]*)</template>`)

// unpack reads the data as the script does.
func unpack(t *testing.T, data string) (file flameFile, metrics [][]stackChange) {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(flate.NewReader(bytes.NewReader(packed))).Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, m := range file.Metrics {
		var list []stackChange
		var last []int
		flat := file.Stacks[m.List]
		for i, k := 0, 0; i < len(flat); k++ {
			shared, more := flat[i], flat[i+1]
			last = append(last[:shared:shared], flat[i+2:i+2+more]...)
			c := stackChange{From: m.Values[2*k], To: m.Values[2*k+1], Stack: leak.Stack{State: file.States[flat[i+2+more]]}}
			for _, f := range last {
				c.Stack.Frames = append([]leak.Frame{{Func: file.Funcs[f]}}, c.Stack.Frames...)
			}
			list = append(list, c)
			i += 3 + more
		}
		metrics = append(metrics, list)
	}
	return file, metrics
}

// summed adds up the stacks by their names and state.
func summed(list []stackChange) map[string][2]int64 {
	out := map[string][2]int64{}
	for _, c := range list {
		var names []string
		for _, f := range c.Stack.Frames {
			names = append(names, f.Func)
		}
		key := strings.Join(names, "<") + " " + c.Stack.State
		out[key] = [2]int64{out[key][0] + c.From, out[key][1] + c.To}
	}
	return out
}

// TestFlameDataHasAllFrames checks that the page has every stack of every metric, with its amounts, its functions'
// modules and the marks.
func TestFlameDataHasAllFrames(t *testing.T) {
	in := fixture()
	manyStacks(&in.Record.Variants[0])
	subject := newView(in).Variants[0].flameSubject()
	set := newFlameSet(subject, "leaky", 100)
	set.pack(flameData)
	file, metrics := unpack(t, set.Data)
	if set.Cut != 0 || len(metrics) != len(set.graphs) || len(metrics) < 3 {
		t.Fatalf("%d stacks cut, %d of %d metrics", set.Cut, len(metrics), len(set.graphs))
	}
	for i, g := range set.graphs {
		got, want := summed(metrics[i]), summed(g.List)
		if len(want) < 10_000 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d stacks of %d", g.Probe, len(got), len(want))
		}
		if file.Metrics[i].Unit != g.Unit || file.Metrics[i].Operations != subject.operations() || subject.operations() == 0 {
			t.Errorf("%+v", g.Unit)
		}
	}
	if file.Metrics[1].List != file.Metrics[2].List {
		t.Error("bytes and objects do not share their stacks")
	}
	modules := map[string]string{}
	for i, name := range file.Funcs {
		modules[name] = file.Modules[file.ModuleOf[i]]
	}
	if got := modules["k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"]; got != "k8s.io/apimachinery" {
		t.Errorf("receive is of %q", got)
	}
	if len(file.Marked) == 0 || !subject.Fingerprint[file.Funcs[file.Marked[0]]] {
		t.Errorf("marked %v", file.Marked)
	}
}

// TestFlameDataFits checks that data which does not fit keeps the largest stacks whole and all totals, and says how
// many stacks it cuts.
func TestFlameDataFits(t *testing.T) {
	var list []stackChange
	for i := range 2_000 {
		list = append(list, changed(fmt.Sprintf("main a b c d e f g%d h%d leaf%d", i, i*7, i), 0, int64(1+i)))
	}
	g := []flameGraph{{"goroutines", "goroutine", 10, list}}
	whole, cut := packFlames(g, nil, 1<<20)
	if cut != 0 {
		t.Fatalf("%d cut", cut)
	}
	for _, room := range []int{len(whole) / 2, len(whole) / 10, 500} {
		data, cut := packFlames(g, nil, room)
		if len(data) > room || cut == 0 {
			t.Fatalf("%d bytes in a room of %d, %d cut", len(data), room, cut)
		}
		_, metrics := unpack(t, data)
		if got, want := total(metrics[0]), total(list); got != want {
			t.Errorf("room %d: total %d, want %d", room, got, want)
		}
		kept := 0
		for _, c := range metrics[0] {
			if c.Stack.Frames[0].Func != flameCutName {
				kept++
				if c.To <= int64(cut) {
					t.Errorf("room %d: keeps a stack of %d, but cuts %d", room, c.To, cut)
				}
			}
		}
		if kept+cut != len(list) {
			t.Errorf("room %d: %d kept and %d cut of %d", room, kept, cut, len(list))
		}
	}
	if data, cut := packFlames(g, nil, 3); data != "" || cut != len(list) {
		t.Errorf("%q, %d", data, cut)
	}
}

// TestFlamePalette checks that dark mode replaces every colour of the script.
func TestFlamePalette(t *testing.T) {
	colours := regexp.MustCompile(`"(#[0-9a-f]{6})"`).FindAllStringSubmatch(flameScript, -1)
	if len(colours) < 17 {
		t.Fatalf("%d colours", len(colours))
	}
	for _, c := range colours {
		if c[1] != "#1d2024" && !strings.Contains(styleSource, `[fill="`+c[1]+`"] { fill: #`) {
			t.Errorf("none for %s", c[1])
		}
	}
}
