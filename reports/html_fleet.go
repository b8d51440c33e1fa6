package reports

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak/display"

	_ "embed"

	"github.com/leakrig/leakrig/leak"
)

// Limits of the fleet page. Its JSON form is complete.
const (
	fleetStacks    = 50
	fleetTargets   = 100
	fleetNotJudged = 100
)

//go:embed html_fleet.tmpl
var fleetSource string

var fleetTemplate = template.Must(pageTemplate.New("fleet").Parse(squeezePage(fleetSource)))

// FleetHTML writes the fleet page. Like a run's report, it is one self-contained file.
func FleetHTML(w io.Writer, in Fleet) error {
	err := writePage(w, fleetTemplate, newFleetPage(in))
	for i := 1; i < len(rooms) && errors.Is(err, display.ErrOutput); i++ {
		in.Stacks = slices.Clone(in.Stacks)
		for k := range in.Stacks {
			in.Stacks[k].Frames = leak.Stack{Frames: in.Stacks[k].Frames}.Cut(rooms[i].frames, rooms[i].name).Frames
			in.Stacks[k].Place = display.OneLine(in.Stacks[k].Place, rooms[i].name)
			in.Stacks[k].Targets = in.Stacks[k].Targets[:min(len(in.Stacks[k].Targets), fleetTargets>>i)]
		}
		err = writePage(w, fleetTemplate, newFleetPage(in))
	}
	return err
}

type fleetPage struct {
	Fleet
	Stacks                    []fleetStack
	MoreStacks, MoreNotJudged int
}

type fleetStack struct {
	FleetStack
	Targets     []fleetTarget
	MoreTargets int
}

type fleetTarget struct {
	FleetTarget
	From, To int32
	Line     string
}

func newFleetPage(in Fleet) fleetPage {
	p := fleetPage{Fleet: in}
	p.Fleet.NotJudged, p.MoreNotJudged = head(in.NotJudged, fleetNotJudged)
	stacks, more := head(in.Stacks, fleetStacks)
	p.MoreStacks = more
	for _, s := range stacks {
		row := fleetStack{FleetStack: s}
		targets, more := head(s.Targets, fleetTargets)
		row.MoreTargets = more
		for _, t := range targets {
			drawn := fleetTarget{FleetTarget: t, Line: polyline(t.Seconds, t.Counts, 160, 36)}
			if n := len(t.Counts); n > 0 {
				drawn.From, drawn.To = t.Counts[0], t.Counts[n-1]
			}
			row.Targets = append(row.Targets, drawn)
		}
		p.Stacks = append(p.Stacks, row)
	}
	return p
}

// polyline draws counts over time into a box of this width and height in pixels. The Y axis starts at 0, and the
// stroke fits into the box.
func polyline(seconds []float64, counts []int32, width, height float64) string {
	if len(counts) < 2 || len(seconds) != len(counts) {
		return ""
	}
	const edge = 2
	first, last := seconds[0], seconds[len(seconds)-1]
	most := float64(max(1, slices.Max(counts)))
	var b strings.Builder
	for i, n := range counts {
		x := edge + (seconds[i]-first)/max(last-first, 1e-9)*(width-2*edge)
		y := height - edge - float64(n)/most*(height-2*edge)
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
	}
	return strings.TrimSpace(b.String())
}
