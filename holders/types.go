package holders

import (
	"cmp"
	"debug/dwarf"
	"reflect"
	"strings"
)

// typing propagates types from the roots through the fields of objects. An object whose type no field states has none.
type typing struct {
	g     *graph
	d     *debugInfo
	all   []shape
	index map[shape]uint32
	of    []uint32 // index in all by node; 0 is unknown
	via   []uint32 // the edge by which a node with a type was first typed
}

func newTyping(g *graph) *typing {
	t := &typing{g: g, index: map[shape]uint32{}, all: []shape{{}}}
	if g.bin == nil || g.bin.debug == nil {
		return t
	}
	t.d = g.bin.debug
	t.of = make([]uint32, len(g.edges)-1)
	t.via = make([]uint32, len(g.edges)-1)
	var queue []uint32
	for i := range g.roots {
		queue = append(queue, uint32(g.objects+i))
	}
	for head := 0; head < len(queue); head++ {
		if head > 1<<20 { // the part of the queue that is done
			queue, head = append([]uint32(nil), queue[head:]...), 0
		}
		node := queue[head]
		t.eachSlot(node, func(edge uint32, s slot) {
			to := g.targets[edge]
			if to == none {
				return
			}
			if _, known := t.shapeOf(to); t.assign(to, t.targetOf(s, edge)) {
				queue = append(queue, to)
				if !known {
					t.via[to] = edge
				}
			}
		})
	}
	return t
}

// shapeOf returns the shape of a node, and whether it is known.
func (t *typing) shapeOf(node uint32) (shape, bool) {
	if t.of == nil || t.of[node] == 0 {
		return shape{}, false
	}
	return t.all[t.of[node]], true
}

// pathEdge returns the last edge of the path to a node that print shows: by fields of known types, if there are any.
func (t *typing) pathEdge(node uint32) uint32 {
	if _, known := t.shapeOf(node); known {
		return t.via[node]
	}
	return t.g.via[node]
}

// eachSlot calls f with the edges of a node whose field is known.
func (t *typing) eachSlot(node uint32, f func(edge uint32, s slot)) {
	if r := t.g.root(node); r != nil {
		for e, to := t.g.out(node); e < to; e++ {
			if s, ok := t.rootSlot(node, r, e); ok {
				f(e, s)
			}
		}
		return
	}
	of, ok := t.shapeOf(node)
	if !ok {
		return
	}
	t.g.eachField(node, func(e, offset uint32) {
		if s, ok := t.d.slotInShape(of, offset); ok {
			f(e, s)
		}
	})
}

// slotOf returns the field that an edge leaves from.
func (t *typing) slotOf(edge uint32) (found slot, ok bool) {
	if t.d == nil {
		return slot{}, false
	}
	node := t.g.source(edge)
	if r := t.g.root(node); r != nil {
		return t.rootSlot(node, r, edge)
	}
	of, known := t.shapeOf(node)
	if !known {
		return slot{}, false
	}
	t.g.eachField(node, func(e, offset uint32) {
		if e == edge {
			found, ok = t.d.slotInShape(of, offset)
		}
	})
	return found, ok
}

func (t *typing) rootSlot(node uint32, r *root, edge uint32) (slot, bool) {
	e := t.g.rootEdges[edge-t.g.firstRootEdge]
	switch r.kind {
	case rootGlobal:
		of, ok := t.d.globals[r.addr]
		if !ok {
			return slot{}, false
		}
		return t.d.slotIn(of, e.offset)
	case rootStatic:
		of, ok := t.shapeOf(node)
		if !ok {
			return slot{}, false
		}
		return t.d.slotInShape(of, e.offset)
	case rootFrame:
		_, s, ok := t.localSlot(r, e.offset)
		return s, ok
	case rootTimer, rootFinalizer:
		if e.closure {
			return slot{typ: &typ{name: "func()", kind: reflect.Func}}, true
		}
		if of, ok := t.d.byRuntime[r.typ-t.g.slide]; ok && r.kind == rootFinalizer {
			s, ok := t.d.slotIn(t.d.typ(of).elem, e.offset)
			return s, ok
		}
	}
	return slot{}, false
}

// localSlot returns the local variable at a place in a frame.
func (t *typing) localSlot(r *root, at uint32) (v local, s slot, ok bool) {
	frame := t.g.groups[r.group].frames[r.frame]
	if int(at) >= len(frame.slots) || t.d == nil {
		return local{}, slot{}, false
	}
	p := frame.slots[at]
	v, s, ok = t.d.localAt(p.pc-t.g.slide, p.offset)
	if !ok && p.callee != 0 {
		callee := p.callee - t.g.slide
		v, s, ok = t.d.localAt(callee, p.low)
		v.scope = cmp.Or(v.scope, t.g.bin.funcName(callee-1))
	}
	v.name = strings.TrimPrefix(v.name, "&")
	return v, s, ok
}

// stack returns the functions on the stack of a group, innermost first, with inlined functions if DWARF names them.
func (t *typing) stack(of *group) []string {
	var out []string
	for _, f := range of.frames {
		out = append(append(out, t.inlinedIn(f)...), f.name)
	}
	return out
}

// inlinedIn returns the functions inlined at the call of a frame.
func (t *typing) inlinedIn(f groupFrame) []string {
	if t.d == nil {
		return nil
	}
	return t.d.functionsAt(f.pc - t.g.slide - 1)
}

// slotInShape returns the field at an offset of an object.
func (d *debugInfo) slotInShape(of shape, offset uint32) (slot, bool) {
	if offset < of.base {
		return slot{}, false
	}
	offset -= of.base
	switch {
	case of.closure != 0:
		f, ok := d.funcAt(of.closure)
		if !ok {
			return slot{}, false
		}
		for _, v := range d.localsOf(f).captured {
			if offset >= v.offset && offset < v.offset+d.typ(v.typ).size {
				s, ok := d.slotIn(v.typ, offset-v.offset)
				s.path = "." + strings.TrimPrefix(v.name, "&") + s.path
				return s, ok
			}
		}
		if typ, ok := d.receiver(f); ok && offset >= wordSize {
			s, ok := d.slotIn(typ, offset-wordSize)
			return s, ok
		}
		return slot{}, false
	case of.array:
		size := d.typ(of.typ).size
		if size == 0 {
			return slot{}, false
		}
		offset %= size
	}
	return d.slotIn(of.typ, offset)
}

// targetOf returns the shape of the object that an edge points to, by the field that the edge leaves from.
func (t *typing) targetOf(s slot, edge uint32) shape {
	g := t.g
	to := g.targets[edge]
	var of shape
	switch {
	case s.dynamic:
		typ, ok := t.d.byRuntime[g.dynamic(edge)-g.slide]
		if !ok {
			return shape{}
		}
		if inner, ok := t.d.slotIn(typ, 0); ok && t.d.direct(typ) {
			return t.targetOf(inner, edge)
		}
		of = shape{typ: typ}
	case s.mapDir:
		of = t.mapDirectory(s, to)
	case s.known:
		of = s.target
	case s.typ != nil && s.typ.kind == reflect.Func:
		pc := g.code(to) - g.slide
		if g.code(to) == 0 {
			return shape{}
		}
		return shape{closure: pc}
	}
	if of.typ == 0 {
		return shape{}
	}
	if name := t.d.typ(of.typ).name; strings.HasPrefix(name, "internal/sync.node[") {
		of = t.trieNode(name, to)
	}
	of.base = g.interior(edge)
	return of
}

// direct reports whether an interface holds values of a type in its data word, not a pointer to them.
func (d *debugInfo) direct(of dwarf.Offset) bool {
	for {
		t := d.typ(of)
		switch {
		case t.kind == reflect.Pointer || t.kind == reflect.UnsafePointer || t.kind == reflect.Map || t.kind == reflect.Chan || t.kind == reflect.Func:
			return true
		case t.kind == reflect.Struct && t.size == wordSize && len(t.fields) == 1:
			of = t.fields[0].typ
		case t.kind == reflect.Array && t.count == 1:
			of = t.elem
		default:
			return false
		}
	}
}

// mapDirectory returns what a map's header points to: a directory of tables, or in a small map its only group. A
// directory starts with a pointer, and a group starts with control bytes.
func (t *typing) mapDirectory(s slot, to uint32) shape {
	if to >= uint32(t.g.objects) {
		return shape{}
	}
	directory := false
	t.g.eachField(to, func(_, offset uint32) { directory = directory || offset == 0 })
	if directory {
		return s.target
	}
	_, groups, ok := t.d.offsetOf(t.d.typ(t.d.typ(s.target.typ).elem), "groups")
	if !ok {
		return shape{}
	}
	_, data, ok := t.d.offsetOf(groups, "data")
	if !ok {
		return shape{}
	}
	return shape{typ: data.elem, array: true}
}

// trieNode returns which of the two kinds of a node in a sync.Map an object is, by its size.
func (t *typing) trieNode(name string, to uint32) shape {
	args := strings.TrimPrefix(name, "internal/sync.node")
	indirect, entry := t.d.named("internal/sync.indirect"+args), t.d.named("internal/sync.entry"+args)
	if indirect == nil || entry == nil || indirect.size <= entry.size {
		return shape{}
	}
	switch size := t.g.words(to) * wordSize; {
	case size >= indirect.size && size < indirect.size*3/2:
		return shape{typ: indirect.offset}
	case size >= entry.size && size < indirect.size:
		return shape{typ: entry.offset}
	}
	return shape{}
}

// assign gives a node a shape if it fits and says more than the shape that the node has. It returns whether it did.
func (t *typing) assign(node uint32, of shape) bool {
	if of.typ == 0 && of.closure == 0 {
		return false
	}
	size := t.g.words(node) * wordSize
	if node >= uint32(t.g.objects) {
		if t.g.root(node) == nil || t.g.root(node).kind != rootStatic {
			return false
		}
		size = 1 << 16
	}
	if of.closure == 0 && of.base+t.d.typ(of.typ).size > size {
		return false
	}
	old, known := t.shapeOf(node)
	if known && t.extent(of, size) <= t.extent(old, size) {
		return false
	}
	i, ok := t.index[of]
	if !ok {
		i = uint32(len(t.all))
		t.all = append(t.all, of)
		t.index[of] = i
	}
	t.of[node] = i
	return true
}

// extent returns how much of an object of size bytes a shape describes.
func (t *typing) extent(of shape, size uint32) uint32 {
	switch {
	case of.closure != 0 || of.array && of.base <= wordSize:
		return size
	case of.base > wordSize:
		return 1
	}
	return t.d.typ(of.typ).size
}
