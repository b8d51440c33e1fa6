package reports

import (
	"maps"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// series holds one number over the operations, for all variants.
type series struct {
	Name, Unit, Doc string
	// Judged is set if a check bounds the series.
	Judged bool
	// Rate is set if the values are growths per operation. Then the axis shows fractions, and bounds start at 0.
	Rate  bool
	Lines []line
}

// line is the part of a series that belongs to one variant.
type line struct {
	Variant string
	Outcome leak.Outcome
	Points  []leak.Point
	// Slope is the growth per operation, valid if Fitted.
	Slope  float64
	Fitted bool
	// Low and High are the ends of the slope's 95 % interval. They are equal if no check computed one.
	Low, High float64
	// Bounds are relative to the baseline of this line.
	Bounds []limit
}

// limit is a bound of a check, per operation or in total.
type limit struct {
	Value        float64
	PerOperation bool
}

// series returns the judged series, the fingerprint first, then every other sampled metric by name.
func (v view) series() []series {
	var all []series
	for _, row := range v.rankedRows() {
		if m, ok := v.Record.Metrics[row.Series]; ok {
			all = append(all, v.metricSeries(row.Series, m, true))
		} else {
			all = append(all, v.findingSeries(row))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Record.Metrics)) {
		all = append(all, v.metricSeries(name, v.Record.Metrics[name], false))
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s series) bool {
		drop := len(s.Lines) == 0 || seen[s.Name]
		seen[s.Name] = true
		return drop
	})
}

// metricSeries reads a metric from the samples, so that the report also shows metrics that no check judged.
func (v view) metricSeries(name string, m leak.Metric, judged bool) series {
	s := series{Name: name, Unit: m.Unit, Doc: m.Doc, Judged: judged}
	for _, x := range v.Variants {
		points := samplePoints(x.Record, name)
		if len(points) == 0 {
			continue
		}
		l := line{Variant: x.Name, Outcome: x.Verdict.Outcome, Points: points}
		l.Slope, l.Fitted = theilSen(points)
		for _, f := range x.Verdict.Findings {
			if f.Series != name {
				continue
			}
			if !f.Unbounded {
				l.Bounds = append(l.Bounds, limit{f.Bound, f.BoundPerOperation})
			}
			if f.BoundPerOperation || len(l.Bounds) <= 1 {
				l.judge(f)
			}
		}
		s.Lines = append(s.Lines, l)
	}
	return s
}

// judge uses the slope of the check if it has one. That slope ignores the rounds before the onset, and the rest of
// the report shows the same number.
func (l *line) judge(f leak.Finding) {
	if f.Outcome == leak.Inconclusive && f.Low == f.High || !finite(f.PerOperation) || !finite(f.Low) || !finite(f.High) {
		return
	}
	l.Slope, l.Low, l.High, l.Fitted = f.PerOperation, f.Low, f.High, len(rounds(l.Points)) >= minFitted
}

// findingSeries returns a series that only a check counts, for example the goroutines on a stack.
func (v view) findingSeries(row checkRow) series {
	s := series{Name: row.Title(), Unit: row.Unit, Doc: strings.TrimSpace(row.Unit + " that the check “" + row.Check + "” counted"), Judged: true}
	for i, cell := range row.Cells {
		f := cell.Finding
		if f == nil {
			continue
		}
		points := finitePoints(f.Points)
		if len(points) == 0 {
			continue
		}
		l := line{Variant: cell.Variant, Outcome: v.Variants[i].Verdict.Outcome, Points: points}
		if !f.Unbounded {
			l.Bounds = []limit{{f.Bound, f.BoundPerOperation}}
		}
		if !f.InAll() {
			l.Slope, l.Fitted = theilSen(points)
			l.judge(*f)
		}
		s.Lines = append(s.Lines, l)
	}
	return s
}

// samplePoints reads the metric "probe.metric" from every snapshot that has it.
func samplePoints(vr *leak.VariantRecord, name string) []leak.Point {
	var points []leak.Point
	add := func(s leak.Snapshot, idle bool) {
		if value, ok := sampled(s, name); ok {
			points = append(points, leak.Point{Round: s.Round, Operations: s.Operations, Value: value, Unsettled: !s.Settle.Settled, Idle: idle})
		}
	}
	for _, s := range vr.Snapshots {
		add(s, false)
	}
	if vr.Idle != nil {
		add(*vr.Idle, true)
	}
	return finitePoints(points)
}

func sampled(s leak.Snapshot, name string) (float64, bool) {
	for _, sample := range s.Samples {
		for metric, value := range sample.Values {
			if sample.Probe+"."+metric == name {
				return value, true
			}
		}
	}
	return 0, false
}

func finitePoints(points []leak.Point) []leak.Point {
	return slices.DeleteFunc(slices.Clone(points), func(p leak.Point) bool { return !finite(p.Value) })
}

// rounds returns the points without the idle point.
func rounds(points []leak.Point) []leak.Point {
	return slices.DeleteFunc(slices.Clone(points), func(p leak.Point) bool { return p.Idle })
}

// operations returns the X value at which the line ends.
func (l line) operations() float64 {
	most := 0
	for _, p := range l.Points {
		most = max(most, p.Operations)
	}
	return float64(most)
}

// minFitted is the minimum number of points for a fitted line. Fewer points fit any line.
const minFitted = 4

// theilSen returns the slope through the rounds. ok is false if there are too few rounds.
func theilSen(points []leak.Point) (slope float64, ok bool) {
	var x, y []float64
	for _, p := range rounds(points) {
		x, y = append(x, float64(p.Operations)), append(y, p.Value)
	}
	line, ok := stats.TheilSen(x, y)
	return line.Slope, ok && len(x) >= minFitted
}

// Intercept returns the intercept with which the fitted line goes through the middle of the points.
func (l line) Intercept() float64 {
	var residuals []float64
	for _, p := range rounds(l.Points) {
		residuals = append(residuals, p.Value-l.Slope*float64(p.Operations))
	}
	return stats.Median(residuals)
}
