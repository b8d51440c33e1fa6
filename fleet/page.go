package fleet

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
)

// HTMLFile is the page in the run directory.
const HTMLFile = rundir.HTMLFile

// HTML writes the page on a fleet.
func HTML(w io.Writer, v *Verdict) error {
	t := v.Targets
	in := reports.FleetInput{
		Name: plural(t.Seen, "target"), Outcome: v.Outcome, Sentence: v.Sentence, Failure: v.Failure, Warnings: v.Warnings, Commands: nextCommands(v),
		Facts: []reports.FleetFact{
			{Name: "Leaking", Value: strconv.Itoa(t.Leaking)},
			{Name: "Clean", Value: strconv.Itoa(t.Clean)},
			{Name: "Undecided", Value: strconv.Itoa(t.Undecided)},
			{Name: "Not judged", Value: strconv.Itoa(t.NotJudged)},
			{Name: "Ended or restarted", Value: strconv.Itoa(t.Gone)},
			{Name: "Sweeps", Value: fmt.Sprintf("%d over %s", v.Sweeps, hours(v.Hours))},
			{Name: "Slowest sweep", Value: time.Duration(v.SlowestSweep * float64(time.Second)).Round(10 * time.Millisecond).String()},
			{Name: "Tested", Value: fmt.Sprintf("%s at p ≤ %.2g", plural(v.Tests, "series"), v.Alpha)},
			{Name: "Could not have been seen", Value: "below " + rateOf(v.Floor, "goroutines", "hour")},
		},
	}
	if v.Floor == 0 {
		in.Facts = in.Facts[:len(in.Facts)-1]
	}
	for _, u := range v.NotJudged {
		in.NotJudged = append(in.NotJudged, reports.FleetFact{Name: u.Target, Value: u.Reason})
	}
	for i := range v.Stacks {
		in.Stacks = append(in.Stacks, v.Stacks[i].page(v))
	}
	return reports.Fleet(w, in)
}

func (sv *StackVerdict) page(v *Verdict) reports.FleetStack {
	s := reports.FleetStack{
		Outcome: sv.Targets[0].Outcome, Place: sv.name(), GrowsIn: sv.growsIn(v), Worst: sv.Targets[0].rate(), Median: sv.median(),
		Elsewhere: display.Value(sv.Typical, sv.Unit), Known: sv.Known,
	}
	if sv.Stack != nil {
		s.State, s.Place, s.Frames = sv.Stack.State, sv.Stack.Place().Short(), sv.Stack.Frames
		if sv.Unit == "bytes" {
			s.Place = sv.name()
		}
	}
	for i := range sv.Targets {
		g := &sv.Targets[i]
		s.Targets = append(s.Targets, reports.FleetTarget{
			Name: g.Target, Reason: g.Reason, Rate: g.rate(), Outcome: g.Outcome, Gates: g.Gates, Seconds: g.Seconds, Counts: g.Counts, Unit: sv.unitOfCounts(),
		})
	}
	return s
}

// unitOfCounts is the unit of the points.
func (sv *StackVerdict) unitOfCounts() string {
	if sv.Unit == "bytes" {
		return "KiB"
	}
	return sv.Unit
}

// growsIn is "3 of 1000": the targets with growth, of the judged ones.
func (sv *StackVerdict) growsIn(v *Verdict) string {
	if sv.Leaking == 0 {
		return fmt.Sprintf("%d undecided", sv.Undecided)
	}
	return fmt.Sprintf("%d of %d", sv.Leaking, v.Targets.Judged)
}

// median is the typical growth in the unit that was judged.
func (sv *StackVerdict) median() string {
	if sv.MedianPerOperation > 0 {
		return rateOf(sv.MedianPerOperation, sv.Unit, "operation")
	}
	return rateOf(sv.MedianPerHour, sv.Unit, "hour")
}
