package holders

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Attributes that the Go linker adds to DWARF.
const (
	attrGoKind        = dwarf.Attr(0x2900)
	attrGoElem        = dwarf.Attr(0x2902)
	attrGoRuntimeType = dwarf.Attr(0x2904)
	attrGoClosure     = dwarf.Attr(0x2907)
)

// debugInfo finds types, variables and functions in DWARF. It reads each type when it is first needed.
type debugInfo struct {
	data      *dwarf.Data
	reader    *dwarf.Reader
	globals   map[uint64]dwarf.Offset // address of a variable: its type
	byRuntime map[uint64]dwarf.Offset // address of a runtime type descriptor: its type
	byName    map[string]dwarf.Offset // types of the runtime and of sync.Map
	funcs     []function              // sorted by address
	types     map[dwarf.Offset]*typ
	chanElems map[dwarf.Offset]dwarf.Offset // struct hchan<T>: T
	locals    map[uint64]*functionLocals    // by entry
	methods   map[string]int                // index in funcs of methods that have wrappers
	slots     map[slotKey]slotResult
	loclists  []byte
	addrs     []byte
}

type function struct {
	name      string // of wrappers of method values only
	low, high uint64
	offset    dwarf.Offset
	addrBase  int64
}

// typ is a type of the program.
type typ struct {
	offset dwarf.Offset
	name   string
	kind   reflect.Kind
	size   uint32
	elem   dwarf.Offset // of pointers, slices, arrays, typedefs; the header's struct of maps and channels
	count  uint32       // of arrays
	fields []field
}

type field struct {
	name   string
	offset uint32
	typ    dwarf.Offset
}

func newDebugInfo(b *Binary, file *elf.File) *debugInfo {
	d := &debugInfo{
		data: b.dwarf, reader: b.dwarf.Reader(), globals: map[uint64]dwarf.Offset{}, byRuntime: map[uint64]dwarf.Offset{},
		byName: map[string]dwarf.Offset{}, types: map[dwarf.Offset]*typ{}, chanElems: map[dwarf.Offset]dwarf.Offset{},
		locals: map[uint64]*functionLocals{}, slots: map[slotKey]slotResult{},
	}
	for name, to := range map[string]*[]byte{".debug_loclists": &d.loclists, ".debug_addr": &d.addrs} {
		if s := file.Section(name); s != nil {
			*to, _ = s.Data()
		}
	}
	r := b.dwarf.Reader()
	addrBase := int64(0)
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		if e.Tag == dwarf.TagCompileUnit {
			addrBase, _ = e.Val(dwarf.AttrAddrBase).(int64)
			continue
		}
		d.index(e, b.types, addrBase)
		if e.Children {
			r.SkipChildren()
		}
	}
	slices.SortFunc(d.funcs, func(x, y function) int { return cmp.Compare(x.low, y.low) })
	d.indexMethods(b)
	return d
}

// indexMethods finds the wrappers of method values and their methods.
func (d *debugInfo) indexMethods(b *Binary) {
	d.methods = map[string]int{}
	at := func(s symbol) (int, bool) {
		return slices.BinarySearchFunc(d.funcs, s.start, func(f function, addr uint64) int { return cmp.Compare(f.low, addr) })
	}
	for _, s := range b.funcs {
		if method, ok := strings.CutSuffix(s.name, "-fm"); ok {
			if i, ok := at(s); ok {
				d.funcs[i].name = s.name
				d.methods[method] = -1
			}
		}
	}
	for _, s := range b.funcs {
		if _, ok := d.methods[s.name]; ok {
			if i, ok := at(s); ok {
				d.methods[s.name] = i
			}
		}
	}
	maps.DeleteFunc(d.methods, func(_ string, i int) bool { return i < 0 })
}

func (d *debugInfo) index(e *dwarf.Entry, types uint64, addrBase int64) {
	switch e.Tag {
	case dwarf.TagVariable:
		at, ok := e.Val(dwarf.AttrLocation).([]byte)
		of, isType := e.Val(dwarf.AttrType).(dwarf.Offset)
		if ok && isType && len(at) == 9 && at[0] == 0x03 { // DW_OP_addr
			d.globals[le64(at[1:])] = of
		}
	case dwarf.TagSubprogram:
		low, ok := e.Val(dwarf.AttrLowpc).(uint64)
		if !ok {
			return
		}
		high, isAddr := e.Val(dwarf.AttrHighpc).(uint64)
		if n, ok := e.Val(dwarf.AttrHighpc).(int64); ok && !isAddr {
			high = low + uint64(n)
		}
		d.funcs = append(d.funcs, function{low: low, high: high, offset: e.Offset, addrBase: addrBase})
	default:
		if at, ok := e.Val(attrGoRuntimeType).(uint64); ok && at != 0 {
			if at < types {
				at += types // an offset since Go 1.22
			}
			d.byRuntime[at] = e.Offset
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag == dwarf.TagStructType && (strings.HasPrefix(name, "internal/sync.") || strings.HasPrefix(name, "runtime.")) {
			d.byName[name] = e.Offset
		}
	}
}

// typ returns the type at an offset. Names of typedefs replace names of what they stand for.
func (d *debugInfo) typ(offset dwarf.Offset) *typ {
	if t, ok := d.types[offset]; ok {
		return t
	}
	t := &typ{offset: offset}
	d.types[offset] = t // before its fields, which may refer to it
	if offset == 0 {
		return t
	}
	d.reader.Seek(offset)
	e, err := d.reader.Next()
	if err != nil || e == nil {
		return t
	}
	t.name, _ = e.Val(dwarf.AttrName).(string)
	t.elem, _ = e.Val(dwarf.AttrType).(dwarf.Offset)
	size, _ := e.Val(dwarf.AttrByteSize).(int64)
	t.size = uint32(size)
	kind, _ := e.Val(attrGoKind).(int64)
	t.kind = reflect.Kind(kind)
	switch e.Tag {
	case dwarf.TagPointerType:
		t.kind, t.size = reflect.Pointer, wordSize
		if t.elem == 0 {
			t.kind = reflect.UnsafePointer
		}
	case dwarf.TagSubroutineType:
		t.kind, t.size = reflect.Func, wordSize
	case dwarf.TagTypedef:
		d.typedef(t, e)
	case dwarf.TagArrayType:
		t.kind = reflect.Array
		if elem := d.typ(t.elem); elem.size > 0 {
			t.count = t.size / elem.size
		}
	case dwarf.TagStructType:
		if elem, ok := e.Val(attrGoElem).(dwarf.Offset); ok {
			t.elem = elem
		}
		if t.kind == 0 {
			t.kind = reflect.Struct
		}
		if t.kind == reflect.Struct {
			t.fields = d.fields()
		}
	}
	return t
}

func (d *debugInfo) typedef(t *typ, e *dwarf.Entry) {
	switch t.kind {
	case reflect.Map, reflect.Chan:
		t.size = wordSize
		header := d.typ(t.elem) // a pointer
		if elem, ok := e.Val(attrGoElem).(dwarf.Offset); ok && t.kind == reflect.Chan {
			d.chanElems[header.elem] = elem
		}
		t.elem = header.elem
	case reflect.Interface:
		t.size = 2 * wordSize
	default:
		under := *d.typ(t.elem)
		if t.name != "" {
			under.name = t.name
		}
		*t = under
	}
}

// fields reads the members after the structure that the reader has read.
func (d *debugInfo) fields() []field {
	var out []field
	for {
		e, err := d.reader.Next()
		if err != nil || e == nil || e.Tag == 0 {
			return out
		}
		if e.Tag == dwarf.TagMember {
			f := field{}
			f.name, _ = e.Val(dwarf.AttrName).(string)
			f.typ, _ = e.Val(dwarf.AttrType).(dwarf.Offset)
			at, _ := e.Val(dwarf.AttrDataMemberLoc).(int64)
			f.offset = uint32(at)
			out = append(out, f)
		}
		if e.Children {
			d.reader.SkipChildren()
		}
	}
}

// named returns a struct type by its name, or nil.
func (d *debugInfo) named(name string) *typ {
	offset, ok := d.byName[name]
	if !ok {
		return nil
	}
	return d.typ(offset)
}

// offsetOf returns the offset of a field, and its type.
func (d *debugInfo) offsetOf(t *typ, name string) (uint32, *typ, bool) {
	if t != nil {
		for _, f := range t.fields {
			if f.name == name {
				return f.offset, d.typ(f.typ), true
			}
		}
	}
	return 0, nil, false
}

// timerLayout returns where the runtime keeps timers; false without DWARF or for an unknown version of Go.
func (b *Binary) timerLayout() (timerLayout, bool) {
	if b == nil || b.debug == nil {
		return timerLayout{}, false
	}
	d := b.debug
	timers, in, ok1 := d.offsetOf(d.named("runtime.p"), "timers")
	heap, _, ok2 := d.offsetOf(in, "heap")
	entry := d.named("runtime.timerWhen")
	timer, _, ok3 := d.offsetOf(entry, "timer")
	arg, _, ok4 := d.offsetOf(d.named("runtime.timer"), "arg")
	if !ok1 || !ok2 || !ok3 || !ok4 || entry.size == 0 {
		return timerLayout{}, false
	}
	return timerLayout{heap: timers + heap, entry: entry.size, timer: timer, arg: arg + wordSize}, true
}

// shape says what the memory of an object is: a value of a type, an array of values, or a closure. It starts base bytes
// after the start of the object.
type shape struct {
	typ     dwarf.Offset
	array   bool
	closure uint64 // entry of its function
	base    uint32
}

// slot is a pointer-sized field of a shape.
type slot struct {
	path    string // from the start of the shape: ".items", "[].next"
	typ     *typ
	target  shape // what a pointer in the slot points to, if known
	known   bool
	dynamic bool // the data word of an interface
	mapDir  bool // the directory of a map, or its only group
}

type slotKey struct {
	typ    dwarf.Offset
	offset uint32
}

type slotResult struct {
	slot
	ok bool
}

// slotIn returns the slot at an offset of a value.
func (d *debugInfo) slotIn(of dwarf.Offset, offset uint32) (slot, bool) {
	key := slotKey{of, offset}
	r, ok := d.slots[key]
	if !ok {
		r.slot, r.ok = d.findSlot(of, offset)
		if len(d.slots) < maxSlots {
			d.slots[key] = r
		}
	}
	return r.slot, r.ok
}

func (d *debugInfo) findSlot(of dwarf.Offset, offset uint32) (slot, bool) {
	path := ""
	for {
		t := d.typ(of)
		if offset >= max(t.size, 1) {
			return slot{}, false
		}
		switch t.kind {
		case reflect.Struct:
			if strings.HasPrefix(t.name, "sync/atomic.Pointer[") && len(t.fields) > 0 {
				if hint := d.typ(t.fields[0].typ); hint.kind == reflect.Array { // _ [0]*T
					return slot{path: path, typ: t, target: shape{typ: d.typ(hint.elem).elem}, known: true}, true
				}
			}
			f, ok := t.fieldAt(offset, d)
			if !ok {
				return slot{}, false
			}
			if f.name == "dirPtr" && strings.HasPrefix(t.name, "map<") {
				return slot{path: path, typ: d.typ(f.typ), target: shape{typ: d.typ(f.typ).elem, array: true}, known: true, mapDir: true}, true
			}
			if f.name == "buf" && strings.HasPrefix(t.name, "hchan<") {
				elem, ok := d.chanElems[of]
				return slot{path: path, typ: d.typ(f.typ), target: shape{typ: elem, array: true}, known: ok}, true
			}
			path, of, offset = path+"."+f.name, f.typ, offset-f.offset
		case reflect.Array:
			elem := d.typ(t.elem)
			if elem.size == 0 {
				return slot{}, false
			}
			path, of, offset = path+"[]", t.elem, offset%elem.size
		case reflect.Slice:
			return slot{path: path, typ: t, target: shape{typ: t.elem, array: true}, known: offset == 0}, offset == 0
		case reflect.String:
			return slot{path: path, typ: t}, offset == 0
		case reflect.Pointer, reflect.Map, reflect.Chan:
			groups := strings.Contains(d.typ(t.elem).name, "map.group[") // a map's table has an array of them
			return slot{path: path, typ: t, target: shape{typ: t.elem, array: groups}, known: true}, true
		case reflect.Interface:
			return slot{path: path, typ: t, dynamic: true}, offset == wordSize
		case reflect.Func, reflect.UnsafePointer:
			return slot{path: path, typ: t}, true
		default:
			return slot{}, false
		}
	}
}

// fieldAt returns the field that contains an offset.
func (t *typ) fieldAt(offset uint32, d *debugInfo) (field, bool) {
	for _, f := range t.fields {
		if offset >= f.offset && offset < f.offset+d.typ(f.typ).size {
			return f, true
		}
	}
	return field{}, false
}

func le64(b []byte) uint64 {
	v := uint64(0)
	for i := 7; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}
