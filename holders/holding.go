package holders

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Kinds of holders.
const (
	KindGlobal     = "global"
	KindGoroutines = "goroutines"
	KindTimer      = "timer"
	KindFinalizer  = "finalizer"
	KindRuntime    = "runtime"
	KindUnknown    = "unknown"
)

// Holder keeps memory reachable. Similar goroutines, timers and finalizers are one holder.
type Holder struct {
	Kind string `json:"kind"`
	// Name is the global variable; the function whose frame holds the memory; or the function that a timer or finalizer runs.
	Name string `json:"name"`
	// Count is the number of goroutines, timers or finalizers.
	Count int `json:"count,omitempty"`
	// State is the most frequent wait state of the goroutines.
	State string `json:"state,omitempty"`
	// Stack has the functions of the goroutines, innermost first, without inlined functions.
	Stack []string `json:"stack,omitempty"`
	// Creator is the function that started the goroutines, if the symbols name it.
	Creator string `json:"creator,omitempty"`
}

// Holding is what one holder, or several together, keep of an allocation site.
type Holding struct {
	// Holders has more than one element if the memory stays reachable without any one of them.
	Holders []Holder `json:"holders"`
	// More is the number of further joint holders, which are not in Holders.
	More int `json:"more,omitempty"`
	// Path is how the first holder reaches most of the objects.
	Path string `json:"path"`
	// Container is the first container on the path: "map", "slice", "channel buffer".
	Container string `json:"container,omitempty"`
	// Objects is the estimated number of objects, and Bytes is their size.
	Objects float64 `json:"objects"`
	Bytes   float64 `json:"bytes"`
	// Share is the part of the site's bytes, from 0 to 1.
	Share float64 `json:"share"`
	// Sampled is the number of sampled objects that this rests on.
	Sampled int `json:"sampled"`
}

// Site is an allocation stack with the holders of its objects.
type Site struct {
	// Frames are innermost first. Inlined calls have the name of the function that contains them, but their own line.
	Frames   []leak.Frame `json:"frames"`
	Objects  float64      `json:"objects"`
	Bytes    float64      `json:"bytes"`
	Sampled  int          `json:"sampled"`
	Holdings []Holding    `json:"holdings"`
}

const (
	maxSites    = 2000
	maxHoldings = 20  // of one site
	maxJoint    = 4   // holders of one holding
	maxPaths    = 24  // sampled objects of one holding whose path is read
	maxSearch   = 1e5 // nodes that a search for joint holders visits
	sampleRate  = 512 << 10
)

// attribution finds the holders of objects in a graph.
type attribution struct {
	g       *graph
	t       *typing
	rate    float64
	predEnd []uint32
	preds   []uint32
	joint   map[uint32][]uint32
}

func newAttribution(g *graph, rate int) *attribution {
	if rate <= 0 {
		rate = sampleRate
	}
	return &attribution{g: g, t: newTyping(g), rate: float64(rate), joint: map[uint32][]uint32{}}
}

// scale returns how many objects of size bytes one sampled object stands for.
func (a *attribution) scale(size float64) float64 {
	if a.rate <= 1 || size <= 0 {
		return 1
	}
	return 1 / (1 - math.Exp(-size/a.rate))
}

// holding collects the sampled objects of one holder.
type holding struct {
	roots   []uint32
	frame   uint32
	objects []uint32
	number  float64
	bytes   float64
}

// sites returns the allocation stacks with the holders of their objects, largest first.
func (a *attribution) sites() []Site {
	byBucket := map[*bucket][]uint32{}
	for _, s := range a.g.samples {
		if object, _ := a.g.find(s.ref); object != none {
			byBucket[s.bucket] = append(byBucket[s.bucket], object)
		}
	}
	bySite := map[string]*siteObjects{}
	for b, objects := range byBucket {
		frames := trimRuntime(b.frames)
		key := siteKey(frames)
		s := bySite[key]
		if s == nil {
			s = &siteObjects{key: key, frames: frames}
			bySite[key] = s
		}
		for _, o := range objects {
			s.add(o, float64(b.size), a.scale(float64(b.size)))
		}
	}
	all := make([]*siteObjects, 0, len(bySite))
	for _, s := range bySite {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y *siteObjects) int {
		return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.key, y.key))
	})
	all = all[:min(len(all), maxSites)]
	out := make([]Site, len(all))
	for i, s := range all {
		out[i] = a.site(s)
	}
	return out
}

type siteObjects struct {
	key     string
	frames  []leak.Frame
	objects []uint32
	sizes   []float64 // of one object
	weights []float64 // objects that a sampled object stands for
	bytes   float64
}

func (s *siteObjects) add(object uint32, size, weight float64) {
	s.objects = append(s.objects, object)
	s.sizes = append(s.sizes, size)
	s.weights = append(s.weights, weight)
	s.bytes += size * weight
}

func (a *attribution) site(s *siteObjects) Site {
	site := Site{Frames: s.frames, Bytes: s.bytes, Sampled: len(s.objects)}
	byHolder := map[string]*holding{}
	for i, o := range s.objects {
		roots, frame := a.holdersOf(o)
		key := make([]byte, 0, 64)
		for _, r := range append([]uint32{frame}, roots...) {
			key = append(key, byte(r), byte(r>>8), byte(r>>16), byte(r>>24))
		}
		h := byHolder[string(key)]
		if h == nil {
			h = &holding{roots: roots, frame: frame}
			byHolder[string(key)] = h
		}
		h.objects = append(h.objects, o)
		h.number += s.weights[i]
		h.bytes += s.weights[i] * s.sizes[i]
		site.Objects += s.weights[i]
	}
	for _, h := range byHolder {
		site.Holdings = append(site.Holdings, a.describe(h, site.Bytes))
	}
	slices.SortFunc(site.Holdings, func(x, y Holding) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Path, y.Path))
	})
	site.Holdings = site.Holdings[:min(len(site.Holdings), maxHoldings)]
	return site
}

// holdersOf returns the roots that hold an object, and the frame if one frame holds it. Without holders, the object is
// garbage, or held by a structure of the runtime that a dump does not show.
func (a *attribution) holdersOf(object uint32) (roots []uint32, frame uint32) {
	g := a.g
	if g.idom[object] == none {
		return nil, none
	}
	top, below := object, uint32(none)
	for g.idom[top] != g.super {
		below, top = top, g.idom[top]
	}
	if r := g.root(top); r != nil {
		if r.kind == rootGoroutines && below != none {
			if f := g.root(below); f != nil {
				return []uint32{top}, below
			}
		}
		return []uint32{top}, none
	}
	return a.jointHolders(top), none
}

// jointHolders returns the groups of roots that reach an object which no single group holds, nearest first. An element
// none stands for further groups.
func (a *attribution) jointHolders(object uint32) []uint32 {
	if found, ok := a.joint[object]; ok {
		return found
	}
	a.addPreds()
	g := a.g
	seen := map[uint32]bool{object: true}
	var found []uint32
	queue := []uint32{object}
	complete := true
	for head := 0; head < len(queue); head++ {
		if len(queue) > maxSearch {
			complete = false
			break
		}
		v := queue[head]
		for _, p := range a.preds[a.predEnd[v]:a.predEnd[v+1]] {
			if p == g.super || seen[p] {
				continue
			}
			seen[p] = true
			if r := g.root(p); r == nil || r.kind == rootStatic || r.kind == rootFrame {
				queue = append(queue, p)
				if r == nil || r.kind == rootFrame || g.source(g.via[p]) != g.super {
					continue
				}
			}
			found = append(found, p)
		}
	}
	if !complete {
		found = append(found, none)
	}
	a.joint[object] = found
	return found
}

// addPreds adds the rows of predecessors.
func (a *attribution) addPreds() {
	if a.predEnd != nil {
		return
	}
	g := a.g
	nodes := len(g.edges) - 1
	a.predEnd = make([]uint32, nodes+1)
	each := func(f func(from, to uint32)) {
		for _, v := range g.order {
			for e, end := g.out(v); e < end; e++ {
				if to := g.targets[e]; to != none {
					f(v, to)
				}
			}
		}
	}
	each(func(_, to uint32) { a.predEnd[to]++ })
	total := uint32(0)
	for i := range a.predEnd {
		total += a.predEnd[i]
		a.predEnd[i] = total
	}
	a.preds = make([]uint32, total)
	each(func(from, to uint32) {
		a.predEnd[to]--
		a.preds[a.predEnd[to]] = from
	})
}

// describe names a holding.
func (a *attribution) describe(h *holding, total float64) Holding {
	out := Holding{Objects: h.number, Bytes: h.bytes, Sampled: len(h.objects)}
	if total > 0 {
		out.Share = h.bytes / total
	}
	if len(h.roots) == 0 {
		out.Holders = []Holder{{Kind: KindUnknown, Name: "no root that a heap dump shows"}}
		return out
	}
	type path struct {
		text, container string
		root            uint32
	}
	count := map[path]int{}
	for _, o := range h.objects[:min(len(h.objects), maxPaths)] {
		text, container, root := a.t.path(o)
		count[path{text, container, root}]++
	}
	best := path{}
	for p, n := range count {
		if n > count[best] || n == count[best] && p.text < best.text {
			best = p
		}
	}
	out.Path, out.Container = best.text, best.container
	roots := slices.Clone(h.roots)
	if i := slices.Index(roots, best.root); i > 0 {
		roots = slices.Insert(slices.Delete(roots, i, i+1), 0, best.root)
	}
	for i, r := range roots {
		if r == none || i >= maxJoint {
			out.More = len(roots) - i
			break
		}
		out.Holders = append(out.Holders, a.holder(r, h.frame))
	}
	return out
}

// unnamedGlobal is the name of a global variable of a program without symbols.
const unnamedGlobal = "an unnamed global variable"

func (a *attribution) holder(node, frame uint32) Holder {
	g := a.g
	r := g.root(node)
	out := Holder{Name: r.name, Count: r.count}
	switch r.kind {
	case rootGlobal:
		out.Kind = KindGlobal
	case rootStatic:
		out.Kind, out.Name = KindGlobal, unnamedGlobal
	case rootTimer:
		out.Kind = KindTimer
	case rootFinalizer:
		out.Kind = KindFinalizer
		if t := a.t.runtimeType(r.typ); t != "" {
			out.Name += " of " + t
		}
	case rootGoroutines:
		out.Kind = KindGoroutines
		group := g.groups[r.group]
		out.Stack = a.t.stack(group)
		out.Creator = g.bin.funcName(group.creator - g.slide)
		for state, n := range group.states {
			if n > group.states[out.State] || n == group.states[out.State] && state < out.State {
				out.State = state
			}
		}
		out.Name = ownFunction(out.Stack)
		if frame != none {
			f := g.root(frame)
			inlined := a.t.inlinedIn(group.frames[f.frame])
			if name := ownFunction(append(inlined, f.name)); !runtimeOwned(name) && !isWrapper(name) {
				out.Name = name
			}
		}
	default:
		out.Kind = KindRuntime
	}
	if r.tier == tierRuntime {
		out.Kind = KindRuntime
	}
	return out
}

// runtimeType returns the name of the type with a descriptor, or "".
func (t *typing) runtimeType(descriptor uint64) string {
	if t.d == nil {
		return ""
	}
	offset, ok := t.d.byRuntime[descriptor-t.g.slide]
	if !ok {
		return ""
	}
	return typeName(t.d.typ(offset).name)
}

// ownFunction returns the innermost function of a stack outside the runtime and the standard library, else the outermost
// outside the runtime, else the innermost.
func ownFunction(stack []string) string {
	frames := make([]leak.Frame, len(stack))
	for i, f := range stack {
		frames[i].Func = f
	}
	return ownFrame(frames).Func
}

// isWrapper reports whether the compiler made the function, for a go statement with arguments or for a method value.
// Profiles omit it.
func isWrapper(function string) bool {
	return strings.Contains(function, ".gowrap") || strings.HasSuffix(function, "-fm")
}

func ownFrame(stack []leak.Frame) leak.Frame {
	var best leak.Frame
	for _, f := range stack {
		pkg := f.Package()
		if pkg == "runtime" || strings.HasPrefix(pkg, "internal/") || isWrapper(f.Func) {
			continue
		}
		if !f.Standard() {
			return f
		}
		best = f
	}
	if best.Func == "" && len(stack) > 0 {
		best = stack[0]
	}
	return best
}
