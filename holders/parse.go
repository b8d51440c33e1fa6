package holders

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

const header = "go1.7 heap dump\n"

// Tags of records.
const (
	tagEOF = iota
	tagObject
	tagOtherRoot
	tagType
	tagGoroutine
	tagStackFrame
	tagParams
	tagFinalizer
	tagItab
	tagOSThread
	tagMemStats
	tagQueuedFinalizer
	tagData
	tagBSS
	tagDefer
	tagPanic
	tagMemProf
	tagAllocSample
)

const (
	wordSize = 8
	pageSize = 8 << 10 // of the runtime's heap
	memStats = 24 + 256 + 1
	none     = math.MaxUint32 // no object, no edge, no type
)

// dump is a parsed heap dump. A reference is the index of a word, counted from heapStart.
type dump struct {
	bin                *Binary
	heapStart, heapEnd uint64
	slide              uint64 // of the loaded binary
	version            string

	// Object i starts at word start[i]. Its edges are targets[edges[i]:edges[i+1]] in the order of their fields, and
	// gaps[e] is the distance in words from the field before (or the start of the object) to the field of edge e.
	// A distance that does not fit is in longGaps.
	start    []uint32
	edges    []uint32
	targets  []uint32
	gaps     []uint8
	longGaps map[uint32]uint32
	spans    []span

	// edgeTypes are dynamic types of interfaces, sorted by edge. closures are objects whose first word is the entry of
	// a function, sorted by object.
	edgeTypes []edgeType
	closures  []closure
	types     []uint64
	typeIndex map[uint64]uint32
	itabs     map[uint64]uint64

	globals    []globalRef
	links      []link
	groups     []*group
	groupIndex map[string]int
	frameRefs  []frameRef
	others     []otherRoot
	finalizers []finalizer
	buckets    map[uint64]*bucket
	samples    []sample
	internals  []uint32 // the runtime's own objects for goroutines and threads
	current    *goroutine
	scratch    []frameWord
	candidates []candidate
}

// span is a run of objects of equal size and ascending addresses, all in words.
type span struct{ first, count, start, end, size uint32 }

type (
	edgeType struct{ edge, typ uint32 }
	closure  struct {
		object uint32
		pc     uint64
	}
	candidate struct{ offset, ref, typ uint32 }
	globalRef struct {
		addr     uint64
		ref, typ uint32
	}
	link      struct{ addr, target uint64 }
	otherRoot struct {
		name string
		ref  uint32
	}
	finalizer struct {
		object, fn uint32
		pc, typ    uint64
		queued     bool
	}
	sample struct {
		ref    uint32
		bucket *bucket
	}
)

// bucket is an allocation stack with the number of sampled allocations and frees.
type bucket struct {
	size          uint64
	frames        []leak.Frame
	allocs, frees uint64
}

// goroutine is the goroutine that the parser reads.
type goroutine struct {
	state   string
	system  bool
	creator uint64
	frames  []*stackFrame
	defers  []uint32
}

type stackFrame struct {
	name      string
	pc, entry uint64
	size      uint64
	words     []frameWord
}

type frameWord struct {
	offset, ref, typ uint32
	precise          bool
}

// group is goroutines with the same functions on their stacks and the same creator.
type group struct {
	creator uint64
	system  bool
	count   int
	states  map[string]int
	frames  []groupFrame
	defers  []uint32
}

// groupFrame is a frame of all goroutines of a group. Its slots are the places of pointers in it.
type groupFrame struct {
	name  string
	pc    uint64
	slots []frameSlot
	index map[frameSlot]uint32
}

// frameSlot is a place in a frame at one program counter, as an offset from the frame's canonical address. The lowest part
// of a frame also has the arguments of the function that it calls, whose program counter is callee; low is the offset
// from that function's canonical address.
type frameSlot struct {
	pc, callee  uint64
	offset, low int64
}

type frameRef struct {
	group, frame, slot uint32
	ref, typ           uint32
	precise            bool
}

// IsDump reports whether a reader starts with a heap dump.
func IsDump(r io.Reader) bool {
	start := make([]byte, len(header))
	_, err := io.ReadFull(r, start)
	return err == nil && string(start) == header
}

// parse reads a heap dump. It keeps no contents of memory.
func parse(r io.Reader, bin *Binary) (*dump, error) {
	s := newStream(r)
	if !s.fill(len(header)) || !bytes.Equal(s.buf[:len(header)], []byte(header)) {
		return nil, errors.New("not a heap dump of Go 1.7 or later: wrong header")
	}
	s.pos, s.read = len(header), int64(len(header))
	d := &dump{
		bin: bin, longGaps: map[uint32]uint32{}, typeIndex: map[uint64]uint32{}, itabs: map[uint64]uint64{},
		groupIndex: map[string]int{}, buckets: map[uint64]*bucket{},
	}
	for {
		tag := s.uint()
		if s.err != nil {
			return nil, s.err
		}
		if d.heapEnd == 0 && tag != tagParams && tag != tagEOF {
			return nil, fmt.Errorf("heap dump: record %d before the parameters", tag)
		}
		if d.current != nil && tag != tagStackFrame && tag != tagDefer && tag != tagPanic {
			s.fail(d.endGoroutine())
		}
		if tag == tagEOF {
			d.edges = append(d.edges, uint32(len(d.targets)))
			d.endSpan()
			d.trim()
			return d, s.err
		}
		if err := d.record(s, tag); err != nil {
			s.fail(err)
		}
		if s.err != nil {
			return nil, s.err
		}
	}
}

// trim frees the room that large arrays have for more. Roots are added to the others.
func (d *dump) trim() {
	d.gaps = append(make([]uint8, 0, len(d.gaps)), d.gaps...)
	d.start = append(make([]uint32, 0, len(d.start)), d.start...)
	d.candidates = nil
}

func (d *dump) record(s *stream, tag uint64) error {
	switch tag {
	case tagObject:
		return d.object(s)
	case tagOtherRoot:
		root := otherRoot{name: s.text(), ref: d.ref(s.uint())}
		d.others = append(d.others, root)
		return exceeds(len(d.others), maxRootRefs, "other roots")
	case tagType:
		s.skip(2)
		s.text()
		s.skip(1)
	case tagGoroutine:
		d.internals = append(d.internals, d.ref(s.uint()))
		s.skip(2)
		g := &goroutine{creator: s.uint()}
		s.skip(1)
		g.system = s.uint() != 0
		s.skip(2)
		g.state = s.text()
		s.skip(4)
		d.current = g
	case tagStackFrame:
		return d.frame(s)
	case tagParams:
		return d.params(s)
	case tagFinalizer, tagQueuedFinalizer:
		f := finalizer{object: d.ref(s.uint()), fn: d.ref(s.uint()), pc: s.uint(), queued: tag == tagQueuedFinalizer}
		s.skip(1)
		f.typ = s.uint()
		d.finalizers = append(d.finalizers, f)
		return exceeds(len(d.finalizers), maxRootRefs, "finalizers")
	case tagItab:
		itab := s.uint()
		d.itabs[itab] = s.uint()
		return exceeds(len(d.itabs), maxItabs, "itabs")
	case tagOSThread:
		d.internals = append(d.internals, d.ref(s.uint()))
		s.skip(2)
		return exceeds(len(d.internals), maxRootRefs, "goroutines and threads")
	case tagMemStats:
		s.skip(memStats)
	case tagData, tagBSS:
		return d.segment(s, tag == tagData)
	case tagDefer:
		at := d.ref(s.uint())
		s.skip(3)
		fn := d.ref(s.uint())
		s.skip(2)
		if d.current != nil {
			d.current.defers = append(d.current.defers, at, fn)
			return exceeds(len(d.current.defers), maxRootRefs, "deferred calls")
		}
	case tagPanic:
		s.skip(6)
	case tagMemProf:
		return d.memProf(s)
	case tagAllocSample:
		at, b := d.ref(s.uint()), d.buckets[s.uint()]
		if at != none && b != nil {
			d.samples = append(d.samples, sample{ref: at, bucket: b})
		}
		return exceeds(len(d.samples), maxSamples, "allocation samples")
	default:
		return fmt.Errorf("unknown record %d", tag)
	}
	return nil
}

func (d *dump) params(s *stream) error {
	bigEndian, size := s.uint(), s.uint()
	d.heapStart, d.heapEnd = s.uint(), s.uint()
	arch := s.text()
	d.version = s.text()
	s.skip(1)
	switch {
	case s.err != nil:
		return s.err
	case bigEndian != 0 || size != wordSize:
		return fmt.Errorf("%s is not supported: only little-endian processors of 64 bits are", display.Quote(arch))
	case d.heapEnd <= d.heapStart || d.heapStart%wordSize != 0:
		return errors.New("the heap has no addresses")
	case d.heapEnd-d.heapStart > maxHeapRange:
		return &LimitError{What: "bytes between its lowest and its highest heap address", Limit: maxHeapRange}
	}
	return nil
}

// ref returns the word that address p points to, or none outside the heap.
func (d *dump) ref(p uint64) uint32 {
	if p < d.heapStart || p >= d.heapEnd {
		return none
	}
	return uint32((p - d.heapStart) / wordSize)
}

// dynamicType returns the index of the type that an interface's first word names: a type or an itab.
func (d *dump) dynamicType(word uint64) uint32 {
	if t, ok := d.itabs[word]; ok {
		word = t
	} else if d.bin == nil || !d.bin.isType(word) {
		return none
	}
	i, ok := d.typeIndex[word]
	if !ok {
		i = uint32(len(d.types))
		d.typeIndex[word] = i
		d.types = append(d.types, word)
	}
	return i
}

func (d *dump) object(s *stream) error {
	addr := s.uint()
	self := uint32(len(d.start))
	d.candidates = d.candidates[:0]
	typeAt, typeWord := uint32(none), uint64(0)
	var first uint64
	size := s.words(maxHeapRange, func(offset uint32, v uint64) {
		if v >= d.heapStart && v < d.heapEnd {
			c := candidate{offset: offset, ref: uint32((v - d.heapStart) / wordSize), typ: none}
			if typeAt != none && typeAt+1 == offset {
				c.typ = d.dynamicType(typeWord)
			}
			d.candidates = append(d.candidates, c)
			return
		}
		if d.bin != nil && v >= d.bin.low && v < d.bin.high {
			typeAt, typeWord = offset, v
			if offset == 0 {
				first = v
			}
		}
	})
	start := d.ref(addr)
	words := uint32(size / wordSize)
	if start == none || addr%wordSize != 0 || words == 0 || size > d.heapEnd-addr {
		return fmt.Errorf("object of %d bytes outside the heap", size)
	}
	d.edges = append(d.edges, uint32(len(d.targets)))
	d.start = append(d.start, start)
	d.addToSpan(start, words)
	if first != 0 && d.bin.isFunc(first) {
		d.closures = append(d.closures, closure{object: self, pc: first})
	}
	last, next := uint32(0), 0
	for i := 0; s.err == nil; i++ {
		kind := s.uint()
		if kind == 0 {
			break
		}
		at := s.uint() / wordSize
		if at >= uint64(words) || i > 0 && at < uint64(last) && next > 0 {
			return errors.New("fields out of order")
		}
		for next < len(d.candidates) && uint64(d.candidates[next].offset) < at {
			next++
		}
		if next == len(d.candidates) || uint64(d.candidates[next].offset) != at {
			continue
		}
		c := d.candidates[next]
		next++
		edge := uint32(len(d.targets))
		if gap := c.offset - last; gap < math.MaxUint8 {
			d.gaps = append(d.gaps, uint8(gap))
		} else {
			d.gaps = append(d.gaps, math.MaxUint8)
			d.longGaps[edge] = gap
		}
		last = c.offset
		d.targets = append(d.targets, c.ref)
		if c.typ != none {
			d.edgeTypes = append(d.edgeTypes, edgeType{edge: edge, typ: c.typ})
		}
	}
	return errors.Join(exceeds(len(d.start), maxObjects, "objects"), exceeds(len(d.targets), maxReferences, "references"))
}

// addToSpan adds an object to the current span, or starts a new one. Objects of one span have gaps of less than a
// page, so no other span lies between them.
func (d *dump) addToSpan(start, words uint32) {
	if n := len(d.spans); n > 0 {
		last := &d.spans[n-1]
		if last.size == words && start >= last.end && start-last.end < pageSize/wordSize {
			last.end = start + words
			return
		}
	}
	d.endSpan()
	d.spans = append(d.spans, span{first: uint32(len(d.start) - 1), start: start, end: start + words, size: words})
}

func (d *dump) endSpan() {
	if n := len(d.spans); n > 0 {
		last := &d.spans[n-1]
		if last.count == 0 {
			end := uint32(len(d.start))
			if last.end != d.start[end-1]+last.size { // the newest object starts the next span
				end--
			}
			last.count = end - last.first
		}
	}
}

func (d *dump) frame(s *stream) error {
	if d.current == nil {
		return errors.New("stack frame without goroutine")
	}
	s.skip(3)
	f := &stackFrame{}
	d.scratch = d.scratch[:0]
	typeAt, typeWord := uint32(none), uint64(0)
	f.size = s.words(maxHeapRange, func(offset uint32, v uint64) {
		if v < d.heapStart || v >= d.heapEnd {
			typeAt, typeWord = offset, v
			return
		}
		w := frameWord{offset: offset, ref: d.ref(v), typ: none}
		if typeAt != none && typeAt+1 == offset {
			w.typ = d.dynamicType(typeWord)
		}
		d.scratch = append(d.scratch, w)
	})
	f.entry, f.pc = s.uint(), s.uint()
	s.skip(1)
	f.name = s.text()
	for s.err == nil && s.uint() != 0 {
		at := s.uint() / wordSize
		i, ok := slices.BinarySearchFunc(d.scratch, at, func(w frameWord, at uint64) int { return int(int64(w.offset) - int64(at)) })
		if ok {
			d.scratch[i].precise = true
		}
	}
	f.words = slices.Clone(d.scratch)
	d.current.frames = append(d.current.frames, f)
	return exceeds(len(d.current.frames), maxFrames, "frames in one goroutine")
}

// endGoroutine adds the goroutine that the parser has read to its group.
func (d *dump) endGoroutine() error {
	g := d.current
	d.current = nil
	key := []byte(d.bin.funcName(g.creator))
	if len(key) == 0 {
		key = strconv.AppendUint(nil, g.creator, 16)
	}
	for _, f := range g.frames {
		key = append(key, 0)
		key = append(key, f.name...)
	}
	i, ok := d.groupIndex[string(key)]
	if !ok {
		i = len(d.groups)
		d.groupIndex[string(key)] = i
		frames := make([]groupFrame, len(g.frames))
		for n, f := range g.frames {
			frames[n] = groupFrame{name: f.name, pc: f.pc, index: map[frameSlot]uint32{}}
		}
		d.groups = append(d.groups, &group{creator: g.creator, system: g.system, frames: frames, states: map[string]int{}})
	}
	to := d.groups[i]
	to.count++
	to.states[g.state]++
	to.defers = append(to.defers, g.defers...)
	for n, f := range g.frames {
		frame := &to.frames[n]
		for _, w := range f.words {
			at := frameSlot{pc: f.pc, offset: int64(w.offset)*wordSize - int64(f.size), low: int64(w.offset) * wordSize}
			if n > 0 {
				at.callee = g.frames[n-1].pc
			}
			slot, ok := frame.index[at]
			if !ok {
				slot = uint32(len(frame.slots))
				frame.index[at] = slot
				frame.slots = append(frame.slots, at)
			}
			d.frameRefs = append(d.frameRefs, frameRef{group: uint32(i), frame: uint32(n), slot: slot, ref: w.ref, typ: w.typ, precise: w.precise})
		}
	}
	return errors.Join(exceeds(len(d.groups), maxGroups, "groups of goroutines"), exceeds(len(d.frameRefs), maxRootRefs, "pointers in stacks"))
}

// segment reads the data or bss segment. Its address also shows how far the binary is from its linked address.
func (d *dump) segment(s *stream, data bool) error {
	at := s.uint()
	if d.bin != nil && data && d.bin.dataAddr != 0 && s.err == nil {
		d.slide = at - d.bin.dataAddr
	}
	d.candidates = d.candidates[:0]
	var links []candidate
	var targets []uint64
	typeAt, typeWord := uint32(none), uint64(0)
	s.words(maxSegment, func(offset uint32, v uint64) {
		if ref := d.ref(v); ref != none {
			c := candidate{offset: offset, ref: ref, typ: none}
			if typeAt != none && typeAt+1 == offset {
				c.typ = d.dynamicType(typeWord)
			}
			d.candidates = append(d.candidates, c)
			return
		}
		typeAt, typeWord = offset, v
		if d.bin != nil && d.bin.isStatic(v-d.slide) {
			links = append(links, candidate{offset: offset})
			targets = append(targets, v)
		}
	})
	next, nextLink := 0, 0
	for s.err == nil && s.uint() != 0 {
		field := s.uint()
		for next < len(d.candidates) && uint64(d.candidates[next].offset)*wordSize < field {
			next++
		}
		for nextLink < len(links) && uint64(links[nextLink].offset)*wordSize < field {
			nextLink++
		}
		if next < len(d.candidates) && uint64(d.candidates[next].offset)*wordSize == field {
			d.globals = append(d.globals, globalRef{addr: at + field, ref: d.candidates[next].ref, typ: d.candidates[next].typ})
		} else if nextLink < len(links) && uint64(links[nextLink].offset)*wordSize == field {
			d.links = append(d.links, link{addr: at + field, target: targets[nextLink]})
		}
	}
	return exceeds(len(d.globals)+len(d.links), maxRootRefs, "pointers in global variables")
}

func (d *dump) memProf(s *stream) error {
	id := s.uint()
	b := &bucket{size: s.uint()}
	n := s.uint()
	if n > maxFrames {
		return &LimitError{What: "frames in one allocation stack", Limit: maxFrames}
	}
	for range n {
		if s.err != nil {
			return s.err
		}
		b.frames = append(b.frames, leak.Frame{Func: s.text(), File: s.text(), Line: int(int32(s.uint()))})
	}
	b.allocs, b.frees = s.uint(), s.uint()
	d.buckets[id] = b
	return exceeds(len(d.buckets), maxBuckets, "allocation stacks")
}
