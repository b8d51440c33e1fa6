package holders

import (
	"cmp"
	"slices"
	"strings"
)

// pending is an edge of a root before the roots' edges are sorted into rows.
type pending struct {
	from, to uint32
	tier     uint8
	rootEdge
}

// rootBuilder collects the roots of a graph and their edges.
type rootBuilder struct {
	g       *graph
	edges   []pending
	globals map[uint64]uint32 // first address of a symbol or piece: its root
	pieces  []uint64          // addresses without a symbol that static data points to, sorted
}

// addRoots groups the roots, adds their edges to the graph, and finds what each tier reaches.
func (g *graph) addRoots() error {
	b := &rootBuilder{g: g, globals: map[uint64]uint32{}}
	b.addGlobals()
	b.addGoroutines()
	b.addTimers()
	b.addFinalizers()
	for _, o := range g.others {
		b.point(b.root(root{kind: rootOther, tier: tierRuntime, name: o.name}), o.ref, rootEdge{typ: none})
	}
	if err := exceeds(len(g.roots), maxGroups, "roots"); err != nil {
		return err
	}
	g.super = uint32(g.objects + len(g.roots))
	linked := map[uint32]bool{}
	for _, e := range b.edges {
		if e.to >= uint32(g.objects) {
			linked[e.to] = true
		}
	}
	for i := range g.roots {
		r := &g.roots[i]
		node := uint32(g.objects + i)
		if r.kind != rootFrame && !linked[node] {
			b.edges = append(b.edges, pending{from: g.super, to: node, rootEdge: rootEdge{typ: none}})
		}
	}
	slices.SortStableFunc(b.edges, func(x, y pending) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.tier, y.tier))
	})
	g.firstRootEdge = uint32(len(g.targets))
	// The last element of g.edges is the end of the objects' edges.
	g.edges = append(make([]uint32, 0, g.objects+len(g.roots)+2), g.edges[:g.objects]...)
	g.targets = append(make([]uint32, 0, len(g.targets)+len(b.edges)), g.targets...)
	tier := make([]uint8, len(b.edges))
	g.rootEdges = make([]rootEdge, len(b.edges))
	next := 0
	for node := uint32(g.objects); node <= g.super; node++ {
		g.edges = append(g.edges, uint32(len(g.targets)))
		for ; next < len(b.edges) && b.edges[next].from == node; next++ {
			e := b.edges[next]
			g.targets = append(g.targets, e.to)
			g.rootEdges[next] = e.rootEdge
			tier[next] = e.tier
		}
	}
	g.edges = append(g.edges, uint32(len(g.targets)))
	b.edges = nil
	g.frameRefs, g.globals, g.links = nil, nil, nil
	g.reach(tier)
	return nil
}

func (b *rootBuilder) root(r root) uint32 {
	b.g.roots = append(b.g.roots, r)
	return uint32(b.g.objects + len(b.g.roots) - 1)
}

// point adds an edge from a root to the object that contains a word.
func (b *rootBuilder) point(from, ref uint32, e rootEdge) {
	if object, inner := b.g.find(ref); object != none {
		e.inner = inner * wordSize
		b.edges = append(b.edges, pending{from: from, to: object, tier: b.g.root(from).tier, rootEdge: e})
	}
}

// runtimeOwned reports whether a global belongs to the runtime's bookkeeping, which points to everything.
func runtimeOwned(name string) bool {
	return strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/runtime/") ||
		strings.HasPrefix(name, "sync.allPools") || strings.HasPrefix(name, "sync.oldPools")
}

// global returns the root that owns an address of the data or bss segment, and the offset of the address in it.
func (b *rootBuilder) global(addr uint64) (node, offset uint32) {
	linked := addr - b.g.slide
	r := root{kind: rootGlobal, addr: linked}
	if b.g.bin != nil {
		if s, ok := symbolAt(b.g.bin.objects, linked); ok {
			r.name, r.addr = s.name, s.start
		}
	}
	if r.name == "" {
		r.kind = rootStatic
		if i, ok := slices.BinarySearch(b.pieces, linked); !ok && i > 0 && b.samePiece(b.pieces[i-1], linked) {
			r.addr = b.pieces[i-1]
		} else if !ok {
			r.addr = 0
		}
	}
	node, ok := b.globals[r.addr]
	if !ok {
		if runtimeOwned(r.name) {
			r.tier = tierRuntime
		}
		node = b.root(r)
		b.globals[r.addr] = node
	}
	if r.addr == 0 {
		return node, 0
	}
	return node, uint32(linked - r.addr)
}

// samePiece reports whether no symbol lies between two addresses.
func (b *rootBuilder) samePiece(from, to uint64) bool {
	if to-from > 1<<16 {
		return false
	}
	objects := b.g.bin.objects
	i, _ := slices.BinarySearchFunc(objects, from, func(s symbol, addr uint64) int { return cmp.Compare(s.start, addr) })
	return i == len(objects) || objects[i].start > to
}

// addGlobals groups pointers of global variables by symbol. The linker gives static composites (&T{...}) no symbol; they
// belong to the variables that point to them.
func (b *rootBuilder) addGlobals() {
	g := b.g
	for _, l := range g.links {
		if _, ok := symbolAt(g.bin.objects, l.target-g.slide); !ok {
			b.pieces = append(b.pieces, l.target-g.slide)
		}
	}
	slices.Sort(b.pieces)
	b.pieces = slices.Compact(b.pieces)
	for _, r := range g.globals {
		node, offset := b.global(r.addr)
		b.point(node, r.ref, rootEdge{offset: offset, typ: r.typ})
	}
	for _, l := range g.links {
		from, offset := b.global(l.addr)
		to, _ := b.global(l.target)
		if from != to && g.root(to).kind == rootStatic {
			b.edges = append(b.edges, pending{from: from, to: to, tier: g.root(from).tier, rootEdge: rootEdge{offset: offset, typ: none}})
		}
	}
}

// addGoroutines makes each group of goroutines a root, and each frame of the group a root below it.
func (b *rootBuilder) addGoroutines() {
	g := b.g
	groups := make([]uint32, len(g.groups))
	frames := make([][]uint32, len(g.groups))
	for i, of := range g.groups {
		r := root{kind: rootGoroutines, group: uint32(i), count: of.count}
		if of.system {
			r.tier = tierRuntime
		}
		groups[i] = b.root(r)
		for n, f := range of.frames {
			node := b.root(root{kind: rootFrame, tier: r.tier, name: f.name, group: uint32(i), frame: uint32(n), count: of.count})
			frames[i] = append(frames[i], node)
			b.edges = append(b.edges, pending{from: groups[i], to: node, rootEdge: rootEdge{typ: none}})
		}
		for _, ref := range of.defers {
			b.point(groups[i], ref, rootEdge{typ: none})
		}
		of.defers = nil
	}
	type place struct{ group, frame, slot uint32 }
	tierOf := map[place]uint8{}
	for _, f := range g.frameRefs {
		before := len(b.edges)
		b.point(frames[f.group][f.frame], f.ref, rootEdge{offset: f.slot, typ: f.typ})
		if f.precise || len(b.edges) == before || b.edges[before].tier != tierProgram {
			continue
		}
		at := place{f.group, f.frame, f.slot}
		tier, ok := tierOf[at]
		if !ok {
			tier = tierWords
			if slot := g.groups[f.group].frames[f.frame].slots[f.slot]; g.bin.isStackVariable(slot.pc-g.slide, slot.offset) {
				tier = tierStack
			}
			tierOf[at] = tier
		}
		b.edges[before].tier = tier
	}
}

// addTimers makes the function of each time.AfterFunc a root. The runtime keeps timers in a heap for each processor. The
// processors themselves are internals of the runtime.
func (b *rootBuilder) addTimers() {
	g := b.g
	layout, ok := g.bin.timerLayout()
	byFunc := map[uint64]uint32{}
	seen := map[uint32]bool{}
	for _, e := range b.edges {
		if e.from < uint32(g.objects) || g.root(e.from).name != "runtime.allp" || e.to >= uint32(g.objects) {
			continue
		}
		for _, p := range g.fieldTargets(target{e.to, e.inner}, 0, wordSize) {
			g.internals = append(g.internals, g.start[p.to])
			if !ok {
				continue
			}
			for _, heap := range g.fieldTargets(p, layout.heap, 0) {
				for _, t := range g.fieldTargets(heap, layout.timer, layout.entry) {
					if !seen[t.to] {
						seen[t.to] = true
						b.addTimer(t, layout, byFunc)
					}
				}
			}
		}
	}
}

func (b *rootBuilder) addTimer(t target, layout timerLayout, byFunc map[uint64]uint32) {
	for _, arg := range b.g.fieldTargets(t, layout.arg, 0) {
		pc := b.g.code(arg.to)
		if pc == 0 {
			continue // a channel or a sleeping goroutine: the waiting goroutine is the holder
		}
		node, ok := byFunc[pc]
		if !ok {
			node = b.root(root{kind: rootTimer, name: b.g.bin.funcName(pc)})
			byFunc[pc] = node
		}
		b.g.root(node).count++
		b.edges = append(b.edges, pending{from: node, to: arg.to, rootEdge: rootEdge{typ: none, closure: true}})
		b.edges = append(b.edges, pending{from: node, to: t.to, rootEdge: rootEdge{typ: none}})
	}
}

// addFinalizers makes a finalizer's function and the type of its objects a root. It keeps what the object points to
// reachable, but not the object.
func (b *rootBuilder) addFinalizers() {
	g := b.g
	type key struct{ pc, typ uint64 }
	byFunc := map[key]uint32{}
	for _, f := range g.finalizers {
		k := key{f.pc, f.typ}
		node, ok := byFunc[k]
		if !ok {
			node = b.root(root{kind: rootFinalizer, tier: tierFinalizer, name: g.bin.funcName(f.pc - g.slide), typ: f.typ})
			byFunc[k] = node
		}
		b.g.root(node).count++
		b.point(node, f.fn, rootEdge{typ: none, closure: true})
		if f.queued {
			b.point(node, f.object, rootEdge{typ: none})
			continue
		}
		object, inner := g.find(f.object)
		if object == none {
			continue
		}
		g.eachField(object, func(e, offset uint32) {
			if to := g.targets[e]; to != none && offset >= inner*wordSize {
				edge := rootEdge{offset: offset - inner*wordSize, typ: none, inner: g.interior(e)}
				b.edges = append(b.edges, pending{from: node, to: to, tier: tierFinalizer, rootEdge: edge})
			}
		})
	}
	g.finalizers = nil
}

// target is where a field points: an object, and the offset in it in bytes. Larger objects start with a word of the
// allocator, so pointers to their start have an offset too.
type target struct{ to, inner uint32 }

// fieldTargets returns where the fields point that are offset bytes after a value's start, and repeat after stride bytes
// unless stride is 0.
func (g *graph) fieldTargets(value target, offset, stride uint32) []target {
	var out []target
	g.eachField(value.to, func(e, at uint32) {
		at -= value.inner
		if (at == offset || stride != 0 && at%stride == offset) && g.targets[e] != none {
			out = append(out, target{g.targets[e], g.interior(e)})
		}
	})
	return out
}

// timerLayout has the offsets of the runtime's timers: of the slice of timers in runtime.p, of the timer in a slice's
// element of entry bytes, and of the data word of a timer's argument.
type timerLayout struct{ heap, entry, arg, timer uint32 }
