package checks

import (
	"fmt"
	"math"
	"slices"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/stats"
)

// Minimal trace of an operation in a process: a request of net/http allocates forty objects with its connection and a
// dozen without, and a system call that wakes a process takes a microsecond.
const (
	mallocsPerOp = 1
	cpuPerOp     = 1e-6 // seconds
)

// arrived withdraws a clean verdict if the load is not known to have reached the subject. Growth stays growth.
func arrived(vv leak.VariantVerdict, measured *leak.VariantRecord, shots []leak.Snapshot) leak.VariantVerdict {
	if vv.Outcome == leak.Leaking || vv.Lead() != nil {
		return vv
	}
	if why := notArrived(measured, shots); why != "" {
		return conclude(vv, leak.Inconclusive, leak.Undecided, why)
	}
	return vv
}

// notArrived says why the load is not known to have reached what was measured, "" where there is evidence that it did,
// in any of the processes. A record from before the counters were read says nothing.
//
// In more than half of the rounds a process must have allocated an object for each operation beyond what it does
// without load, used a microsecond of processor time, or gained a goroutine for every second operation.
func notArrived(v *leak.VariantRecord, shots []leak.Snapshot) string {
	if !v.Traced || goroutinesArrived(shots) {
		return ""
	}
	best, known := math.Inf(-1), false
	for _, name := range processes(shots) {
		mallocs, ok := beyondQuiet(v, shots, name, func(a leak.Activity) *float64 { return a.Mallocs })
		if ok && mallocs.perOp >= mallocsPerOp && mallocs.total > 0 {
			return ""
		}
		if ok {
			best, known = max(best, mallocs.perOp), true
		}
		cpu, ok := beyondQuiet(v, shots, name, func(a leak.Activity) *float64 { return a.CPUSeconds })
		// The processor time of a reading varies far more than its allocations.
		if ok && cpu.perOp >= cpuPerOp && (mallocs.reading == 0 || cpu.total > cpu.reading) {
			return ""
		}
		known = known || ok
	}
	switch {
	case !known:
		return "whether the load reached it is unknown: it does not serve /debug/pprof/heap, and its processor time is not readable; serve all of net/http/pprof"
	case math.IsInf(best, -1):
		return "the load left no trace in it: it used no more processor time than without load; check that it reaches this very process"
	case best <= 0:
		return "the load left no trace in it: it allocated nothing beyond what it does without load; check that it reaches this very process"
	}
	return fmt.Sprintf("the load left no trace in it: %.2g objects were allocated per operation beyond what it does without load, and a request takes dozens; check that it reaches this very process, and that its operations are counted right", best)
}

// goroutinesArrived reports whether every second operation left a goroutine in more than half of the rounds. A few
// operations per round may allocate less than reading the counters varies by.
func goroutinesArrived(shots []leak.Snapshot) bool {
	rounds, with := 0, 0
	for i := 1; i < len(shots); i++ {
		before, now := shots[i-1].Sample("goroutine"), shots[i].Sample("goroutine")
		operations := shots[i].Operations - shots[i-1].Operations
		if before == nil || now == nil || operations <= 0 {
			continue
		}
		rounds++
		if now.Values["count"]-before.Values["count"] >= float64(operations)/2 {
			with++
		}
	}
	return 2*with > rounds
}

// processes returns the components whose activity the rounds have. "" is the program.
func processes(shots []leak.Snapshot) []string {
	var names []string
	for _, shot := range shots {
		for _, a := range shot.Activity {
			if !slices.Contains(names, a.Component) {
				names = append(names, a.Component)
			}
		}
	}
	return names
}

// surplus is the activity of a process in the rounds beyond its activity without load.
type surplus struct {
	// perOp is the median over the rounds, total that of whole rounds.
	perOp, total float64
	// reading is the most that reading the counters costs.
	reading float64
}

// beyondQuiet compares rounds with the activity of the process without load. From its activity in a round it
// subtracts
//
//   - the cost of reading the counters, which is measured right before the load. It grows with the output, which the
//     load may have made longer, by a cost per line from all readings without load;
//   - twice the largest error with which one reading predicts the cost of the next;
//   - the activity in the same time without load, from the mean and the spread of its stretches without load.
//
// It returns false if the record lacks the data.
func beyondQuiet(v *leak.VariantRecord, shots []leak.Snapshot, name string, of func(leak.Activity) *float64) (surplus, bool) {
	reading := activities(v.Reading, name, of)
	quiet := activities(v.Quiet, name, of)
	if len(reading) == 0 || len(quiet) == 0 {
		return surplus{}, false
	}
	var lines, cost []float64
	for _, a := range reading {
		lines, cost = append(lines, a.lines), append(cost, a.did)
	}
	for i := 1; i < len(shots); i++ {
		for _, a := range activities([][]leak.Activity{shots[i].Reading}, name, of) {
			if shots[i].Merged == 0 {
				lines, cost = append(lines, a.lines), append(cost, a.did)
			}
		}
	}
	perLine, _ := stats.TheilSen(lines, cost)
	off := 0.0
	for i := 1; i < len(reading); i++ {
		off = max(off, math.Abs(reading[i].did-reading[i].expected(reading[i-1], perLine.Slope)))
	}
	s := surplus{reading: slices.Max(cost)}
	var rates []float64
	mean, stretch := 0.0, 0.0
	for _, a := range quiet {
		rates = append(rates, max(a.did-a.expected(reading[0], perLine.Slope)-off, 0)/max(a.seconds, minStretch))
		mean += rates[len(rates)-1] / float64(len(quiet))
		stretch += a.seconds / float64(len(quiet))
	}
	var apart []float64
	for _, r := range rates {
		apart = append(apart, math.Abs(r-stats.Median(rates)))
	}
	deviation := asDeviation * stats.Median(apart)
	var perOp, totals []float64
	for i := 1; i < len(shots); i++ {
		operations := float64(shots[i].Operations - shots[i-1].Operations)
		if operations <= 0 {
			continue
		}
		load := activities([][]leak.Activity{shots[i].Activity}, name, of)
		before := activities([][]leak.Activity{shots[i].Reading}, name, of)
		if len(load) == 0 || len(before) == 0 {
			return surplus{}, false
		}
		// A shorter time differs more from the mean, as the root of how many of them make one stretch.
		seconds := load[0].seconds
		itself := (mean + 2*deviation*math.Sqrt(max(1, stretch/max(seconds, minStretch)))) * seconds
		beyond := load[0].did - load[0].expected(before[0], perLine.Slope) - 2*off*float64(1+shots[i].Merged) - itself
		perOp, totals = append(perOp, beyond/operations), append(totals, beyond)
	}
	if len(perOp) == 0 {
		return surplus{}, false
	}
	s.perOp, s.total = lowerMedian(perOp), lowerMedian(totals)
	return s, true
}

const (
	// asDeviation converts the median absolute deviation of a normal distribution to its standard deviation.
	asDeviation = 1.4826
	// minStretch keeps rates finite, in seconds.
	minStretch = 1e-3
)

// did is one number of what a process did.
type did struct{ did, seconds, lines float64 }

// expected returns the cost of reading the counters alone, estimated from another time and a cost per line.
func (d did) expected(other did, perLine float64) float64 {
	return other.did + perLine*(d.lines-other.lines)
}

// activities returns the activities of a process; nil if one is unknown.
func activities(all [][]leak.Activity, name string, of func(leak.Activity) *float64) []did {
	var list []did
	for _, stretch := range all {
		at := slices.IndexFunc(stretch, func(a leak.Activity) bool { return a.Component == name })
		if at < 0 || of(stretch[at]) == nil {
			return nil
		}
		list = append(list, did{*of(stretch[at]), stretch[at].Seconds, stretch[at].Lines})
	}
	return list
}

// lowerMedian is the value that more than half of them reach.
func lowerMedian(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[(len(values)-1)/2]
}
