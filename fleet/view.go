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

// Text writes the verdict for an engineer in a terminal.
func Text(w io.Writer, v *Verdict) error { return reports.FleetText(w, v.view()) }

// HTML writes the page on a fleet.
func HTML(w io.Writer, v *Verdict) error { return reports.FleetHTML(w, v.view()) }

// minAllGrowing is the share of the targets from which growth may be that of the traffic.
const minAllGrowing = 0.5

// view is what reports show of a verdict.
func (v *Verdict) view() reports.Fleet {
	t := v.Targets
	slowest := time.Duration(v.SlowestSweep * float64(time.Second)).Round(10 * time.Millisecond).String()
	in := reports.Fleet{
		Name: plural(t.Seen, "target"), Outcome: v.Outcome, Result: v.Result, Sentence: v.Sentence, Failure: v.Failure, Warnings: v.Warnings,
		Commands: nextCommands(v), RunDir: v.RunDir,
		Facts: []reports.Fact{
			{Name: "Leaking", Value: strconv.Itoa(t.Leaking)},
			{Name: "Clean", Value: strconv.Itoa(t.Clean)},
			{Name: "Undecided", Value: strconv.Itoa(t.Undecided)},
			{Name: "Not judged", Value: strconv.Itoa(t.NotJudged)},
			{Name: "Ended or restarted", Value: strconv.Itoa(t.Gone)},
			{Name: "Sweeps", Value: fmt.Sprintf("%d over %s", v.Sweeps, hours(v.Hours))},
			{Name: "Slowest sweep", Value: slowest},
			{Name: "Tested", Value: fmt.Sprintf("%s at p ≤ %.2g", plural(v.Tests, "series"), v.Alpha)},
		},
		Summary: []string{
			fmt.Sprintf("%s: %d leaking, %d clean, %d undecided, %d not judged; %d of them ended or restarted", plural(t.Seen, "target"), t.Leaking, t.Clean, t.Undecided, t.NotJudged, t.Gone),
			fmt.Sprintf("%s over %s, the slowest in %s; %s were tested, each at p ≤ %.2g (false-alarm budget %g)",
				plural(v.Sweeps, "sweep"), hours(v.Hours), slowest, plural(v.Tests, "series"), v.Alpha, v.FalseAlarmBudget),
		},
	}
	if v.Interrupted {
		in.Interrupted = "interrupted after " + plural(v.Sweeps, "sweep")
	}
	if v.Floor > 0 {
		floor := rateOf(v.Floor, "goroutines", "hour")
		in.Facts = append(in.Facts, reports.Fact{Name: "Could not have been seen", Value: "below " + floor})
		in.Summary = append(in.Summary, fmt.Sprintf("floor: growth of one target below %s would not have been detected", floor))
	}
	for _, u := range v.NotJudged {
		in.NotJudged = append(in.NotJudged, reports.Fact{Name: u.Target, Value: u.Reason})
	}
	for i := range v.Stacks {
		in.Stacks = append(in.Stacks, v.Stacks[i].view(v))
	}
	return in
}

func (sv *StackVerdict) view(v *Verdict) reports.FleetStack {
	s := reports.FleetStack{
		Outcome: sv.Targets[0].Outcome, Name: sv.name(), Place: sv.name(), GrowsIn: sv.growsIn(v), Worst: sv.Targets[0].rate(), Median: sv.median(),
		Elsewhere: display.Value(sv.Typical, sv.Unit), Known: sv.Known,
	}
	if sv.Stack != nil {
		s.State, s.Frames = sv.Stack.State, sv.Stack.Frames
	}
	unit := "KiB"
	if sv.Unit != "bytes" {
		unit = sv.Unit
		if sv.Stack != nil {
			s.Place = sv.Stack.Place().Short()
		}
	}
	if grow := sv.Leaking + sv.Undecided; v.Targets.Judged > 1 && float64(grow) >= minAllGrowing*float64(v.Targets.Judged) && sv.Targets[0].PerOperation == nil {
		s.Note = "most targets grow together, as with rising traffic: --counter measures growth per operation"
	}
	for i := range sv.Targets {
		g := &sv.Targets[i]
		s.Targets = append(s.Targets, reports.FleetTarget{
			Name: g.Target, Reason: g.Reason, Rate: g.rate(), Grew: display.Value(float64(g.From), g.Unit) + " → " + display.Value(float64(g.To), g.Unit),
			Outcome: g.Outcome, Gates: g.Gates, Seconds: g.Seconds, Counts: g.Counts, Unit: unit,
		})
	}
	return s
}

// nextCommands are the commands that take what leaks further, each with what it does.
func nextCommands(v *Verdict) []reports.Fact {
	dir := rundir.Dir(v.RunDir)
	for _, unit := range []string{"goroutines", "bytes"} {
		if v.RunDir == "" || len(v.leaking(unit)) == 0 {
			continue
		}
		return []reports.Fact{
			{Name: "compare with known leaks", Value: "leakrig explain " + reports.ShellPath(v.RunDir)},
			{Name: "write a scenario that reproduces it", Value: "leakrig match --skeleton " + reports.ShellPath(dir.Path(rundir.GrowthFile(unit))) + " > reproduction.yaml"},
		}
	}
	return nil
}
