package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/stats"
)

// chart is the layout of one series. It holds only positions and text. html_report.tmpl draws it, so the template
// escapes all text.
type chart struct {
	ID, Title, Doc, Desc string
	W, H                 px
	Left, Right          px
	Top, Bottom          px
	X, Y                 []tick
	Lines                []chartLine
	Bounds               []string
	Labels               []chartLabel
	// Idle is the X position of the measurement after the idle wait, right of the last round.
	Idle *px
	// XLabel is the unit of the X axis. LastRound is the X position of the last round.
	XLabel    string
	LastRound px
	// Axis is the right edge of the Y axis labels. Below is the Y position of the X axis labels.
	Axis, Below px
	// Marks are vertical lines.
	Marks []tick
	// Notes describe what the chart cannot show, for example a bound above its scale.
	Notes []string
	// Fits describe the fitted slopes, first variant first.
	Fits []chartFit
}

// Linked reports whether marks of the chart are links. It is not one image then.
func (c chart) Linked() bool {
	return slices.ContainsFunc(c.Lines, func(l chartLine) bool {
		return slices.ContainsFunc(l.Markers, func(m marker) bool { return m.URL != "" })
	})
}

// chartFit describes the fitted slope of one variant.
type chartFit struct{ Tone, Name, Slope, Interval string }

// px is a length that String formats with at most one decimal.
type px float64

func (p px) String() string { return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64) }

type tick struct {
	At    px
	Label string
}

// chartLine is the line of one variant. Path joins the rounds, and Fit is the Theil–Sen line. Band shows the interval
// of its slope. ToIdle leads to the measurement after the idle wait.
type chartLine struct {
	Tone, Path, Fit, Band, ToIdle string
	// Tip lists all values of the line. Dots is one path that marks the rounds without an entry in Markers. Each of
	// Markers has its own tooltip.
	Tip, Dots string
	Markers   []marker
}

type marker struct {
	Path, Tip string
	Hollow    bool
	// Ring marks a snapshot that did not settle.
	Ring bool
	X, Y px
	// URL is the report of the run that the mark stands for, "" if there is none.
	URL string
}

// chartLabel is a label next to the plot. Leader connects it to its line if other labels displaced it.
type chartLabel struct {
	Tone, Name, Marker, Leader string
	X, Y                       px
}

// chartSize is the size of a chart in units. Text is 12 units high, so at about this width in pixels it matches the
// text of the page.
type chartSize struct {
	w, h           float64
	xTicks, yTicks int
	// slopes is set if the chart has room to draw slopes.
	slopes bool
	// every is set if the chart has room to mark every round. Otherwise it marks only the last round and unsettled
	// snapshots.
	every bool
}

var (
	bigChart     = chartSize{440, 280, 7, 5, true, true}
	smallChart   = chartSize{320, 196, 4, 3, false, false}
	historyChart = chartSize{440, 220, 7, 4, false, true}
)

const (
	charWidth  = 6.5 // average width of a 12 unit high sans-serif letter, rounded up
	labelGap   = 16
	maxMarkers = 40 // with more points than this, marks would merge into a line, so none are drawn
	crowd      = 3  // above this number of variants, only some rounds are marked
	maxName    = 14
)

func newChart(id string, s series, size chartSize) chart {
	size.every = size.every && (len(s.Lines) <= crowd || size == historyChart)
	l := layout{series: s, size: size}
	l.fit()
	c := chart{
		ID: id, Title: s.Name, Doc: s.Doc, Desc: describe(s), W: px(size.w), H: px(l.height),
		Left: px(l.left), Right: px(l.right), Top: px(l.top), Bottom: px(l.bottom), Notes: l.notes,
		XLabel: "operations", LastRound: px(l.lastRound), Axis: px(l.left - 7), Below: px(l.bottom + 18),
	}
	for _, x := range l.xTicks {
		c.X = append(c.X, tick{px(l.x(x)), thousands(strconv.FormatFloat(x, 'f', -1, 64))})
	}
	for _, y := range l.yTicks {
		c.Y = append(c.Y, tick{px(l.y(y)), tickLabel(y, l.yTicks, s.Unit)})
	}
	if l.idle {
		at := px(l.right)
		c.Idle = &at
	}
	c.Bounds = l.bounds()
	// The first variant is drawn last, on top of the others.
	for i, line := range slices.Backward(s.Lines) {
		c.Lines = append(c.Lines, l.line(i, line))
	}
	c.Labels = l.labels()
	for _, line := range s.Lines {
		if line.Fitted {
			c.Fits = append(c.Fits, chartFit{line.Outcome.String(), line.Variant, perOp(line.Slope, s.Unit), line.interval(s.Unit)})
		}
	}
	return c
}

// layout converts the values of a series into positions.
type layout struct {
	series
	size                     chartSize
	left, right, top, bottom float64
	// lastRound is the X position of the last round. The idle point, if any, is at right.
	lastRound, height float64
	maxOps, lo, hi    float64
	xTicks, yTicks    []float64
	idle              bool
	limits            []drawnLimit
	notes             []string
}

// drawnLimit is a bound relative to one baseline.
type drawnLimit struct {
	limit
	baseline float64
	// operations is the X value at which its line ends.
	operations float64
}

func (d drawnLimit) end() float64 {
	if d.PerOperation {
		return d.baseline + d.Value*d.operations
	}
	return d.baseline + d.Value
}

func (d drawnLimit) start() float64 {
	if d.PerOperation {
		return d.baseline
	}
	return d.baseline + d.Value
}

func (l *layout) fit() {
	for _, line := range l.Lines {
		for _, p := range line.Points {
			l.maxOps = max(l.maxOps, float64(p.Operations))
			l.idle = l.idle || p.Idle
		}
	}
	l.scale()
	const top, bottom = 12, 40
	names := len(l.Lines) + len(l.limitLabels())
	l.height = max(l.size.h, float64(names*labelGap+top+bottom))
	l.top, l.bottom = top, l.height-bottom
	widest := 0
	for _, y := range l.yTicks {
		widest = max(widest, utf8.RuneCountInString(tickLabel(y, l.yTicks, l.Unit)))
	}
	l.left = 12 + charWidth*float64(widest)
	widest = 0
	for _, label := range l.texts() {
		widest = max(widest, utf8.RuneCountInString(label.Name))
	}
	l.right = l.size.w - 30 - charWidth*float64(widest)
	l.fitX()
}

// fitX chooses the number of ticks by the width of their labels. It keeps the last tick clear of the label "idle".
func (l *layout) fitX() {
	label := charWidth * float64(len(thousands(strconv.FormatFloat(l.maxOps, 'f', 0, 64))))
	l.lastRound = l.right
	if l.idle {
		l.lastRound -= label/2 + 20
	}
	n := min(l.size.xTicks, int((l.lastRound-l.left)/(label+6)))
	l.xTicks = slices.DeleteFunc(ticks(0, l.maxOps, max(n, 1), 1), func(x float64) bool { return x > l.maxOps })
}

// scale chooses the range of the Y axis. The axis starts at zero unless that would flatten the growth. The range is
// at least a quarter of the value, so that noise does not look like a leak.
func (l *layout) scale() {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, line := range l.Lines {
		for _, p := range line.Points {
			lo, hi = min(lo, p.Value), max(hi, p.Value)
		}
	}
	least := 4.0
	if l.Rate {
		least = 0.04
	}
	room := max(hi-lo, math.Abs(hi)/4, least)
	l.limits, l.notes = l.visibleLimits(hi + room/2)
	for _, d := range l.limits {
		hi = max(hi, d.start(), d.end())
	}
	if spare := room - (hi - lo); spare > 0 {
		positive := lo >= 0
		lo, hi = lo-spare/2, hi+spare/2
		if positive && lo < 0 {
			lo, hi = 0, hi-lo
		}
	}
	if lo > 0 && lo < 0.6*hi {
		lo = 0
	}
	unit, step := 1.0, 1.0
	if l.Unit == "bytes" {
		unit = byteUnit(hi)
	}
	if l.Unit == "bytes" || l.Rate {
		step = 0
	}
	l.yTicks = ticks(lo/unit, hi/unit, l.size.yTicks, step)
	for i := range l.yTicks {
		l.yTicks[i] *= unit
	}
	l.lo, l.hi = l.yTicks[0], l.yTicks[len(l.yTicks)-1]
}

// visibleLimits omits bounds far above all data, because they would flatten the lines. A note reports each omitted
// bound.
func (l *layout) visibleLimits(highest float64) (limits []drawnLimit, notes []string) {
	for _, line := range l.Lines {
		for _, bound := range line.Bounds {
			d := drawnLimit{bound, line.Points[0].Value, l.maxOps}
			if l.Rate {
				d.baseline = 0
			}
			if !finite(d.end()) {
				continue
			}
			if d.end() > highest {
				notes = append(notes, fmt.Sprintf("The %s lies above the scale.", limitText(bound, l.Unit)))
				continue
			}
			limits = append(limits, d)
		}
	}
	return limits, unique(notes)
}

func limitText(b limit, unit string) string {
	if b.PerOperation {
		return "bound " + perOp(b.Value, unit)
	}
	return "bound " + display.Delta(b.Value, unit)
}

func (l *layout) x(operations float64) float64 {
	if l.maxOps == 0 {
		return l.left
	}
	return l.left + operations/l.maxOps*(l.lastRound-l.left)
}

func (l *layout) y(value float64) float64 {
	return l.bottom - (value-l.lo)/(l.hi-l.lo)*(l.bottom-l.top)
}

func (l *layout) at(p leak.Point) (x, y float64) {
	if p.Idle {
		return l.right, l.y(p.Value)
	}
	return l.x(float64(p.Operations)), l.y(p.Value)
}

func (l *layout) line(i int, line line) chartLine {
	c := chartLine{Tone: line.Outcome.String()}
	var d strings.Builder
	var last leak.Point
	for _, p := range line.Points {
		x, y := l.at(p)
		if p.Idle {
			lx, ly := l.at(last)
			c.ToIdle = segment(lx, ly, x, y)
			continue
		}
		verb := "L"
		if d.Len() == 0 {
			verb = "M"
		}
		fmt.Fprintf(&d, "%s%s %s", verb, px(x), px(y))
		last = p
	}
	c.Path = d.String()
	if line.Fitted && l.size.slopes {
		b, m := line.Intercept(), line.operations()
		c.Fit = segment(l.x(0), l.y(b), l.x(m), l.y(b+line.Slope*m))
		if line.Low < line.High {
			c.Band = l.band(line, b)
		}
	}
	if len(line.Points) > maxMarkers {
		return c
	}
	for _, p := range line.Points {
		m := l.marker(i, line, p)
		switch {
		case l.size == historyChart || p.Idle || p.Unsettled || p == last:
			c.Markers = append(c.Markers, m)
		case l.size.every:
			c.Dots += m.Path
		}
	}
	if l.size != historyChart {
		c.Tip = line.numbers(l.Unit)
	}
	return c
}

// numbers lists all points of the line, one per row.
func (l line) numbers(unit string) string {
	lines := []string{l.Variant}
	for _, p := range l.Points {
		text := momentLabel(p) + ": " + value(p.Value, unit)
		if p.Unsettled {
			text += ", not settled"
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// band returns the area between the lowest and the highest slope of the interval. Both lines cross the fitted line at
// the middle of its rounds.
func (l *layout) band(line line, intercept float64) string {
	var operations []float64
	for _, p := range rounds(line.Points) {
		operations = append(operations, float64(p.Operations))
	}
	mid := stats.Median(operations)
	at := func(slope, x float64) string {
		return fmt.Sprintf("%s %s", px(l.x(x)), px(l.y(intercept+line.Slope*mid+slope*(x-mid))))
	}
	m := line.operations()
	return "M" + at(line.Low, 0) + "L" + at(line.Low, m) + "L" + at(line.High, m) + "L" + at(line.High, 0) + "Z"
}

// perOp formats a growth per operation: "+14.7 KiB/op".
func perOp(v float64, unit string) string { return rate(v, unit) + "/op" }

// interval formats the interval of the slope: "+14.6 KiB to +15.6 KiB". It returns "" if none was computed.
func (l line) interval(unit string) string {
	if l.Low >= l.High {
		return ""
	}
	return rate(l.Low, unit) + " to " + rate(l.High, unit)
}

func (l *layout) marker(i int, line line, p leak.Point) marker {
	x, y := l.at(p)
	when := fmt.Sprintf("%s, %s", line.Variant, count(p.Operations, "operation"))
	switch {
	case p.Idle:
		when = line.Variant + ", after the idle wait"
	case p.Round == 0:
		when = line.Variant + ", baseline"
	}
	if p.Unsettled {
		when += ", not settled"
	}
	return marker{shape(i, x, y, 3), when + ": " + value(p.Value, l.Unit), p.Idle, p.Unsettled, px(x), px(y), ""}
}

func segment(x1, y1, x2, y2 float64) string {
	return fmt.Sprintf("M%s %sL%s %s", px(x1), px(y1), px(x2), px(y2))
}

// shape returns the path of a marker. Its form distinguishes variants of the same colour: circle, square, diamond,
// triangles, bar.
func shape(i int, x, y, r float64) string {
	poly := func(points ...float64) string {
		var d strings.Builder
		fmt.Fprintf(&d, "M%s %s", px(x+points[0]*r), px(y+points[1]*r))
		for k := 2; k < len(points); k += 2 {
			fmt.Fprintf(&d, "l%s %s", px((points[k]-points[k-2])*r), px((points[k+1]-points[k-1])*r))
		}
		return d.String() + "z"
	}
	switch i % 6 {
	case 0:
		return fmt.Sprintf("M%s %sa%s %s 0 1 0 %s 0 %s %s 0 1 0 %s 0z", px(x-r), px(y), px(r), px(r), px(2*r), px(r), px(r), px(-2*r))
	case 1:
		return poly(-0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9)
	case 2:
		return poly(0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0)
	case 3:
		return poly(0, -1.2, 1.2, 0.9, -1.2, 0.9)
	case 4:
		return poly(0, 1.2, 1.2, -0.9, -1.2, -0.9)
	}
	return poly(-0.5, -1.3, 0.5, -1.3, 0.5, 1.3, -0.5, 1.3)
}

// bounds returns the paths of the bounds. Bounds that would overlap are drawn once.
func (l *layout) bounds() []string {
	var paths []string
	var drawn [][2]float64
	for _, d := range l.limits {
		y1, y2 := l.y(d.start()), l.y(d.end())
		if slices.ContainsFunc(drawn, func(o [2]float64) bool { return math.Abs(o[0]-y1) < 5 && math.Abs(o[1]-y2) < 5 }) {
			continue
		}
		drawn = append(drawn, [2]float64{y1, y2})
		paths = append(paths, segment(l.x(0), y1, l.x(l.maxOps), y2))
	}
	return paths
}

// limitLabels maps the text of each drawn bound to the highest end of its lines.
func (l *layout) limitLabels() map[string]float64 {
	labels := map[string]float64{}
	for _, d := range l.limits {
		text := limitText(d.limit, l.Unit)
		labels[text] = max(labels[text], d.end())
	}
	return labels
}

// texts returns the labels without positions.
func (l *layout) texts() []chartLabel {
	var list []chartLabel
	for _, line := range l.Lines {
		list = append(list, chartLabel{Tone: line.Outcome.String(), Name: shorten(line.Variant)})
	}
	for _, text := range slices.Sorted(maps.Keys(l.limitLabels())) {
		list = append(list, chartLabel{Tone: "bound", Name: text})
	}
	return list
}

// labels puts each label next to the end of its line, and moves overlapping ones apart.
func (l *layout) labels() []chartLabel {
	type wish struct {
		chartLabel
		from float64 // where the line ends
		mark int
	}
	var list []wish
	bounds := l.limitLabels()
	for i, label := range l.texts() {
		w := wish{label, 0, i}
		if i < len(l.Lines) {
			points := l.Lines[i].Points
			_, w.from = l.at(points[len(points)-1])
		} else {
			w.from = l.y(bounds[label.Name])
		}
		list = append(list, w)
	}
	slices.SortStableFunc(list, func(a, b wish) int { return cmp.Compare(a.from, b.from) })
	var want []float64
	for _, w := range list {
		want = append(want, w.from)
	}
	places := spread(want, labelGap, l.top, l.bottom)
	var out []chartLabel
	for i, w := range list {
		w.X, w.Y = px(l.right+24), px(places[i])
		if w.Tone != "bound" {
			w.Marker = shape(w.mark, l.right+16, places[i], 3.4)
		}
		if math.Abs(places[i]-w.from) > 3 {
			w.Leader = segment(l.right+5, w.from, l.right+10, places[i])
		}
		out = append(out, w.chartLabel)
	}
	return out
}

// spread moves sorted positions within lo and hi until neighbours are gap apart. It moves each as little as possible.
func spread(want []float64, gap, lo, hi float64) []float64 {
	at := slices.Clone(want)
	for range 50 { // push overlapping neighbours apart by half of their overlap: settles in a few passes
		moved := false
		for i := 1; i < len(at); i++ {
			if overlap := gap - (at[i] - at[i-1]); overlap > 0.1 {
				at[i-1], at[i], moved = at[i-1]-overlap/2, at[i]+overlap/2, true
			}
		}
		if !moved {
			break
		}
	}
	for i := range at {
		at[i] = max(at[i], lo+float64(i)*gap)
	}
	for i := len(at) - 1; i >= 0; i-- {
		at[i] = min(at[i], hi-float64(len(at)-1-i)*gap)
	}
	return at
}

func shorten(name string) string { return cutRunes(oneLine(name), maxName) }

// ticks returns about n round numbers that enclose lo to hi, at least least apart.
func ticks(lo, hi float64, n int, least float64) []float64 {
	if hi <= lo {
		return []float64{lo}
	}
	step := max(niceStep((hi-lo)/float64(n)), least)
	first, last := math.Floor(lo/step+1e-9), math.Ceil(hi/step-1e-9)
	var list []float64
	for k := first; k <= last; k++ {
		list = append(list, k*step)
	}
	return list
}

// niceStep returns the smallest step not below v: 1, 2 or 5 times a power of ten, and also 2.5 from 1000 on.
func niceStep(v float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if f*base >= v*(1-1e-9) && (f != 2.5 || base >= 1000) {
			return f * base
		}
	}
	return 10 * base
}

// byteUnit returns the unit for the labels of a byte axis that ends at v.
func byteUnit(v float64) float64 {
	unit := 1.0
	for math.Abs(v) >= 1024*unit && unit < 1<<30 {
		unit *= 1024
	}
	return unit
}

// tickLabel formats v with the decimals that its axis needs.
func tickLabel(v float64, axis []float64, unit string) string {
	if v == 0 {
		return "0"
	}
	scale, suffix := 1.0, ""
	if unit == "bytes" {
		scale = byteUnit(axis[len(axis)-1])
		suffix = map[float64]string{1: " B", 1 << 10: " KiB", 1 << 20: " MiB", 1 << 30: " GiB"}[scale]
	}
	decimals := 0
	if len(axis) > 1 {
		decimals = max(0, int(math.Ceil(-math.Log10((axis[1]-axis[0])/scale)-1e-9)))
	}
	return strings.Replace(thousands(strconv.FormatFloat(v/scale, 'f', decimals, 64)), "-", "−", 1) + suffix
}

// thousands groups the digits of integers from 10,000 on.
func thousands(s string) string {
	if len(s) < 5 || strings.ContainsAny(s, ".-") {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// describe returns the text alternative of the chart.
func describe(s series) string {
	var parts []string
	for _, line := range s.Lines {
		points := rounds(line.Points)
		if len(points) == 0 {
			continue
		}
		part := fmt.Sprintf("%s: %s → %s", line.Variant, value(points[0].Value, s.Unit), value(points[len(points)-1].Value, s.Unit))
		if line.Fitted {
			part += ", " + rate(line.Slope, s.Unit) + " per operation"
		}
		if interval := line.interval(s.Unit); interval != "" {
			part += " (95 % interval " + interval + ")"
		}
		if n := unsettled(line.Points); n > 0 {
			part += fmt.Sprintf(", %d not settled", n)
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("%s against cumulative operations. %s.", s.Name, strings.Join(parts, "; "))
}

func unsettled(points []leak.Point) (n int) {
	for _, p := range points {
		if p.Unsettled {
			n++
		}
	}
	return n
}
