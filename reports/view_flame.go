package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Limits of a flame graph. All graphs of a page share them, so that a page with 10,000 stacks per variant stays
// small. The graph states in place what it omits.
const (
	flameLeast  = 0.001 // of the whole width
	flameReach  = 0.02  // a row without a frame of this width is not drawn, and nothing below it
	flameFrames = 200   // per page: people mail it, and its script has all frames
	flameDepth  = 64
	flameLabel  = 0.02    // narrower frames have no room for a name
	flameRow    = 19      // units
	flameMost   = 1 << 48 // per stack, so that sums of untrusted numbers cannot overflow
	flameTable  = 15      // functions in the table
	flameBrief  = 6       // the same if nothing leaks, and for objects, which are on the same stacks as bytes
)

// stackChange holds the amounts on one stack at the baseline and after the last round.
type stackChange struct {
	Stack    leak.Stack
	From, To int64
}

func (c stackChange) delta() int64 { return c.To - c.From }

// flameSubject is the input of one set of graphs: the stacks of one program.
type flameSubject struct {
	Stacks      map[string]leak.Stack
	First, Last *leak.Snapshot
	// Fingerprint holds the functions at which the fingerprint matches.
	Fingerprint map[string]bool
	// Lead is the probe that found the leak, "" if none did.
	Lead string
	// Sudden is set if growth per operation is meaningless.
	Sudden bool
}

// operations is the number of operations between the two snapshots, 0 if a rate is unknown or meaningless.
func (s flameSubject) operations() int {
	if s.Sudden || s.First == nil || s.Last == nil {
		return 0
	}
	return max(s.Last.Operations-s.First.Operations, 0)
}

// flameSource is the input of one graph: a metric of a probe.
type flameSource struct {
	Name, Unit, Probe, Source string
	Amount                    func(leak.Group) int64
}

// share returns the metric's weight when metrics divide the frames of a page. Objects get less, because they are on
// the same stacks as bytes.
func (m flameSource) share() int {
	if m.Unit == "objects" {
		return 1
	}
	return 2
}

// flameMetrics are the graphs of a program and of each component. Goroutines come from the profile, not from the text
// dump, so every number matches `go tool pprof`. A shim has only the dump.
var flameMetrics = []flameSource{
	{"Goroutines", "goroutines", "goroutine", "profile", func(g leak.Group) int64 { return g.Count }},
	{"Heap bytes", "bytes", "heap", "heap", func(g leak.Group) int64 { return g.Bytes }},
	{"Heap objects", "objects", "heap", "heap", func(g leak.Group) int64 { return g.Count }},
}

// sources returns the graphs that the samples allow. Graphs of the same binary are adjacent.
func (s flameSubject) sources() []flameSource {
	var list []flameSource
	if s.First == nil {
		return nil
	}
	for _, sample := range s.First.Samples {
		for _, m := range flameMetrics {
			if leak.ProbeKind(sample.Probe) != m.Probe {
				continue
			}
			if component, _, ok := strings.Cut(sample.Probe, "/"); ok {
				m.Name = component + ": " + strings.ToLower(m.Name)
			}
			if sample.Groups[m.Source] == nil && m.Probe == "goroutine" {
				m.Source = "dump"
			}
			m.Probe = sample.Probe
			list = append(list, m)
		}
	}
	return list
}

// changes subtracts the groups of the first snapshot from those of the last, in the order of the record. ok is false
// if a snapshot has no groups.
func (s flameSubject) changes(probe, source string, amount func(leak.Group) int64) (list []stackChange, ok bool) {
	if s.First == nil || s.Last == nil {
		return nil, false
	}
	at := map[string]int{}
	add := func(shot *leak.Snapshot, value func(*stackChange) *int64) bool {
		sample := shot.Sample(probe)
		if sample == nil || sample.Groups[source] == nil {
			return false
		}
		for _, g := range sample.Groups[source] {
			stack, known := s.Stacks[g.Stack]
			if !known {
				continue
			}
			i, seen := at[g.Stack]
			if !seen {
				i, at[g.Stack], list = len(list), len(list), append(list, stackChange{Stack: stack})
			}
			*value(&list[i]) += min(max(amount(g), 0), flameMost)
		}
		return true
	}
	from := add(s.First, func(c *stackChange) *int64 { return &c.From })
	to := add(s.Last, func(c *stackChange) *int64 { return &c.To })
	return list, from && to
}

// flameNode is a frame with its callees.
type flameNode struct {
	Func string
	// State is the wait state of goroutines whose innermost frame is this one.
	State            string
	Own, Total       int64
	From, To         int64
	Fingerprint      bool
	caller           bool  // has callees, and is not the root
	width            int64 // sum of absolute changes: a shrinking and a growing stack do not cancel out
	children         []*flameNode
	index            map[flameKey]*flameNode
	dropped          int
	droppedNet, lost int64 // total change of the dropped children, and their width
}

type flameKey struct{ fn, state string }

// flameTree arranges stacks as a tree of callers and callees, outermost first.
func flameTree(list []stackChange, fingerprint map[string]bool) *flameNode {
	root := &flameNode{Func: "all stacks"}
	for _, c := range list {
		root.add(c, fingerprint)
	}
	root.sort()
	return root
}

func (n *flameNode) add(c stackChange, fingerprint map[string]bool) {
	n.count(c)
	for i, f := range slices.Backward(c.Stack.Frames) {
		state := ""
		if i == 0 {
			state = c.Stack.State
		}
		n = n.child(f.Func, state)
		n.count(c)
		n.Fingerprint = fingerprint[f.Func]
	}
	n.Own += c.delta()
}

func (n *flameNode) count(c stackChange) {
	n.From += c.From
	n.To += c.To
	n.Total += c.delta()
	n.width += abs(c.delta())
}

func (n *flameNode) child(name, state string) *flameNode {
	key := flameKey{name, state}
	if n.index[key] == nil {
		if n.index == nil {
			n.index = map[flameKey]*flameNode{}
		}
		n.index[key] = &flameNode{Func: name, State: state, caller: true}
		n.children = append(n.children, n.index[key])
	}
	return n.index[key]
}

// sort orders children by width, widest first.
func (n *flameNode) sort() {
	slices.SortStableFunc(n.children, func(a, b *flameNode) int {
		return cmp.Or(cmp.Compare(b.width, a.width), cmp.Compare(a.Func, b.Func), cmp.Compare(a.State, b.State))
	})
	for _, c := range n.children {
		c.sort()
	}
}

// prune drops frames that are too narrow to see or too deep. If more than most remain, it drops the narrowest of
// them. A parent counts the frames dropped below it.
func (n *flameNode) prune(most int) {
	least := int64(math.Ceil(float64(n.width) * flameLeast))
	var widths []int64
	n.walk(0, func(_ int, c *flameNode) {
		if c.width >= least {
			widths = append(widths, c.width)
		}
	})
	if len(widths) > most {
		slices.SortFunc(widths, func(a, b int64) int { return cmp.Compare(b, a) })
		least = widths[most] + 1
	}
	reach := 0
	n.walk(0, func(depth int, c *flameNode) {
		if float64(c.width) >= flameReach*float64(n.width) {
			reach = max(reach, min(depth, flameDepth-1))
		}
	})
	n.walk(0, func(depth int, p *flameNode) {
		p.children = slices.DeleteFunc(p.children, func(c *flameNode) bool {
			if c.width >= max(least, 1) && depth < reach {
				return false
			}
			if c.width > 0 {
				p.dropped++
				p.droppedNet += c.Total
				p.lost += c.width
			}
			return true
		})
	})
}

// walk visits n, then everything below it.
func (n *flameNode) walk(depth int, visit func(depth int, n *flameNode)) {
	visit(depth, n)
	for _, c := range n.children {
		c.walk(depth+1, visit)
	}
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// flame is the layout of one flame graph; html_report.tmpl draws it. Lengths are percentages of the width, so that it
// fits any page without distorting its text.
type flame struct {
	Unit  string
	Title string
	// Operations is the number of operations between the two profiles, 0 if unknown.
	Operations int
	Height     int
	Frames     []flameFrame
	// Summary describes the graph in words.
	Summary string
}

// flameFrame is one box. It stands for a frame, or for a chain of frames that each only call the next. The frames of
// a chain have the same numbers, so printing these once halves the size of the page.
type flameFrame struct {
	X, W string
	// Y and H are multiples of the row height, except that H is one unit less to leave a gap.
	Y, H   int
	Fill   string
	Labels []flameLabelAt
	// Tip describes the frames, with their names first, one per line.
	Tip         string
	Fingerprint bool
}

// flameLabelAt is the name of a frame at its row.
type flameLabelAt struct {
	Y    int
	Text string
}

// Colours of boxes by the sign of their change. The colour is stronger for a larger share of the total change. The
// style sheet selects these colours by value and replaces them in dark mode.
var (
	flameGrew    = []string{"#fbe3df", "#f7c4bc", "#f09c90", "#e8796b"}
	flameShrank  = []string{"#e1ebf8", "#bfd6f2", "#93b9e8", "#6d9fdd"}
	flameNeutral = "#e4e5e3"
)

// fill returns the colour of a box. It is grey if growth and shrinkage below the frame cancel out.
func (n *flameNode) fill(whole int64) string {
	if float64(abs(n.Total)) <= 0.05*float64(n.width) {
		return flameNeutral
	}
	ramp := flameGrew
	if n.Total < 0 {
		ramp = flameShrank
	}
	share := math.Sqrt(float64(abs(n.Total)) / float64(max(whole, 1)))
	return ramp[min(int(share*float64(len(ramp))), len(ramp)-1)]
}

// keyFill returns a colour of the legend: 1 to 4 for growth, −1 to −4 for shrinkage, 0 for grey.
func keyFill(strength int) string {
	switch {
	case strength > 0:
		return flameGrew[strength-1]
	case strength < 0:
		return flameShrank[-strength-1]
	}
	return flameNeutral
}

// newFlame lays out the stacks, with at most most frames.
func newFlame(title string, g flameGraph, fingerprint map[string]bool, most int) flame {
	root := flameTree(g.List, fingerprint)
	f := flame{Title: title, Unit: g.Unit, Operations: g.Operations, Summary: flameSummary(g.List, g.Unit)}
	if root.width <= 0 {
		return f
	}
	root.prune(most)
	f.draw(root, root.width, 0, 0)
	for _, frame := range f.Frames {
		f.Height = max(f.Height, frame.Y+frame.H+1)
	}
	return f
}

func (f *flame) draw(n *flameNode, whole int64, left, depth int64) {
	chain := n.chain()
	last := chain[len(chain)-1]
	frame := flameFrame{Fill: n.fill(whole), Tip: f.tip(chain, whole), Fingerprint: n.Fingerprint}
	var labels []string
	for _, one := range chain {
		labels = append(labels, one.label())
	}
	f.frame(left, n.width, whole, depth, frame, labels)
	depth += int64(len(chain))
	for _, c := range last.children {
		f.draw(c, whole, left, depth)
		left += c.width
	}
	if float64(last.lost) >= flameLeast*float64(whole) {
		label := "… " + count(last.dropped, "narrower frame")
		f.frame(left, last.lost, whole, depth, flameFrame{
			Fill: flameNeutral,
			Tip:  label + " with their callees, not drawn\ntotal " + exactDelta(last.droppedNet, f.Unit) + ", " + ofAllChange(last.lost, whole),
		}, []string{label})
	}
}

// chain returns the frame and the frames below it with the same numbers, where each only calls the next. The root and
// marked frames are not merged.
func (n *flameNode) chain() []*flameNode {
	chain := []*flameNode{n}
	for n.caller && !n.Fingerprint && n.Own == 0 && n.dropped == 0 && len(n.children) == 1 {
		next := n.children[0]
		if next.Fingerprint || next.width != n.width || next.Total != n.Total || next.From != n.From || next.To != n.To {
			break
		}
		chain, n = append(chain, next), next
	}
	return chain
}

func (f *flame) frame(left, width, whole, depth int64, frame flameFrame, labels []string) {
	frame.X, frame.W, frame.Y, frame.H = percent(left, whole), percent(width, whole), int(depth)*flameRow, len(labels)*flameRow-1
	if float64(width) >= flameLabel*float64(whole) {
		for i, label := range labels {
			frame.Labels = append(frame.Labels, flameLabelAt{13 + i*flameRow, label})
		}
	}
	f.Frames = append(f.Frames, frame)
}

func percent(part, whole int64) string {
	return strconv.FormatFloat(math.Round(float64(part)/float64(whole)*1e5)/1e3, 'f', -1, 64) + "%"
}

func (n *flameNode) label() string {
	label := leak.Frame{Func: n.Func}.Short()
	if n.Fingerprint {
		label = "◆ " + label
	}
	if n.State != "" {
		label += " [" + n.State + "]"
	}
	return label
}

// ofAllChange formats the share of a width: "30.4 % of all change". All change is growth plus shrinkage.
func ofAllChange(width, whole int64) string {
	share := 100 * float64(width) / float64(max(whole, 1))
	if width > 0 && share < 0.05 {
		return "< 0.1 % of all change"
	}
	return fmt.Sprintf("%.1f %% of all change", share)
}

// tip describes a chain: its names, outermost first, and their common numbers. The own change is that of the last
// frame. The script of the page writes the same text for the frames that it draws.
func (f *flame) tip(chain []*flameNode, whole int64) string {
	unit := f.Unit
	var lines []string
	for _, n := range chain {
		line := n.Func
		if n.State != "" {
			line += " [" + n.State + "]"
		}
		lines = append(lines, line)
	}
	n := chain[len(chain)-1]
	if n.Fingerprint {
		lines = append(lines, "the fingerprint stands here")
	}
	own := "own " + exactOwn(n.Own, unit)
	if len(chain) > 1 && n.Own != 0 {
		own += ", of the last"
	}
	lines = append(lines, "total "+exactDelta(n.Total, unit)+", "+n.moved(unit)+", "+ofAllChange(n.width, whole))
	if f.Operations > 0 {
		lines = append(lines, rate(float64(n.Total)/float64(f.Operations), unit)+" per operation on average")
	}
	return strings.Join(append(lines, own), "\n")
}

// moved describes the frame's total before and after. It returns "new" or "vanished" if one of them is zero.
func (n *flameNode) moved(unit string) string {
	switch {
	case n.From == 0:
		return "new"
	case n.To == 0:
		return "vanished"
	}
	return value(float64(n.From), unit) + " → " + value(float64(n.To), unit)
}

// exactOwn formats the change of a frame without its callees. Zero has no unit.
func exactOwn(v int64, unit string) string {
	if v == 0 {
		return "0"
	}
	return exactDelta(v, unit)
}

// exactDelta returns "+4.22 MiB (4423680 B)" or "+399", which can be compared with pprof's numbers.
func exactDelta(v int64, unit string) string {
	s := display.Delta(float64(v), unit)
	if unit == "bytes" && abs(v) >= 1<<10 {
		s += fmt.Sprintf(" (%d B)", v)
	}
	return s
}

// flameSummary describes the whole change in one line.
func flameSummary(list []stackChange, unit string) string {
	var grew, shrank, still int64
	same := 0
	for _, c := range list {
		switch d := c.delta(); {
		case d > 0:
			grew += d
		case d < 0:
			shrank += d
		default:
			same++
			still += c.To
		}
	}
	noun := ""
	if unit != "bytes" {
		noun = " " + unit
	}
	s := display.Delta(float64(grew+shrank), unit) + noun
	if grew != 0 && shrank != 0 {
		s += fmt.Sprintf(": %s grew, %s shrank", display.Delta(float64(grew), unit), display.Delta(float64(shrank), unit))
	}
	s += fmt.Sprintf(" on %s.", count(len(list)-same, "stack"))
	if same > 0 {
		s += fmt.Sprintf(" %s with %s did not move and have no width.", count(same, "stack"), value(float64(still), unit)+noun)
	}
	return s
}

// functionChange is the change of one function over all its callers, like a row of `go tool pprof -top`.
type functionChange struct {
	Func       string
	Own, Total int64
}

// functions adds up each function over all stacks. A recursive function counts once per stack.
func functions(list []stackChange) []functionChange {
	at := map[string]int{}
	var out []functionChange
	for _, c := range list {
		seen := map[string]bool{}
		for i, f := range c.Stack.Frames {
			k, known := at[f.Func]
			if !known {
				k, at[f.Func], out = len(out), len(out), append(out, functionChange{Func: f.Func})
			}
			if i == 0 {
				out[k].Own += c.delta()
			}
			if !seen[f.Func] {
				seen[f.Func] = true
				out[k].Total += c.delta()
			}
		}
	}
	slices.SortStableFunc(out, func(a, b functionChange) int {
		return cmp.Or(cmp.Compare(abs(b.Total), abs(a.Total)), cmp.Compare(abs(b.Own), abs(a.Own)), cmp.Compare(a.Func, b.Func))
	})
	return slices.DeleteFunc(out, func(f functionChange) bool { return f.Own == 0 && f.Total == 0 })
}

// flameSet holds all graphs of one subject.
type flameSet struct {
	Metrics []flameMetric
	// Total describes the change of every metric.
	Total string
	// Data has all frames of all metrics, for the script, with the last frames of Cut stacks missing. It is "" if they
	// do not fit.
	Data string
	Cut  int

	graphs []flameGraph
	marked map[string]bool
}

// pack fills in the data, at most room bytes.
func (s *flameSet) pack(room int) { s.Data, s.Cut = packFlames(s.graphs, s.marked, room) }

// flameMetric is the graph of one metric in each of its views, and a table of its numbers.
type flameMetric struct {
	Name, Unit, Total string
	// Lead marks the metric to show first.
	Lead      bool
	Views     []flameView
	Functions []functionRow
	More      int
}

// flameView is the graph of a subset of the stacks.
type flameView struct {
	Name string
	flame
}

type functionRow struct{ Func, Own, Total string }

// flameViews are the subsets of stacks that views show. Part is a view's share of the frames of a metric.
var flameViews = []struct {
	Name string
	Part int // of 10
	Keep func(stackChange) bool
}{
	{"All changes", 6, func(stackChange) bool { return true }},
	{"New", 2, func(c stackChange) bool { return c.From == 0 && c.To != 0 }},
	{"Vanished", 2, func(c stackChange) bool { return c.From != 0 && c.To == 0 }},
}

// newFlameSet draws every metric of the subject, with about most frames in total.
func newFlameSet(s flameSubject, of string, most int) flameSet {
	rows := flameTable
	if s.Lead == "" {
		rows = flameBrief
	}
	set := flameSet{marked: s.Fingerprint}
	var totals []string
	lead := -1
	sources := s.sources()
	shares := 0
	for _, m := range sources {
		shares += m.share()
	}
	for _, m := range sources {
		list, ok := s.changes(m.Probe, m.Source, m.Amount)
		if !ok {
			continue
		}
		if lead < 0 && m.Probe == s.Lead {
			lead = len(set.Metrics)
		}
		table := rows
		if m.Unit == "objects" {
			table = flameBrief
		}
		g := flameGraph{m.Unit, m.Probe, s.operations(), list}
		set.graphs = append(set.graphs, g)
		fm := newFlameMetric(m.Name+" of "+of, g, s.Fingerprint, most*m.share()/shares, table)
		fm.Name = m.Name
		set.Metrics = append(set.Metrics, fm)
		totals = append(totals, strings.ToLower(m.Name)+" "+fm.Total)
	}
	if len(set.Metrics) > 0 {
		set.Metrics[max(lead, 0)].Lead = true
	}
	set.Total = strings.Join(totals, " · ")
	return set
}

func newFlameMetric(title string, g flameGraph, fingerprint map[string]bool, most, table int) flameMetric {
	unit, list := g.Unit, g.List
	m := flameMetric{Unit: unit, Total: display.Delta(float64(total(list)), unit)}
	moved := 0
	for _, c := range list {
		if c.delta() != 0 {
			moved++
		}
	}
	for i, v := range flameViews {
		kept := slices.DeleteFunc(slices.Clone(list), func(c stackChange) bool { return !v.Keep(c) })
		f := flame{Summary: "Every stack that changed is one: the picture is that of all changes."}
		if i == 0 || len(kept) < max(moved, 1) {
			view := g
			view.List = kept
			f = newFlame(title+", "+strings.ToLower(v.Name), view, fingerprint, most*v.Part/10)
		}
		m.Views = append(m.Views, flameView{v.Name, f})
	}
	rows, more := head(functions(list), table)
	m.More = more
	for _, f := range rows {
		m.Functions = append(m.Functions, functionRow{f.Func, display.Delta(float64(f.Own), unit), display.Delta(float64(f.Total), unit)})
	}
	return m
}

func total(list []stackChange) (sum int64) {
	for _, c := range list {
		sum += c.delta()
	}
	return sum
}

// flameSubject returns the graph input of the variant's program.
func (x variant) flameSubject() flameSubject {
	s := flameSubject{Stacks: x.Record.Stacks, Fingerprint: map[string]bool{}, Lead: x.leadProbe(), Sudden: x.Verdict.Lead().InAll()}
	if n := len(x.Record.Snapshots); n > 1 {
		s.First, s.Last = &x.Record.Snapshots[0], &x.Record.Snapshots[n-1]
	}
	for _, g := range slices.Concat(x.Verdict.Growing, x.Verdict.HeapGrowing) {
		if g.Fingerprint {
			s.Fingerprint[g.Stack.Origin().Func] = true
		}
	}
	return s
}

// leadProbe returns the probe of the variant's lead finding, "" if there is none.
func (x variant) leadProbe() string {
	f := x.Verdict.Lead()
	if f == nil {
		return ""
	}
	probe, _, _ := strings.Cut(f.Series, ".")
	switch {
	case probe != "":
		return probe
	case len(f.Stacks) > 0 && f.Stacks[0].Probe != "":
		return f.Stacks[0].Probe
	case f.Unit == "goroutines":
		return "goroutine"
	}
	return "heap"
}
