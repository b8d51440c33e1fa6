package reports

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// The static flame graph draws the widest frames. The page has all frames next to it, compressed, for its script. Both
// limits keep a page with 10,000 stacks below 2 MiB.
const (
	flameData    = 1_400_000 // bytes of base64 for all variants of a page
	flameCutAt   = 6         // outer frames that a cut stack keeps
	flameCutName = "(smaller stacks, cut here)"
)

// flameGraph is the input of one metric: its changes and where they come from.
type flameGraph struct {
	Unit       string
	Probe      string
	Operations int
	List       []stackChange
}

// flameFile is what the script of the page reads. Numbers refer to the lists of names.
type flameFile struct {
	Funcs   []string `json:"f"`
	Modules []string `json:"m"`
	// ModuleOf has the module of each function.
	ModuleOf []int    `json:"o"`
	States   []string `json:"s"`
	// Marked are the functions of the fingerprint.
	Marked []int `json:"p"`
	// Stacks are lists of stacks, one after the other. Each has the number of outer frames that it shares with the
	// one before, the number of its other frames, these frames from outside to inside, and its state.
	Stacks  [][]int       `json:"l"`
	Metrics []flameValues `json:"v"`
}

// flameValues has the amounts of a metric before and after, two for each stack of its list.
type flameValues struct {
	Unit       string  `json:"u"`
	Operations int     `json:"n"`
	List       int     `json:"l"`
	Values     []int64 `json:"a"`
}

// packFlames compresses all frames of the graphs into at most room bytes of base64. cut is the number of stacks with
// the smallest changes of which only the outer frames fit.
func packFlames(graphs []flameGraph, marked map[string]bool, room int) (data string, cut int) {
	most := 0
	for _, g := range graphs {
		most = max(most, len(g.List))
	}
	if most == 0 {
		return "", 0
	}
	for keep := most; ; keep /= 2 {
		var short []flameGraph
		cut = 0
		for _, g := range graphs {
			list, n := cutSmaller(g.List, keep)
			g.List, cut = list, max(cut, n)
			short = append(short, g)
		}
		if data = encodeFlames(short, marked); len(data) <= room {
			return data, cut
		}
		if keep == 0 {
			return "", most
		}
	}
}

// cutSmaller keeps the stacks with the largest changes, and cuts the others to their outer frames.
func cutSmaller(list []stackChange, keep int) (out []stackChange, cut int) {
	if len(list) <= keep {
		return list, 0
	}
	out = slices.Clone(list)
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(abs(out[b].delta()), abs(out[a].delta())) })
	at := map[string]int{}
	drop := map[int]bool{}
	for _, i := range order[keep:] {
		frames := out[i].Stack.Frames
		if len(frames) <= flameCutAt {
			continue
		}
		cut++
		outer := slices.Concat([]leak.Frame{{Func: flameCutName}}, frames[len(frames)-flameCutAt:])
		out[i].Stack = leak.Stack{Frames: outer}
		key := out[i].Stack.ID()
		if k, ok := at[key]; ok {
			out[k].From, out[k].To = out[k].From+out[i].From, out[k].To+out[i].To
			drop[i] = true
			continue
		}
		at[key] = i
	}
	k := -1
	return slices.DeleteFunc(out, func(stackChange) bool { k++; return drop[k] }), cut
}

func encodeFlames(graphs []flameGraph, marked map[string]bool) string {
	var file flameFile
	funcs, modules, states := map[string]int{}, map[string]int{}, map[string]int{"": 0}
	file.Funcs, file.Modules, file.ModuleOf, file.States, file.Marked = []string{}, []string{}, []int{}, []string{""}, []int{}
	number := func(at map[string]int, list *[]string, name string) int {
		i, known := at[name]
		if !known {
			i, at[name], *list = len(*list), len(*list), append(*list, display.Printable(name))
		}
		return i
	}
	fn := func(f leak.Frame) int {
		was := len(file.Funcs)
		i := number(funcs, &file.Funcs, f.Func)
		if i == was {
			file.ModuleOf = append(file.ModuleOf, number(modules, &file.Modules, moduleOf(f)))
			if marked[f.Func] {
				file.Marked = append(file.Marked, i)
			}
		}
		return i
	}
	for _, g := range graphs {
		type row struct {
			stack    []int
			state    int
			from, to int64
		}
		var rows []row
		for _, c := range g.List {
			r := row{state: number(states, &file.States, c.Stack.State), from: c.From, to: c.To}
			for _, f := range slices.Backward(c.Stack.Frames) {
				r.stack = append(r.stack, fn(f))
			}
			rows = append(rows, r)
		}
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(slices.Compare(a.stack, b.stack), cmp.Compare(a.state, b.state))
		})
		var flat, last []int
		v := flameValues{Unit: g.Unit, Operations: g.Operations, List: len(file.Stacks), Values: []int64{}}
		for _, r := range rows {
			shared := 0
			for shared < min(len(last), len(r.stack)) && last[shared] == r.stack[shared] {
				shared++
			}
			flat = append(flat, shared, len(r.stack)-shared)
			flat = append(append(flat, r.stack[shared:]...), r.state)
			v.Values, last = append(v.Values, r.from, r.to), r.stack
		}
		// Heap bytes and heap objects are on the same stacks.
		if same := slices.IndexFunc(file.Stacks, func(other []int) bool { return slices.Equal(other, flat) }); same >= 0 {
			v.List = same
		} else {
			file.Stacks = append(file.Stacks, append([]int{}, flat...))
		}
		file.Metrics = append(file.Metrics, v)
	}
	data, err := json.Marshal(file)
	if err != nil {
		return "" // only numbers and strings
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return ""
	}
	if _, err := w.Write(data); err != nil || w.Close() != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// moduleOf returns the module of a frame, as far as its file and its name say.
func moduleOf(f leak.Frame) string {
	if module, _, ok := strings.Cut(f.File, "@"); ok && module != "" {
		return module
	}
	parts := strings.Split(f.Package(), "/")
	switch {
	case f.Package() == "main":
		return "main"
	case f.Package() == "":
		return "unknown"
	case !strings.Contains(parts[0], "."):
		return "standard library"
	}
	return strings.Join(parts[:min(3, len(parts))], "/")
}
