package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// tally counts one kind of thing in a target, by stack and in total: goroutines, or KiB of the heap.
type tally struct {
	Total  Counts   `json:"total"`
	Groups []*Group `json:"groups"`
	// Constant has the stacks whose count never changed, each with its count: stack, count, stack, count. Only records
	// on disk have it, since most stacks of most targets are constant. SameAs is the number of an earlier target with
	// the same constant stacks, from 1.
	Constant []int32 `json:"constant,omitempty"`
	SameAs   int     `json:"sameAs,omitempty"`

	byStack map[int]*Group
}

// Group counts what stands on one stack.
type Group struct {
	// Stack is the place in the record's stacks, or Other.
	Stack  int    `json:"stack"`
	Counts Counts `json:"counts"`
}

func newTally() *tally {
	return &tally{Total: Counts{}, Groups: []*Group{}, byStack: map[int]*Group{}}
}

// add adds a point.
func (t *tally) add(r reading) {
	n := len(t.Total)
	t.Total = t.Total.with(clip(r.total))
	for _, c := range r.counts {
		g := t.group(c.stack, n)
		if len(g.Counts) == n {
			g.Counts = g.Counts.with(c.n)
			continue
		}
		g.Counts = g.Counts.changed(n, clip(int64(g.Counts[n])+int64(c.n)))
	}
	for _, g := range t.Groups {
		if len(g.Counts) == n {
			g.Counts = g.Counts.with(0)
		}
	}
}

// merge takes one more reading into the last point.
func (t *tally) merge(r reading) {
	n := len(t.Total) - 1
	t.Total = t.Total.changed(n, min(t.Total[n], clip(r.total)))
	sums := map[*Group]int64{}
	for _, c := range r.counts {
		sums[t.group(c.stack, n+1)] += int64(c.n)
	}
	for _, g := range t.Groups {
		g.Counts = g.Counts.changed(n, min(g.Counts[n], clip(sums[g])))
	}
}

// group is the one that counts a stack; one that comes late had none in the n points before.
func (t *tally) group(stack, n int) *Group {
	if g := t.byStack[stack]; g != nil {
		return g
	}
	if len(t.Groups) >= maxGroups {
		stack = Other
		if g := t.byStack[stack]; g != nil {
			return g
		}
	}
	g := &Group{Stack: stack, Counts: constant(0, n)}
	t.byStack[stack] = g
	t.Groups = append(t.Groups, g)
	return g
}

// thin makes one point of every two, their minimum.
func (t *tally) thin() {
	for _, c := range t.all() {
		if len(*c) > 1 && (*c).isConstant() {
			*c = constant((*c)[0], len(*c)/2)
			continue
		}
		half := make(Counts, 0, maxPoints)
		for i := 0; i+1 < len(*c); i += 2 {
			half = append(half, min((*c)[i], (*c)[i+1]))
		}
		*c = half
	}
}

// close ends a tally. keep is set if its counts by stack are worth keeping.
func (t *tally) close(keep bool) {
	t.byStack = nil
	if !keep {
		t.Groups = []*Group{}
	}
}

// all are the total and the groups.
func (t *tally) all() []*Counts {
	all := []*Counts{&t.Total}
	for _, g := range t.Groups {
		all = append(all, &g.Counts)
	}
	return all
}

// complete expands constant counts to n points and refuses inconsistent ones.
func (t *tally) complete(n, stacks int) error {
	for _, g := range t.Groups {
		if g == nil || g.Stack >= stacks || g.Stack < 0 && g.Stack != Other {
			return errors.New("a group on no stack")
		}
	}
	for _, c := range t.all() {
		if len(*c) == 1 && n > 1 {
			*c = constant((*c)[0], n)
		}
		if len(*c) != n {
			return fmt.Errorf("%d counts at %d points", len(*c), n)
		}
	}
	return nil
}

// Counts has one count per point. Constant counts share their memory. In JSON, a constant series is one number, and
// other series are a list or, if that is shorter, a text of differences.
type Counts []int32

// constants are shared series of one count, by that count. The most frequent counts are small.
var constants struct {
	sync.Mutex
	of map[int32]Counts
}

// maxShared limits the number of shared series.
const maxShared = 1 << 16

// constant returns n times the same count. The result must not be written to.
func constant(value int32, n int) Counts {
	if n > maxPoints {
		return slices.Repeat(Counts{value}, n)
	}
	constants.Lock()
	defer constants.Unlock()
	shared, ok := constants.of[value]
	if !ok {
		shared = slices.Repeat(Counts{value}, maxPoints)
		if constants.of == nil {
			constants.of = map[int32]Counts{}
		}
		if len(constants.of) < maxShared {
			constants.of[value] = shared
		}
	}
	return shared[:n:n]
}

func (c Counts) isConstant() bool { return len(c) == 0 || slices.Max(c) == slices.Min(c) }

// with returns the counts with one more point.
func (c Counts) with(value int32) Counts {
	switch {
	case len(c) < maxPoints && c.isConstant() && (len(c) == 0 || c[0] == value):
		return constant(value, len(c)+1)
	case cap(c) > len(c):
		return append(c, value) // an own copy: shared counts have no room
	}
	own := make(Counts, len(c), min(max(2*len(c), 16), max(maxPoints, len(c)+1)))
	copy(own, c)
	return append(own, value)
}

// changed returns the counts with another count at a point.
func (c Counts) changed(at int, value int32) Counts {
	if c[at] == value {
		return c
	}
	if cap(c) == len(c) { // they may be shared
		c = append(make(Counts, 0, len(c)+1), c...)
	}
	c[at] = value
	return c
}

// MarshalJSON writes a number if there are several equal counts, and else the shorter of a list and a text.
func (c Counts) MarshalJSON() ([]byte, error) {
	if len(c) > 1 && c.isConstant() {
		return strconv.AppendInt(nil, int64(c[0]), 10), nil
	}
	list := append(make([]byte, 0, 4*len(c)+2), '[')
	for i, n := range c {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, int64(n), 10)
	}
	list = append(list, ']')
	if text := c.differences(); len(text)+2 < len(list) {
		return strconv.AppendQuote(nil, text), nil
	}
	return list, nil
}

// differences writes the first count and the difference of each other one to the one before. "z7" stands for seven
// points without a difference.
func (c Counts) differences() string {
	var b []byte
	zeros := 0
	flush := func() {
		if zeros > 0 {
			b = strconv.AppendInt(append(b, 'z'), int64(zeros), 10)
			b = append(b, ' ')
			zeros = 0
		}
	}
	before := int64(0)
	for i, n := range c {
		d := int64(n) - before
		before = int64(n)
		if d == 0 && i > 0 {
			zeros++
			continue
		}
		flush()
		b = append(strconv.AppendInt(b, d, 10), ' ')
	}
	flush()
	return strings.TrimSuffix(string(b), " ")
}

// mostRead limits the points of one series in a record.
const mostRead = 100_000

// UnmarshalJSON reads a list, a number as a list of one, or a text of differences.
func (c *Counts) UnmarshalJSON(b []byte) error {
	switch {
	case strings.HasPrefix(string(b), "["):
		return json.Unmarshal(b, (*[]int32)(c))
	case !strings.HasPrefix(string(b), `"`):
		*c = make(Counts, 1)
		return json.Unmarshal(b, &(*c)[0])
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	*c = Counts{}
	value := int64(0)
	for word := range strings.FieldsSeq(text) {
		if number, ok := strings.CutPrefix(word, "z"); ok {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > mostRead-len(*c) || len(*c) == 0 {
				return fmt.Errorf("counts: %q", word)
			}
			*c = append(*c, slices.Repeat(Counts{int32(value)}, n)...)
			continue
		}
		d, err := strconv.ParseInt(word, 10, 33)
		if value += d; err != nil || value != int64(clip(value)) || len(*c) >= mostRead {
			return fmt.Errorf("counts: %q", word)
		}
		*c = append(*c, int32(value))
	}
	return nil
}

// sameness finds an earlier target with the same constant stacks.
type sameness map[string]int

// packed returns a target as the record on disk has it, the i-th of its list.
func (s *Series) packed(i int, seen sameness) *Series {
	short := *s
	short.tally = *s.tally.packed(i, "goroutines", seen)
	if s.Heap != nil {
		short.Heap = s.Heap.packed(i, "heap", seen)
	}
	return &short
}

func (t *tally) packed(i int, kind string, seen sameness) *tally {
	short := &tally{Total: t.Total, Groups: []*Group{}}
	var still []*Group
	for _, g := range t.Groups {
		if len(t.Total) < 2 || !g.Counts.isConstant() {
			short.Groups = append(short.Groups, g)
			continue
		}
		still = append(still, g)
	}
	slices.SortFunc(still, func(a, b *Group) int { return a.Stack - b.Stack })
	key := []byte(kind)
	for _, g := range still {
		short.Constant = append(short.Constant, int32(g.Stack), g.Counts[0])
		key = fmt.Appendf(key, " %d %d", g.Stack, g.Counts[0])
	}
	if len(short.Constant) == 0 {
		return short
	}
	if same, ok := seen[string(key)]; ok {
		short.Constant, short.SameAs = nil, same+1
		return short
	}
	seen[string(key)] = i
	return short
}

// unpack restores the constant stacks of a target. before are the targets before it in the record.
func (s *Series) unpack(before []*Series) error {
	err := s.tally.unpack(len(s.Seconds), func(i int) []int32 { return before[i].Constant }, len(before))
	if err == nil && s.Heap != nil {
		err = s.Heap.unpack(len(s.Seconds), func(i int) []int32 {
			if before[i].Heap == nil {
				return nil
			}
			return before[i].Heap.Constant
		}, len(before))
	}
	return err
}

func (t *tally) unpack(n int, of func(int) []int32, before int) error {
	list := t.Constant
	if t.SameAs != 0 {
		if t.SameAs < 0 || t.SameAs > before || len(of(t.SameAs-1)) == 0 {
			return errors.New("the same stacks as no target")
		}
		list = of(t.SameAs - 1)
	}
	if len(list)%2 != 0 || len(list) > 2*(maxGroups+1) {
		return errors.New("constant stacks that are none")
	}
	for i := 0; i < len(list); i += 2 {
		t.Groups = append(t.Groups, &Group{Stack: int(list[i]), Counts: constant(list[i+1], n)})
	}
	slices.SortStableFunc(t.Groups, func(a, b *Group) int {
		if a == nil || b == nil {
			return 0
		}
		return a.Stack - b.Stack
	})
	return nil
}
