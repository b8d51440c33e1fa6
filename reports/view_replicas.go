package reports

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// replicaLine describes one replica of a variant in one line.
type replicaLine struct {
	Number  int
	Outcome leak.Outcome
	Result  leak.Result
	// Operations is the number of operations that the replica received.
	Operations int
	// Growth is the growth by Check, "–" if the check did not run. Check is the check that compares the replicas of
	// the variant.
	Growth, Check string
	value         float64 // the number behind Growth, for sorting
	// PerOperation is set if Growth is a rate.
	PerOperation bool
	// Shown is set for the replica that the rest of the report describes.
	Shown bool
}

// Replicas returns a line per replica, or nil for a single subject.
func (x variant) Replicas() []replicaLine {
	check := x.telling()
	var lines []replicaLine
	for _, vv := range x.Verdict.Replicas {
		l := replicaLine{
			Number: vv.Replica, Outcome: vv.Outcome, Result: vv.Result, Operations: vv.Operations,
			Growth: "–", Check: check, Shown: vv.Replica == x.Verdict.Replica,
		}
		if i := slices.IndexFunc(vv.Findings, func(f leak.Finding) bool { return f.Check == check }); i >= 0 {
			c := checkCell{Finding: &vv.Findings[i]}
			l.Growth = c.Growth()
			l.PerOperation = !c.InAll()
			l.value = vv.Findings[i].PerOperation
			if points := rounds(vv.Findings[i].Points); c.InAll() && len(points) > 0 {
				l.value = points[len(points)-1].Value - points[0].Value
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// telling returns the check that compares replicas best. It prefers the fingerprint, then a check that leaks in the
// worst replica, then the first that bounds growth per operation.
func (x variant) telling() string {
	for _, good := range []func(leak.Finding) bool{
		func(f leak.Finding) bool { return f.Fingerprint },
		func(f leak.Finding) bool { return f.Outcome == leak.Leaking },
		func(f leak.Finding) bool { return f.BoundPerOperation },
		func(leak.Finding) bool { return true },
	} {
		if i := slices.IndexFunc(x.Verdict.Findings, good); i >= 0 {
			return x.Verdict.Findings[i].Check
		}
	}
	return ""
}

// linesApart is the maximum number of replicas with a line each in text formats. If there are more, replicas with the
// same outcome share a line.
const linesApart = 8

// ReplicaLines describes the replicas for text formats.
func (x variant) ReplicaLines() []string {
	var lines []string
	all := x.Replicas()
	if len(all) <= linesApart {
		for _, l := range all {
			lines = append(lines, l.String())
		}
		return lines
	}
	same := map[leak.Outcome][]replicaLine{}
	var outcomes []leak.Outcome
	for _, l := range all {
		if same[l.Outcome] == nil {
			outcomes = append(outcomes, l.Outcome)
		}
		same[l.Outcome] = append(same[l.Outcome], l)
		if l.Shown {
			lines = append(lines, l.String())
		}
	}
	slices.SortFunc(outcomes, func(a, b leak.Outcome) int { return len(same[a]) - len(same[b]) }) // the rarest outcome first
	for _, o := range outcomes {
		group := same[o]
		told := fmt.Sprintf("%d of %d replicas %s", len(group), len(all), o)
		group = slices.DeleteFunc(group, func(l replicaLine) bool { return l.Growth == "–" })
		if len(group) == 0 {
			lines = append(lines, told)
			continue
		}
		slices.SortStableFunc(group, func(a, b replicaLine) int { return cmp.Compare(a.value, b.value) })
		typical, most := group[(len(group)-1)/2], group[len(group)-1]
		line := fmt.Sprintf("%s: %s %s", told, typical.Check, typical.growth())
		if most.Growth != typical.Growth {
			line += fmt.Sprintf(" typically, at most %s (replica %d)", most.growth(), most.Number)
		}
		lines = append(lines, line)
	}
	return lines
}

func (l replicaLine) growth() string {
	if l.PerOperation && l.Growth != "–" {
		return l.Growth + " per operation"
	}
	return l.Growth
}

// String formats the line for text formats.
func (l replicaLine) String() string {
	s := fmt.Sprintf("replica %d: %s, %s, %s %s", l.Number, l.Outcome, count(l.Operations, "operation"), l.Check, l.growth())
	if l.Shown {
		s += " (shown)"
	}
	return s
}
