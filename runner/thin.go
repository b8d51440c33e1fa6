package runner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// maxKept bounds the snapshots of a soak, so that the size of the record and the time to judge it do not grow with the
// number of rounds.
const maxKept = 100

// maxErrors bounds the messages of a merged tally, as package load does those of one round.
const maxErrors = 5

// maxWarnings bounds what one variant of a soak has to say.
const maxWarnings = 50

// metric is one of one probe.
type metric struct{ probe, name string }

// thin keeps these snapshots of a soak, baseline first: one per stride rounds, the first, the last, and both sides of
// the steepest step of each metric, which is the largest rise per round between two neighbours. If there are more
// than most, it drops the oldest that are not on the double stride. Once all are on it, the stride has doubled. So
// the number of snapshots is nearly constant, and they are evenly spaced, except that older ones may be twice as far
// apart. A dropped snapshot passes its load to the next one. thin does not change shots.
//
// A step over dropped rounds is never steeper than the steepest step within it. So the kept step is the steepest that
// was ever measured.
func thin(shots []leak.Snapshot, stride, most int, metrics []metric) ([]leak.Snapshot, int) {
	stays := steepest(shots, metrics)
	stays[0], stays[len(shots)-1] = true, true
	drop, left := map[int]bool{}, len(shots)
	// prune drops snapshots that are not on the stride, oldest first, until at most enough are left.
	prune := func(stride, enough int) {
		for i := 0; i < len(shots) && left > enough; i++ {
			if !stays[i] && !drop[i] && shots[i].Round%stride != 0 {
				drop[i] = true
				left--
			}
		}
	}
	stride = max(stride, 1)
	prune(stride, 0)
	for prune(2*stride, most); left > most && stride <= shots[len(shots)-1].Round; prune(2*stride, most) {
		stride *= 2
	}
	var kept, gone []leak.Snapshot
	for i := range shots {
		if drop[i] {
			gone = append(gone, shots[i])
			continue
		}
		kept = append(kept, merged(gone, shots[i]))
		gone = nil
	}
	return kept, stride
}

// steepest marks both sides of each metric's largest rise per round.
func steepest(shots []leak.Snapshot, metrics []metric) map[int]bool {
	ends := map[int]bool{}
	for _, m := range metrics {
		best, at := 0.0, 0
		for i := 1; i < len(shots); i++ {
			before, ok1 := valueOf(&shots[i-1], m)
			after, ok2 := valueOf(&shots[i], m)
			rounds := shots[i].Round - shots[i-1].Round
			if rise := (after - before) / float64(max(rounds, 1)); ok1 && ok2 && rise > best {
				best, at = rise, i
			}
		}
		if at > 0 {
			ends[at-1], ends[at] = true, true
		}
	}
	return ends
}

func valueOf(s *leak.Snapshot, m metric) (float64, bool) {
	sample := s.Sample(m.probe)
	if sample == nil {
		return 0, false
	}
	v, ok := sample.Values[m.name]
	return v, ok
}

// merged is a snapshot that also has the load of those right before it, and what hung in them.
func merged(gone []leak.Snapshot, s leak.Snapshot) leak.Snapshot {
	if len(gone) == 0 {
		return s
	}
	var load []leak.Tally
	s.Samples = slices.Clone(s.Samples)
	for _, g := range gone {
		s.Merged += 1 + g.Merged
		if g.Activity != nil { // the baseline has none
			s.Activity, s.Reading = leak.Activities(s.Activity, g.Activity), leak.Activities(s.Reading, g.Reading)
		}
		load = append(load, g.Load...)
	}
	s.Load = sumTallies(append(load, s.Load...))
	for i := range s.Samples {
		sample := &s.Samples[i]
		for _, g := range slices.Backward(gone) {
			if before := g.Sample(sample.Probe); !sample.BlockedRead && before != nil && before.BlockedRead {
				sample.Blocked, sample.BlockedRead = before.Blocked, true
			}
		}
	}
	return s
}

// sumTallies makes one tally per action. It keeps the largest latencies, because they cannot be added, and the errors
// of lost workers. It drops the tallies of the workers.
func sumTallies(all []leak.Tally) []leak.Tally {
	var sums []leak.Tally
	errors := map[string]map[leak.ErrorCount]int{} // by what is not their count
	for _, t := range all {
		i := slices.IndexFunc(sums, func(s leak.Tally) bool { return s.Action == t.Action })
		if i < 0 {
			i = len(sums)
			sums = append(sums, leak.Tally{Action: t.Action, Fault: t.Fault})
			errors[t.Action] = map[leak.ErrorCount]int{}
		}
		s := &sums[i]
		s.Attempted += t.Attempted
		s.Succeeded += t.Succeeded
		s.Failed += t.Failed
		s.TimedOut += t.TimedOut
		s.Silent += t.Silent
		s.Seconds += t.Seconds
		s.Open = s.Open.Then(t.Open)
		s.Latency.P50, s.Latency.P90 = max(s.Latency.P50, t.Latency.P50), max(s.Latency.P90, t.Latency.P90)
		s.Latency.P99, s.Latency.Max = max(s.Latency.P99, t.Latency.P99), max(s.Latency.Max, t.Latency.Max)
		for _, e := range t.Errors {
			n := e.Count
			e.Count = 0
			errors[t.Action][e] += n
		}
	}
	for i := range sums {
		sums[i].Errors = most(errors[sums[i].Action])
	}
	return sums
}

// most returns the errors of lost workers and the most frequent messages.
func most(errors map[leak.ErrorCount]int) []leak.ErrorCount {
	var list []leak.ErrorCount
	for e, n := range errors {
		e.Count = n
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b leak.ErrorCount) int {
		if a.Lost != b.Lost {
			return map[bool]int{true: -1, false: 1}[a.Lost]
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Message, b.Message))
	})
	return list[:min(len(list), maxErrors)]
}

// thinRecord thins the snapshots of a variant's record, removes stacks that no snapshot refers to any more, and returns
// the stride. The raw files of removed snapshots still exist.
func thinRecord(v *leak.VariantRecord, stride int, metrics []metric) int {
	kept, stride := thin(v.Snapshots, stride, maxKept, metrics)
	if len(kept) == len(v.Snapshots) {
		return stride
	}
	v.Snapshots = kept
	used := map[string]bool{}
	for s := range everySnapshot(v) {
		for _, sample := range s.Samples {
			for _, groups := range sample.Groups {
				for _, g := range groups {
					used[g.Stack] = true
				}
			}
			for _, g := range sample.Blocked {
				used[g.Stack] = true
			}
		}
	}
	maps.DeleteFunc(v.Stacks, func(id string, _ leak.Stack) bool { return !used[id] })
	return stride
}

// everySnapshot yields all that a variant's record has.
func everySnapshot(v *leak.VariantRecord) func(func(*leak.Snapshot) bool) {
	return func(yield func(*leak.Snapshot) bool) {
		for i := range v.Control {
			if !yield(&v.Control[i]) {
				return
			}
		}
		for i := range v.Snapshots {
			if !yield(&v.Snapshots[i]) {
				return
			}
		}
		if v.Idle != nil {
			yield(v.Idle)
		}
	}
}

// filesOf returns the raw files of a variant's record without those of its replicas.
func filesOf(v *leak.VariantRecord) map[string]bool {
	files := map[string]bool{}
	for s := range everySnapshot(v) {
		for _, sample := range s.Samples {
			for _, f := range sample.Files {
				files[f] = true
			}
		}
	}
	return files
}
