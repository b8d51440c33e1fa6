package holders

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"
)

// graph is the object graph in compressed rows. Nodes 0 to objects-1 are the heap objects of a dump, in its order. The
// nodes after them are roots, and the last node is the super root, which points to all roots.
//
// Roots are groups: a global variable, or all goroutines with the same stack. A root per goroutine would leave whatever
// two goroutines of a group share without a dominator.
type graph struct {
	*dump
	objects int
	roots   []root
	super   uint32
	pages   []uint32 // the first span that ends after the start of a page

	// interiors are edges that point into an object, not to its start, sorted by edge.
	interiors []interior

	// rootEdges describes the edges of roots; the first is edge number firstRootEdge.
	firstRootEdge uint32
	rootEdges     []rootEdge

	reached  int      // nodes without the super root
	via      []uint32 // the last edge of a shortest path from the super root, or none for an unreached node
	idom     []uint32
	order    []uint32 // reached nodes in depth-first preorder
	retained []uint32 // words
}

type interior struct{ edge, offset uint32 }

// rootEdge says where in its root an edge starts: the byte offset in a global, or the slot of a frame.
type rootEdge struct {
	offset  uint32
	typ     uint32
	inner   uint32 // bytes from the start of the target to where the edge points
	closure bool   // the target is a closure
}

type rootKind uint8

const (
	rootGlobal     rootKind = iota
	rootStatic              // initialised data without a symbol
	rootGoroutines          // its frames are roots of their own, below it
	rootFrame
	rootTimer
	rootFinalizer
	rootOther
)

type root struct {
	kind  rootKind
	tier  uint8
	name  string // of the global, frame, or function that the timer or finalizer runs
	addr  uint64 // of the global
	group uint32
	frame uint32
	typ   uint64 // of the finalizer's object
	count int    // timers or finalizers
}

// Tiers of roots. An edge of a lower tier counts only when no higher tier reaches its target. So the runtime's own
// lists, dead stack slots and finalizers hold only what nothing else holds.
const (
	tierProgram   = iota
	tierStack     // variables whose address is taken; they are not in the pointer map of their frame
	tierFinalizer // what finalizers keep reachable
	tierWords     // all other words of stacks, which may be dead
	tierRuntime   // the runtime's globals and its own goroutines
	tiers
)

func newGraph(d *dump) (*graph, error) {
	g := &graph{dump: d, objects: len(d.start)}
	g.indexSpans()
	if err := g.checkSpans(); err != nil {
		return nil, err
	}
	for e, ref := range d.targets {
		object, offset := g.find(ref)
		d.targets[e] = object
		if offset != 0 && object != none {
			g.interiors = append(g.interiors, interior{edge: uint32(e), offset: offset})
		}
	}
	if err := g.addRoots(); err != nil {
		return nil, err
	}
	g.dominate()
	g.findPaths()
	return g, nil
}

func (g *graph) indexSpans() {
	slices.SortFunc(g.spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	const words = pageSize / wordSize
	g.pages = make([]uint32, (g.heapEnd-g.heapStart)/pageSize+2)
	next := 0
	for page := range g.pages {
		for next < len(g.spans) && uint64(g.spans[next].end) <= uint64(page)*words {
			next++
		}
		g.pages[page] = uint32(next)
	}
}

// find returns the object that contains a word, and the word's offset in it.
func (g *graph) find(ref uint32) (object, offset uint32) {
	if ref == none {
		return none, 0
	}
	for i := int(g.pages[ref/(pageSize/wordSize)]); i < len(g.spans) && g.spans[i].start <= ref; i++ {
		s := &g.spans[i]
		if ref >= s.end {
			continue
		}
		var at uint32
		if s.end-s.start == s.size*s.count { // without free slots
			at = (ref - s.start) / s.size
		} else {
			starts := g.start[s.first : s.first+s.count]
			at = uint32(sort.Search(len(starts), func(i int) bool { return starts[i] > ref })) - 1
		}
		object = s.first + at
		if offset = ref - g.start[object]; offset < s.size {
			return object, offset
		}
		return none, 0
	}
	return none, 0
}

// words returns the size of an object in words, or 0 for a root.
func (g *graph) words(node uint32) uint32 {
	if node >= uint32(g.objects) {
		return 0
	}
	ref := g.start[node]
	i := g.pages[ref/(pageSize/wordSize)]
	for g.spans[i].end <= ref {
		i++
	}
	return g.spans[i].size
}

// checkSpans rejects a dump whose objects overlap.
func (g *graph) checkSpans() error {
	for i := 1; i < len(g.spans); i++ {
		if g.spans[i].start < g.spans[i-1].end {
			return errors.New("heap dump: objects overlap")
		}
	}
	return nil
}

// out returns the range of edges that leave a node.
func (g *graph) out(node uint32) (from, to uint32) { return g.edges[node], g.edges[node+1] }

// source returns the node that an edge leaves.
func (g *graph) source(edge uint32) uint32 {
	return uint32(sort.Search(len(g.edges), func(i int) bool { return g.edges[i] > edge })) - 1
}

// root returns the root that a node stands for, or nil for an object.
func (g *graph) root(node uint32) *root {
	if node < uint32(g.objects) || node == g.super {
		return nil
	}
	return &g.roots[node-uint32(g.objects)]
}

// eachField calls f with each edge of an object and the byte offset of its field.
func (g *graph) eachField(object uint32, f func(edge, offset uint32)) {
	from, to := g.out(object)
	at := uint32(0)
	for e := from; e < to; e++ {
		gap := uint32(g.gaps[e])
		if gap == math.MaxUint8 {
			gap = g.longGaps[e]
		}
		at += gap
		f(e, at*wordSize)
	}
}

// interior returns the offset in bytes at which an edge points into its target.
func (g *graph) interior(edge uint32) uint32 {
	if edge >= g.firstRootEdge && g.rootEdges != nil {
		return g.rootEdges[edge-g.firstRootEdge].inner
	}
	i, ok := slices.BinarySearchFunc(g.interiors, edge, func(x interior, edge uint32) int { return cmp.Compare(x.edge, edge) })
	if !ok {
		return 0
	}
	return g.interiors[i].offset * wordSize
}

// dynamic returns the address of the type that an interface with this edge holds, or 0.
func (g *graph) dynamic(edge uint32) uint64 {
	typ := uint32(none)
	if edge >= g.firstRootEdge {
		typ = g.rootEdges[edge-g.firstRootEdge].typ
	} else if i, ok := slices.BinarySearchFunc(g.edgeTypes, edge, func(x edgeType, edge uint32) int { return cmp.Compare(x.edge, edge) }); ok {
		typ = g.edgeTypes[i].typ
	}
	if typ == none {
		return 0
	}
	return g.types[typ]
}

// code returns the entry of the function if an object is a closure, or 0.
func (g *graph) code(object uint32) uint64 {
	i, ok := slices.BinarySearchFunc(g.closures, object, func(x closure, object uint32) int { return cmp.Compare(x.object, object) })
	if !ok {
		return 0
	}
	return g.closures[i].pc
}

// reach marks what roots reach, tier by tier, and drops edges from a lower tier to a higher one. The runtime's objects
// for goroutines and threads point to each other and to all processors, so only the tier of the runtime reaches them.
func (g *graph) reach(tier []uint8) {
	nodes := len(g.edges) - 1
	reached := newBits(nodes)
	done := newBits(nodes)     // reached in a higher tier
	internal := newBits(nodes) // reached in the runtime's tier only
	for _, ref := range g.internals {
		if object, _ := g.find(ref); object != none {
			internal.set(object)
		}
	}
	g.internals = nil
	var todo []uint32
	t := uint8(tierProgram)
	visit := func(edge uint32) {
		to := g.targets[edge]
		switch {
		case to == none || to == g.super:
		case done.has(to), t < tierRuntime && internal.has(to):
			g.targets[edge] = none
		case !reached.has(to):
			reached.set(to)
			todo = append(todo, to)
			g.reached++
		}
	}
	for ; t < tiers; t++ {
		if t == tierProgram {
			for e, to := g.out(g.super); e < to; e++ {
				visit(e)
			}
		} else {
			for i, of := range tier {
				if of == t {
					visit(g.firstRootEdge + uint32(i))
				}
			}
		}
		for len(todo) > 0 {
			node := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for e, to := g.out(node); e < to; e++ {
				if e < g.firstRootEdge || tier[e-g.firstRootEdge] <= t {
					visit(e)
				}
			}
		}
		copy(done, reached[:g.objects/64])
		for i := g.objects / 64 * 64; i < g.objects; i++ { // roots have edges of several tiers, so they are never done
			if reached.has(uint32(i)) {
				done.set(uint32(i))
			}
		}
	}
}

// findPaths finds a shortest path from the super root to each reached node.
func (g *graph) findPaths() {
	g.via = make([]uint32, len(g.edges)-1)
	for i := range g.via {
		g.via[i] = none
	}
	queue := append(make([]uint32, 0, g.reached+1), g.super)
	for head := 0; head < len(queue); head++ {
		for e, end := g.out(queue[head]); e < end; e++ {
			if to := g.targets[e]; to != none && to != g.super && g.via[to] == none {
				g.via[to] = e
				queue = append(queue, to)
			}
		}
	}
}

// bits is a set of nodes.
type bits []uint64

func newBits(n int) bits         { return make(bits, n/64+1) }
func (b bits) set(i uint32)      { b[i/64] |= 1 << (i % 64) }
func (b bits) has(i uint32) bool { return b[i/64]&(1<<(i%64)) != 0 }
