package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// fewest is how many points any judgement needs.
const fewest = 6

// kind is what the series of a survey count.
type kind struct {
	unit, all string
	// of returns the counts of a target, nil if they were not read. scale is what one count is in the unit.
	of    func(*Series) *tally
	scale float64
	// grain is how much a value changes by chance, in the unit: one goroutine, or one sample of the heap.
	grain float64
	// sampled is set if values are estimates from samples of a grain.
	sampled               bool
	perHour, perOperation func(Bounds) float64
}

// kinds are judged with the same gates. A heap profile has one sample in 512 KiB, so the number of samples on a site
// varies as a number of goroutines does.
var kinds = []*kind{
	{
		unit: "goroutines", all: "goroutines in total, on no single stack", of: func(s *Series) *tally { return &s.tally }, scale: 1, grain: 1,
		perHour: func(b Bounds) float64 { return b.PerHour }, perOperation: func(b Bounds) float64 { return b.PerOperation },
	},
	{
		unit: "bytes", all: "heap in total, on no single allocation site", of: func(s *Series) *tally { return s.Heap }, scale: 1 << 10, grain: 512 << 10, sampled: true,
		perHour: func(b Bounds) float64 { return b.HeapPerHour }, perOperation: func(b Bounds) float64 { return b.HeapPerOperation },
	},
}

// site identifies a series in all targets.
type site struct {
	kind  *kind
	stack int
}

// Bounds limit growth.
type Bounds struct {
	// PerHour and PerOperation are the most that the goroutines on one stack of one target may grow.
	PerHour      float64 `json:"perHour"`
	PerOperation float64 `json:"perOperation"`
	// HeapPerHour and HeapPerOperation are the same for the bytes of one allocation site.
	HeapPerHour      float64 `json:"heapPerHour,omitempty"`
	HeapPerOperation float64 `json:"heapPerOperation,omitempty"`
	// MinJudged is the share of targets that must be judged, from 0 to 1.
	MinJudged float64 `json:"minJudged"`
}

// Judge decides. Every stack of every target is a series, and so is the total of a target's goroutines. Allocation
// sites and the sampled heap in total are series, too, with a sample of 512 KiB in place of a goroutine. The axis is
// the clock or the counter, so single missed sweeps do not matter. [checks.Readings.Judge] has the conditions. All
// series of all targets share the false-alarm budget. Floor states the smallest detectable growth.
//
// A target is not judged if it has too few points for a significant trend, or an undecided series. If too many
// targets are not judged, the fleet is not clean.
func Judge(r *Record, b Bounds) *Verdict {
	v := &Verdict{
		Schema: VerdictSchema, Interrupted: r.Interrupted, Sweeps: len(r.Sweeps), MinJudged: b.MinJudged,
		MaxPerHour: b.PerHour, MaxPerOperation: b.PerOperation, MaxHeapPerHour: b.HeapPerHour, MaxHeapPerOperation: b.HeapPerOperation, FalseAlarmBudget: checks.FalseAlarmBudget,
		Failure: r.Failure, Warnings: slices.Clone(r.Warnings), Stacks: []StackVerdict{}, NotJudged: []Unjudged{},
	}
	for _, s := range r.Sweeps {
		v.Hours = s.Seconds / 3600
		v.SlowestSweep = max(v.SlowestSweep, s.Took)
	}
	for _, t := range r.Targets {
		for _, k := range kinds {
			if of := k.of(t); of != nil {
				v.Tests += 1 + len(of.Groups)
			}
		}
	}
	v.Alpha = v.FalseAlarmBudget / float64(max(v.Tests, 1))
	v.Needed = checks.PointsNeeded(v.Alpha)
	v.Floor = floor(v, b)
	j := judgement{Record: r, bounds: b, v: v, byStack: map[site]*StackVerdict{}, lost: map[site]float64{}}
	for _, t := range r.Targets {
		j.target(t)
	}
	if j.unloaded > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("judged per hour, without the counter %s: %s; %s", r.Counter, plural(j.unloaded, "target"), j.why))
	}
	v.Targets.NotJudged += r.Beyond
	v.Targets.Seen += r.Beyond
	j.stacks()
	j.conclude()
	return v
}

// floor returns the smallest growth per hour that can be detected with this number of points and this duration,
// without noise.
func floor(v *Verdict, b Bounds) float64 {
	if v.Hours <= 0 || v.Sweeps < v.Needed {
		return math.Inf(1)
	}
	return max(b.PerHour, checks.FewestGained/v.Hours)
}

type judgement struct {
	*Record
	bounds  Bounds
	v       *Verdict
	byStack map[site]*StackVerdict
	// lost is what fall knows.
	lost map[site]float64
	// unloaded counts targets whose operations are not known although a counter was named; why is the first
	// one's reason.
	unloaded int
	why      string
}

// stale is the share of the survey after which a target that is still listed has to have been read to be clean.
const stale = 0.75

// all is the index of the stack for all goroutines of a target.
const all = -2

// target judges every series of one.
func (j *judgement) target(t *Series) {
	tally := &j.v.Targets
	tally.Seen++
	if t.Gone {
		tally.Gone++
	}
	if n := len(t.Seconds); n < j.v.Needed {
		tally.NotJudged++
		why := fmt.Sprintf("%d points, and %d are needed", n, j.v.Needed)
		switch {
		case t.Failures > 0:
			why += ": " + t.LastError
		case t.Gone:
			why += ": it ended before"
		case t.First > 0:
			why += ": it came late"
		}
		j.v.NotJudged = append(j.v.NotJudged, Unjudged{t.Name, why})
		return
	}
	if j.Counter != "" && !t.hasLoad() {
		j.unloaded++
		if j.why == "" {
			j.why = fmt.Sprintf("%s: %s", t.Name, cmp.Or(t.NoCounter, "it stood still"))
		}
	}
	tests := 0
	for _, k := range kinds {
		if of := k.of(t); of != nil {
			tests += 1 + len(of.Groups)
		}
	}
	share := j.v.FalseAlarmBudget / float64(tests)
	var grows []found
	for _, k := range kinds {
		of := k.of(t)
		if of == nil {
			continue
		}
		before := len(grows)
		for _, g := range of.Groups {
			if one := j.series(t, site{k, g.Stack}, g.Counts, share); one != nil {
				grows = append(grows, found{site{k, g.Stack}, *one})
			}
		}
		if len(grows) == before { // the whole is only asked where no part tells
			if one := j.series(t, site{k, all}, of.Total, share); one != nil {
				grows = append(grows, found{site{k, all}, *one})
			}
		}
	}
	worst := leak.Clean
	for _, f := range grows {
		if f.Outcome == leak.Leaking || worst == leak.Clean {
			worst = f.Outcome
		}
		sv := j.byStack[f.site]
		if sv == nil {
			sv = &StackVerdict{Unit: f.site.kind.unit}
			j.byStack[f.site] = sv
		}
		sv.Targets = append(sv.Targets, f.Growth)
	}
	switch worst {
	case leak.Leaking:
		tally.Leaking++
	case leak.Clean:
		if last := t.Seconds[len(t.Seconds)-1]; !t.Gone && last/3600 < stale*j.v.Hours {
			tally.NotJudged++
			j.v.NotJudged = append(j.v.NotJudged, Unjudged{t.Name, fmt.Sprintf("it was not read after %s: %s", hours(last/3600), cmp.Or(t.LastError, "no reading came about"))})
			break
		}
		tally.Clean++
	default:
		tally.Undecided++
	}
}

type found struct {
	site
	Growth
}

// series judges one; nil is clean. share is the part of the budget that it would have, were its target alone.
func (j *judgement) series(t *Series, at site, counts Counts, share float64) *Growth {
	k := at.kind
	if float64(counts[len(counts)-1]-counts[0])*k.scale <= checks.ComeAndGo*k.grain {
		return nil // as nearly all series: spare them the copies below
	}
	r := checks.Readings{Unit: k.unit, Axis: "hour", Y: make([]float64, len(counts)), Grain: k.grain, Estimated: k.sampled}
	hours := make([]float64, len(counts))
	for i, n := range counts {
		r.Y[i], hours[i] = float64(n)*k.scale, t.Seconds[i]/3600
	}
	r.X = hours
	bound, perOperation := k.perHour(j.bounds), t.hasLoad()
	if perOperation {
		r.Axis, r.X, bound = "operation", t.Operations, k.perOperation(j.bounds)
	}
	f := r.Judge(bound, j.v.Alpha, share, func() float64 { return j.fall(at) })
	if f == nil {
		return nil
	}
	g := &Growth{
		Target: t.Name, Unit: k.unit, Outcome: f.Outcome, Gates: f.Gates, From: int(r.Y[0]), To: int(r.Y[len(r.Y)-1]),
		Seconds: t.Seconds, Counts: counts, PerHour: f.PerOperation, Low: f.Low, High: f.High,
	}
	if perOperation {
		g.PerOperation = &f.PerOperation
		byHour, _ := stats.TheilSen(hours, r.Y)
		g.PerHour, g.Low, g.High = byHour.Slope, byHour.Low, byHour.High
	}
	g.Reason = g.reason()
	return g
}

// hasLoad reports whether operations are known, and whether there were any in the first half, in the second half, and
// in the last quarter.
func (s *Series) hasLoad() bool {
	n := len(s.Operations)
	if n < fewest || n != len(s.Seconds) {
		return false
	}
	return s.Operations[n/2] > s.Operations[0] && s.Operations[n-1] > s.Operations[n-1-max(2, (n+2)/4)]
}

// fall returns the steady decline of a stack from the first to the last sweep, at the 99th percentile of the targets
// that have it. It is 0 without a decline.
func (j *judgement) fall(at site) float64 {
	if known, ok := j.lost[at]; ok {
		return known
	}
	falls := []float64{0}
	for _, t := range j.Targets {
		of := at.kind.of(t)
		if of == nil || len(t.Seconds) < j.v.Needed {
			continue
		}
		if at.stack == all {
			falls = append(falls, lostIn(of.Total))
			continue
		}
		for _, g := range of.Groups {
			if g.Stack == at.stack {
				falls = append(falls, lostIn(g.Counts))
			}
		}
	}
	slices.Sort(falls)
	j.lost[at] = falls[len(falls)-1-len(falls)/100] * at.kind.scale
	return j.lost[at]
}

// lostIn returns what a series lost steadily.
func lostIn(c Counts) float64 {
	if c[len(c)-1] >= c[0] {
		return 0
	}
	y := make([]float64, len(c))
	for i, n := range c {
		y[i] = float64(n)
	}
	return checks.SteadyLoss(y)
}

// stacks completes the findings of each stack and sorts them: those in most targets first, then the worst.
func (j *judgement) stacks() {
	on, typical := j.census()
	for at, sv := range j.byStack {
		sv.all = at.kind.all
		if at.stack >= 0 {
			sv.Stack = &j.Stacks[at.stack]
		} else if at.stack == Other {
			sv.Stack, sv.other = &leak.Stack{Frames: []leak.Frame{{Func: "(any of the rarer stacks)"}}}, true
		}
		slices.SortStableFunc(sv.Targets, func(a, b Growth) int {
			return cmp.Or(-cmp.Compare(a.Outcome, b.Outcome), -cmp.Compare(a.PerHour, b.PerHour), cmp.Compare(a.Target, b.Target))
		})
		var perHour, perOperation []float64
		for _, g := range sv.Targets {
			if g.Outcome == leak.Leaking {
				sv.Leaking++
			} else {
				sv.Undecided++
			}
			if g.Outcome == sv.Targets[0].Outcome {
				perHour = append(perHour, g.PerHour)
				if g.PerOperation != nil {
					perOperation = append(perOperation, *g.PerOperation)
				}
			}
		}
		sv.MedianPerHour, sv.MedianPerOperation = stats.Median(perHour), stats.Median(perOperation)
		sv.On, sv.Typical = on[at], typical[at]
		if sv.Leaking > 0 && sv.Stack != nil {
			if m := catalogue.Known(*sv.Stack, sv.Unit == "bytes", leak.SubjectInfo{}); m != nil {
				sv.Known = m.Sentence()
			}
		}
		j.v.Stacks = append(j.v.Stacks, *sv)
	}
	slices.SortStableFunc(j.v.Stacks, func(a, b StackVerdict) int {
		return cmp.Or(cmp.Compare(b.Leaking, a.Leaking), cmp.Compare(b.Undecided, a.Undecided),
			cmp.Compare(b.Targets[0].PerHour, a.Targets[0].PerHour), strings.Compare(a.name(), b.name()))
	})
}

// census returns for each growing stack the number of targets with it, and the median number of goroutines at the end
// over targets in which it does not grow.
func (j *judgement) census() (on map[site]int, typical map[site]float64) {
	on, typical = map[site]int{}, map[site]float64{}
	ends := map[site][]float64{}
	grows := map[site]map[string]bool{}
	for at, sv := range j.byStack {
		grows[at] = map[string]bool{}
		for _, g := range sv.Targets {
			grows[at][g.Target] = true
		}
	}
	for _, t := range j.Targets {
		if len(t.Seconds) < j.v.Needed {
			continue
		}
		have := map[site]float64{}
		for _, k := range kinds {
			of := k.of(t)
			if of == nil {
				continue
			}
			have[site{k, all}] = float64(of.Total[len(of.Total)-1]) * k.scale
			for _, g := range of.Groups {
				have[site{k, g.Stack}] = float64(g.Counts[len(g.Counts)-1]) * k.scale
			}
		}
		for at := range j.byStack {
			n, ok := have[at]
			if ok {
				on[at]++
			}
			if !grows[at][t.Name] {
				ends[at] = append(ends[at], n)
			}
		}
	}
	for at, list := range ends {
		typical[at] = stats.Median(list)
	}
	return on, typical
}

// conclude decides on the fleet.
func (j *judgement) conclude() {
	v, t := j.v, &j.v.Targets
	t.Judged = t.Leaking + t.Clean
	switch {
	case v.Failure != nil:
		v.Result = leak.Unmeasured
	case t.Leaking > 0:
		v.Outcome, v.Result = leak.Leaking, leak.NotMet
	case v.enough():
		v.Outcome, v.Result = leak.Clean, leak.Met
	}
	v.Sentence = v.sentence()
	v.ExitCode = leak.ExitCode(v.Interrupted, false, v.Failure != nil, v.Result)
	if math.IsInf(v.Floor, 1) {
		v.Floor = 0 // nothing could have been seen at all, which Needed tells
	}
}

// enough reports whether enough targets were judged for the fleet to be clean.
func (v *Verdict) enough() bool {
	return v.Targets.Judged > 0 && float64(v.Targets.Judged) >= v.MinJudged*float64(v.Targets.Seen)
}
