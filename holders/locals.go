package holders

import (
	"debug/dwarf"
	"sort"
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
}

// local is a variable of a function, with an expression that holds everywhere or a list of expressions by address.
type local struct {
	name string
	typ  dwarf.Offset
	expr []byte
	list int64
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

// localAt returns the variable at an offset from the canonical frame address of the function at pc, and the slot in it.
func (d *debugInfo) localAt(pc uint64, offset int64) (name string, s slot, ok bool) {
	f, ok := d.funcAt(pc)
	if !ok {
		return "", slot{}, false
	}
	for _, v := range d.localsOf(f).variables {
		expr := v.expr
		if expr == nil {
			expr = d.location(f, v.list, pc)
		}
		size := d.typ(v.typ).size
		for _, p := range pieces(expr, size) {
			if offset >= p.frame && offset < p.frame+int64(p.size) {
				if s, ok := d.slotIn(v.typ, p.variable+uint32(offset-p.frame)); ok {
					return v.name, s, true
				}
			}
		}
	}
	return "", slot{}, false
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
	for depth := 1; depth > 0; {
		e, err := r.Next()
		if err != nil || e == nil {
			return l
		}
		if e.Tag == 0 {
			depth--
			continue
		}
		if e.Children {
			depth++
		}
		if e.Tag == dwarf.TagVariable || e.Tag == dwarf.TagFormalParameter {
			d.addLocal(l, e)
		}
	}
	return l
}

func (d *debugInfo) addLocal(l *functionLocals, e *dwarf.Entry) {
	v := local{list: -1}
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
