package holders

import (
	"debug/dwarf"
	"slices"
	"sort"
	"strings"
)

// Operations of DWARF location expressions that the Go compiler writes.
const (
	opReg0     = 0x50
	opReg31    = 0x6f
	opRegx     = 0x90
	opFbreg    = 0x91
	opPiece    = 0x93
	opFrameCFA = 0x9c
)

// functionLocals are the local variables and parameters of a function, and the variables that it captures.
type functionLocals struct {
	variables []local
	captured  []field
	calls     []inlinedCall
}

// inlinedCall is a call that the compiler has inlined, and how deep it is in other entries.
type inlinedCall struct {
	name   string
	depth  int
	ranges [][2]uint64
}

// local is a variable of a function, with an expression that holds everywhere or a list of expressions by address.
type local struct {
	name  string
	scope string // the inlined function that declares it, or ""
	typ   dwarf.Offset
	expr  []byte
	list  int64

	parameter bool
}

// piece is a part of a variable that is in memory.
type piece struct {
	variable, size uint32
	frame          int64 // offset from the canonical frame address
}

func (d *debugInfo) funcAt(pc uint64) (function, bool) {
	i := sort.Search(len(d.funcs), func(i int) bool { return d.funcs[i].low > pc }) - 1
	if i < 0 || pc >= d.funcs[i].high {
		return function{}, false
	}
	return d.funcs[i], true
}

// localAt returns the variable at an offset from the canonical frame address of the function that the address pc returns
// to, and the slot in it. Where the function has saved a variable for the call, the list of locations says so from pc on,
// and before pc it still names the register.
func (d *debugInfo) localAt(pc uint64, offset int64) (v local, s slot, ok bool) {
	f, ok := d.funcAt(pc - 1)
	if !ok {
		return local{}, slot{}, false
	}
	for _, at := range []uint64{pc, pc - 1} {
		for _, v := range d.localsOf(f).variables {
			expr := v.expr
			if expr == nil {
				expr = d.location(f, v.list, at)
			}
			for _, p := range pieces(expr, d.typ(v.typ).size) {
				if offset >= p.frame && offset < p.frame+int64(p.size) {
					if s, ok := d.slotIn(v.typ, p.variable+uint32(offset-p.frame)); ok {
						return v, s, true
					}
				}
			}
		}
	}
	return local{}, slot{}, false
}

// isStackVariable reports whether a variable that is always in memory is at an offset from the canonical frame address.
func (b *Binary) isStackVariable(pc uint64, offset int64) bool {
	if b == nil || b.debug == nil {
		return false
	}
	f, ok := b.debug.funcAt(pc - 1)
	if !ok {
		return false
	}
	for _, v := range b.debug.localsOf(f).variables {
		for _, p := range pieces(v.expr, b.debug.typ(v.typ).size) {
			if offset >= p.frame && offset < p.frame+int64(p.size) {
				return true
			}
		}
	}
	return false
}

func (d *debugInfo) localsOf(f function) *functionLocals {
	if l, ok := d.locals[f.low]; ok {
		return l
	}
	l := &functionLocals{}
	d.locals[f.low] = l
	r := d.data.Reader()
	r.Seek(f.offset)
	top, err := r.Next()
	if err != nil || top == nil || !top.Children {
		return l
	}
	scopes := []string{""} // the inlined functions that contain an entry
	for len(scopes) > 0 {
		e, err := r.Next()
		if err != nil || e == nil {
			return l
		}
		scope := scopes[len(scopes)-1]
		switch e.Tag {
		case 0:
			scopes = scopes[:len(scopes)-1]
			continue
		case dwarf.TagInlinedSubroutine:
			scope = d.inlined(l, e, len(scopes))
		case dwarf.TagVariable, dwarf.TagFormalParameter:
			d.addLocal(l, e, scope)
		}
		if e.Children {
			scopes = append(scopes, scope)
		}
	}
	return l
}

// inlined adds an inlined call and returns the name of its function.
func (d *debugInfo) inlined(l *functionLocals, e *dwarf.Entry, depth int) string {
	ranges, err := d.data.Ranges(e)
	origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
	if err != nil || !ok {
		return ""
	}
	d.reader.Seek(origin)
	o, err := d.reader.Next()
	if err != nil || o == nil {
		return ""
	}
	name, _ := o.Val(dwarf.AttrName).(string)
	l.calls = append(l.calls, inlinedCall{name: name, depth: depth, ranges: ranges})
	return name
}

// functionsAt returns the functions inlined at an address, innermost first, without the function that contains them.
func (d *debugInfo) functionsAt(pc uint64) []string {
	f, ok := d.funcAt(pc)
	if !ok {
		return nil
	}
	var out []string
	depth := 0
	for _, c := range d.localsOf(f).calls {
		for _, r := range c.ranges {
			if pc >= r[0] && pc < r[1] && c.depth > depth {
				out = append(out, c.name)
				depth = c.depth
				break
			}
		}
	}
	slices.Reverse(out)
	return out
}

// receiver returns the type of the receiver that a method value holds: the wrapper main.(*T).f-fm calls main.(*T).f.
func (d *debugInfo) receiver(wrapper function) (dwarf.Offset, bool) {
	method, ok := strings.CutSuffix(wrapper.name, "-fm")
	if !ok {
		return 0, false
	}
	for _, v := range d.localsOf(wrapper).variables {
		if v.scope == method && v.parameter {
			return v.typ, true
		}
	}
	if f, ok := d.methods[method]; ok {
		for _, v := range d.localsOf(d.funcs[f]).variables {
			if v.scope == "" && v.parameter {
				return v.typ, true
			}
		}
	}
	return 0, false
}

func (d *debugInfo) addLocal(l *functionLocals, e *dwarf.Entry, scope string) {
	v := local{scope: scope, list: -1, parameter: e.Tag == dwarf.TagFormalParameter}
	v.name, _ = e.Val(dwarf.AttrName).(string)
	v.typ, _ = e.Val(dwarf.AttrType).(dwarf.Offset)
	captured, isCaptured := e.Val(attrGoClosure).(int64)
	if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
		d.reader.Seek(origin)
		if o, err := d.reader.Next(); err == nil && o != nil {
			v.name, _ = o.Val(dwarf.AttrName).(string)
			v.typ, _ = o.Val(dwarf.AttrType).(dwarf.Offset)
			if !isCaptured {
				captured, isCaptured = o.Val(attrGoClosure).(int64)
			}
		}
	}
	if isCaptured {
		l.captured = append(l.captured, field{name: v.name, offset: uint32(captured), typ: v.typ})
	}
	switch at := e.Val(dwarf.AttrLocation).(type) {
	case []byte:
		v.expr = at
	case int64:
		v.list = at
	default:
		return
	}
	l.variables = append(l.variables, v)
}

// location returns the expression of a location list for an address, or nil.
func (d *debugInfo) location(f function, at int64, pc uint64) []byte {
	if at < 0 || at >= int64(len(d.loclists)) {
		return nil
	}
	b := &cursor{b: d.loclists[at:]}
	base := f.low
	for b.ok() {
		var low, high uint64
		switch b.byte() {
		case 1: // DW_LLE_base_addressx
			i := f.addrBase + int64(b.uint())*wordSize
			if i < 0 || i+wordSize > int64(len(d.addrs)) {
				return nil
			}
			base = le64(d.addrs[i:])
			continue
		case 3: // DW_LLE_startx_length
			i := f.addrBase + int64(b.uint())*wordSize
			if i < 0 || i+wordSize > int64(len(d.addrs)) {
				return nil
			}
			low = le64(d.addrs[i:])
			high = low + b.uint()
		case 4: // DW_LLE_offset_pair
			low, high = base+b.uint(), base+b.uint()
		case 6: // DW_LLE_base_address
			base = le64(b.take(wordSize))
			continue
		case 7: // DW_LLE_start_end
			low, high = le64(b.take(wordSize)), le64(b.take(wordSize))
		case 8: // DW_LLE_start_length
			low = le64(b.take(wordSize))
			high = low + b.uint()
		default: // the end, or nothing that the Go compiler writes
			return nil
		}
		expr := b.take(int(b.uint()))
		if pc >= low && pc < high {
			return expr
		}
	}
	return nil
}

// pieces returns the parts of a variable that a location expression places in the frame.
func pieces(expr []byte, size uint32) []piece {
	var out []piece
	b := &cursor{b: expr}
	at, inFrame, frame, pieced := uint32(0), false, int64(0), false
	for len(b.b) > 0 && b.ok() {
		switch op := b.byte(); {
		case op == opFrameCFA:
			inFrame, frame = true, 0
		case op == opFbreg:
			inFrame, frame = true, b.int()
		case op == opPiece:
			n := uint32(b.uint())
			if inFrame {
				out = append(out, piece{variable: at, size: n, frame: frame})
			}
			at, inFrame, pieced = at+n, false, true
		case op >= opReg0 && op <= opReg31:
		case op == opRegx:
			b.uint()
		default:
			return nil
		}
	}
	if inFrame && !pieced {
		out = append(out, piece{size: size, frame: frame})
	}
	return out
}

// cursor reads bytes of DWARF. After the end, it returns zeros and ok is false.
type cursor struct {
	b   []byte
	end bool
}

func (c *cursor) ok() bool { return !c.end }

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.end = true
		return make([]byte, wordSize)
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) byte() byte { return c.take(1)[0] }

func (c *cursor) uint() uint64 {
	v := uint64(0)
	for shift := uint(0); shift < 64; shift += 7 {
		b := c.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return v
}

func (c *cursor) int() int64 {
	v := int64(0)
	for shift := uint(0); shift < 64; {
		b := c.byte()
		v |= int64(b&0x7f) << shift
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			break
		}
	}
	return v
}
