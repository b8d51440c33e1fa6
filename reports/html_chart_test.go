package reports

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestChartTakesTheFindingsSlope checks that a chart shows the slope and interval of the finding, not of a second
// fit.
func TestChartTakesTheFindingsSlope(t *testing.T) {
	in := fixture()
	f := &in.Verdict.Variants[0].Findings[1]
	f.PerOperation, f.Low, f.High = 30*1024, 25*1024, 35*1024
	var got *line
	for _, s := range newView(in).series() {
		if s.Name == f.Series {
			got = &s.Lines[0]
		}
	}
	if got == nil || got.Slope != f.PerOperation || got.Low != f.Low || got.High != f.High {
		t.Fatalf("%+v", got)
	}
	page := render(t, "html", in)
	for _, want := range []string{"+30.0 KiB/op", "(+25.0 KiB to +35.0 KiB)", "95 % interval +25.0 KiB to +35.0 KiB"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestChartBand checks that the band is narrowest at the middle of the rounds, on the fitted line. Its ends are as
// far apart as the slopes require.
func TestChartBand(t *testing.T) {
	l := line{Variant: "v", Slope: 2, Low: 1, High: 3, Fitted: true}
	for i := range 9 {
		l.Points = append(l.Points, leak.Point{Round: i, Operations: 10 * i, Value: 100 + 20*float64(i)})
	}
	chart := newChart("c", series{Name: "s", Unit: "goroutines", Lines: []line{l}}, bigChart)
	at := regexp.MustCompile(`[\d.]+`).FindAllString(chart.Lines[0].Band, -1)
	fit := regexp.MustCompile(`[\d.]+`).FindAllString(chart.Lines[0].Fit, -1)
	if len(at) != 8 || len(fit) != 4 {
		t.Fatalf("band %s, fit %s", chart.Lines[0].Band, chart.Lines[0].Fit)
	}
	y := func(list []string, i int) float64 { v, _ := strconv.ParseFloat(list[i], 64); return v }
	start, end := y(fit, 1), y(fit, 3)
	perUnit := (start - end) / 160 // pixels per goroutine: the line rises from 100 to 260
	for i, want := range map[int]float64{1: start - 40*perUnit, 3: end + 40*perUnit, 5: end - 40*perUnit, 7: start + 40*perUnit} {
		if got := y(at, i); got < want-0.2 || got > want+0.2 {
			t.Errorf("corner %d at %v, want %v (band %s, fit %s)", i, got, want, chart.Lines[0].Band, chart.Lines[0].Fit)
		}
	}
	l.Low, l.High = 2, 2
	if c := newChart("c", series{Unit: "goroutines", Lines: []line{l}}, bigChart); c.Lines[0].Band != "" || c.Fits[0].Interval != "" {
		t.Error("a band without an interval")
	}
}

func TestChartMarksUnsettled(t *testing.T) {
	in := fixture() // its stop-first did not settle in round 6
	page := render(t, "html", in)
	if n := strings.Count(page, "<circle "); n < 2 {
		t.Errorf("%d rings", n)
	}
	if !strings.Contains(page, "not settled: ") || !strings.Contains(page, ", 1 not settled") {
		t.Error("no words for it")
	}
}
