package checks

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// maxFailed is the maximum share of failed operations. Above it, the load is not that of the scenario.
const maxFailed = 0.01

// Judge concludes from the record whether the scenario's expectations hold. It changes neither, and
// the same record gives the same verdict.
func Judge(s *leak.Scenario, r *leak.Record) *leak.Verdict {
	v := &leak.Verdict{
		Schema: leak.VerdictSchema, Scenario: r.Scenario, FalseAlarmBudget: falseAlarmBudget,
		Interrupted: r.Interrupted, Variants: []leak.VariantVerdict{},
	}
	j := judge{s, r, alpha(s, len(r.Plan.Variants)*max(1, r.Plan.Replicas), len(r.Plan.Looks))}
	var results []leak.Result
	for _, name := range r.Plan.Variants {
		v.Variants = append(v.Variants, j.variant(name))
	}
	unmatched(v)
	for _, vv := range v.Variants {
		results = append(results, vv.Result)
	}
	v.Result = leak.Worst(results...)
	if len(results) == 0 && r.Failure != nil {
		v.Result = leak.Unmeasured
	}
	v.Sentence = sentence(v, r)
	if v.Result == leak.Met && oneSided(s, v) {
		v.Sentence = strings.TrimSuffix(v.Sentence, ".") + "; nothing that is known to leak was run."
	}
	return v
}

// oneSided reports whether no known leak was run, so that the checks were never seen to find anything. A running
// program has no variants.
func oneSided(s *leak.Scenario, v *leak.Verdict) bool {
	return len(s.Spec.Subject.Addresses()) == 0 &&
		!slices.ContainsFunc(v.Variants, func(vv leak.VariantVerdict) bool { return vv.Expect != leak.ExpectClean })
}

// unmatched makes a clean variant inconclusive if stack checks judged it alone and none of their patterns ever matched
// a stack, in this variant or in another one. A pattern that matches nothing finds nothing.
func unmatched(v *leak.Verdict) {
	matched := map[string]bool{}
	for _, vv := range v.Variants {
		for _, one := range append(slices.Clone(vv.Replicas), vv) {
			for _, f := range one.Findings {
				matched[f.Check] = matched[f.Check] || f.Kind != "stack" || len(f.Stacks) > 0
			}
		}
	}
	for i := range v.Variants {
		vv := &v.Variants[i]
		if vv.Outcome != leak.Clean || vv.Expect != leak.ExpectClean || slices.ContainsFunc(vv.Findings, func(f leak.Finding) bool { return matched[f.Check] }) {
			continue
		}
		*vv = conclude(*vv, leak.Inconclusive, leak.Undecided, "no stack ever matched a check, and nothing else was judged; check the patterns against the stacks of a profile")
	}
}

type judge struct {
	scenario *leak.Scenario
	record   *leak.Record
	alpha    float64
}

func (j judge) variant(name string) leak.VariantVerdict {
	vv := leak.VariantVerdict{Variant: name, Findings: []leak.Finding{}}
	i := slices.IndexFunc(j.scenario.Spec.Variants, func(v leak.Variant) bool { return v.Name == name })
	if i < 0 {
		return unmeasured(vv, "the scenario has no variant "+name)
	}
	variant := j.scenario.Spec.Variants[i]
	vv.Expect = variant.Expect
	measured := j.record.Variant(name)
	if measured == nil {
		return unmeasured(vv, "it was not run"+failureReason(j.record.Failure, j.record.Interrupted))
	}
	each := measured.Each()
	if planned := max(1, j.record.Plan.Replicas); len(each) != planned {
		return unmeasured(vv, fmt.Sprintf("%d of %d replicas were measured", len(each), planned)+failureReason(measured.Failure, j.record.Interrupted))
	}
	var all []leak.VariantVerdict
	for i := range each {
		all = append(all, j.one(vv, variant, &each[i]))
	}
	return worstReplica(all)
}

// one returns the verdict on the measurements of a variant, or of one of its replicas.
func (j judge) one(vv leak.VariantVerdict, variant leak.Variant, measured *leak.VariantRecord) leak.VariantVerdict {
	if vv.Replica = measured.Replica; vv.Replica > 0 {
		if last := measured.Final(); last != nil {
			vv.Operations = last.Operations
		}
	}
	planned := j.record.Plan.Rounds
	if measured.Stopped != "" {
		planned = min(planned, lastRound(measured.Snapshots)) // more were not needed
	}
	e := leak.Evidence{
		Variant: *measured, Rounds: planned, Metrics: j.record.Metrics, Alpha: j.alpha,
		Linger: j.scenario.Spec.Linger.D(), Attribution: j.scenario.Spec.Attribution, For: j.record.Plan.For.D(), Spent: spent(j.record.Plan.For.D(), measured),
	}
	if variant.Expect == leak.ExpectClean {
		e.Allow = allowances(j.scenario.Spec.Allow, j.record.Started)
		vv.Allowed = j.report(measured)
	}
	for _, b := range j.scenario.Spec.Checks {
		vv.Findings = append(vv.Findings, find(b, e, variant.Fingerprint))
	}
	for i := range vv.Findings {
		if text := nativeText(vv.Findings, &vv.Findings[i]); text != "" {
			vv.Findings[i].Summary += "; " + text
		}
	}
	vv.Load = summarizeLoad(wholeRounds(measured, e.Rounds))
	fingerprint := j.fingerprint(variant.Fingerprint)
	for kind, list := range map[string]*[]leak.StackGrowth{"goroutine": &vv.Growing, "heap": &vv.HeapGrowing} {
		var spreads []leak.Spread
		*list, spreads = growing(evidence{e}, kind, fingerprint)
		vv.Spreads = append(vv.Spreads, spreads...)
	}
	slices.SortFunc(vv.Spreads, func(a, b leak.Spread) int { return cmp.Compare(a.Probe, b.Probe) })
	vv.Holders = measured.Holders
	e.Allow = nil // what grew is what grew
	vv.HeapExplained, vv.ComponentHeaps = evidence{e}.heaps()

	if why := j.incomplete(measured, planned); why != "" {
		return unmeasured(vv, why)
	}
	if why := badLoad(measured.Warmup, wholeRounds(measured, e.Rounds), j.excuses(vv.Findings)); why != "" {
		return failedLoad(vv, variant, why)
	}
	switch variant.Expect {
	case leak.ExpectClean:
		return arrived(expectClean(vv), measured, wholeRounds(measured, e.Rounds))
	case leak.ExpectLeaking:
		return arrived(expectLeaking(vv, variant.Fingerprint), measured, wholeRounds(measured, e.Rounds))
	}
	return conclude(vv, leak.Inconclusive, leak.Undecided, fmt.Sprintf("%q is not an expectation", variant.Expect))
}

// find runs one check.
func find(b leak.Block[leak.Check], e leak.Evidence, fingerprint []string) leak.Finding {
	e.Check = b.Name
	f := leak.Finding{Check: b.Name, Kind: b.Kind, Gates: []leak.Gate{}}
	if b.Value == nil {
		f = undecided(f, errors.New("the check has no configuration"))
	} else {
		f = b.Value.Check(e)
	}
	f.Fingerprint = slices.Contains(fingerprint, b.Name)
	for i := range f.Stacks {
		f.Stacks[i].Fingerprint = f.Fingerprint
	}
	return f
}

// incomplete returns why not every planned round was measured, "" if all were.
func (j judge) incomplete(v *leak.VariantRecord, planned int) string {
	have := lastRound(wholeRounds(v, planned))
	why := failureReason(v.Failure, false)
	switch {
	case planned < 1:
		return "no rounds were planned"
	case have == planned && v.Failure == nil && v.Idle != nil:
		return ""
	case have == planned && v.Failure == nil:
		return "it was not measured again after idling" + failureReason(j.record.Failure, j.record.Interrupted)
	case have == planned:
		return "it failed after the last round" + why
	case v.Failure == nil:
		why = failureReason(j.record.Failure, j.record.Interrupted)
	}
	if have < 0 {
		return "the baseline was not measured" + why
	}
	return fmt.Sprintf("%d of %d planned rounds were measured", have, planned) + why
}

// excused is what of the failed operations of the rounds does not make the load a bad one.
type excused struct {
	// hung were counted by a check, which judges them.
	hung float64
	// silent is the share that may return without output.
	silent float64
	// failed is the share that may fail, by action; "" has that of all actions.
	failed map[string]float64
}

// excuser is an optional interface of a check that judges failed operations: it returns those that it has judged.
type excuser interface {
	excuses(f leak.Finding) excused
}

func (j judge) excuses(findings []leak.Finding) excused {
	var e excused
	for i, b := range j.scenario.Spec.Checks {
		c, ok := b.Value.(excuser)
		if v, valid := b.Value.(leak.Validator); !ok || valid && v.Validate() != nil {
			continue
		}
		one := c.excuses(findings[i])
		e.silent, e.hung = max(e.silent, one.silent), max(e.hung, one.hung)
		for action, share := range one.failed {
			if e.failed == nil {
				e.failed = map[string]float64{}
			}
			e.failed[action] = max(e.failed[action], share)
		}
	}
	return e
}

// failureReason is the first line of a failure: the rest of it, a compiler's words say, is in the record.
func failureReason(f *leak.Failure, interrupted bool) string {
	switch {
	case f != nil:
		first, _, _ := strings.Cut(f.Message, "\n")
		return ": " + first
	case interrupted:
		return ": the run was interrupted"
	}
	return ""
}

// badLoad returns why the load was not that of the scenario, "" if it was. Attempted operations that did not succeed
// have failed. The limit applies to each action, so that a frequent action cannot hide one that always fails. The
// warm-up must succeed too, or its effects count as growth.
func badLoad(warmup []leak.Tally, shots []leak.Snapshot, excused excused) string {
	type load struct {
		attempted, failed int
		fault             bool
		// timedOut and silent are those of the failed that may be excused.
		timedOut, silent int
		errors           map[string]int
	}
	loads, names := map[string]*load{}, []string(nil)
	tallies := [][]leak.Tally{warmup}
	for _, shot := range shots[1:] {
		tallies = append(tallies, shot.Load)
	}
	for i, round := range tallies {
		for _, t := range round {
			l := loads[t.Action]
			if l == nil {
				l = &load{errors: map[string]int{}}
				loads[t.Action] = l
				names = append(names, t.Action)
			}
			l.fault = t.Fault != ""
			l.attempted += t.Attempted
			l.failed += max(t.Failed, t.Attempted-t.Succeeded, 0)
			if i > 0 {
				l.timedOut += t.TimedOut
				l.silent += t.Silent
			}
			for _, e := range t.Errors {
				l.errors[e.Message] += e.Count
			}
		}
	}
	attempted := false
	for _, name := range names {
		l := loads[name]
		attempted = attempted || l.attempted > 0 && !l.fault
		hung := min(float64(l.timedOut), excused.hung)
		excused.hung -= hung // one that hung is of one action
		counted := float64(l.failed) - hung - min(float64(l.silent), excused.silent*float64(l.attempted))
		limit := maxFailed
		if !l.fault {
			limit = max(limit, excused.failed[name], excused.failed[""])
		}
		if counted > limit*float64(l.attempted) {
			return fmt.Sprintf("%d of %d operations (%s) failed%s", l.failed, l.attempted, name, mostFrequent(l.errors))
		}
	}
	for _, name := range names {
		if l := loads[name]; l.fault && l.attempted == 0 {
			return fmt.Sprintf("the fault %s was never injected: the load ended before it began", name)
		}
	}
	if !attempted || shots[len(shots)-1].Operations <= shots[0].Operations {
		return noOperations
	}
	return ""
}

// noOperations is badLoad's reason for a missing load.
const noOperations = "no operations were attempted"

func mostFrequent(errors map[string]int) string {
	best := ""
	for m, n := range errors {
		if best == "" || n > errors[best] || (n == errors[best] && m < best) {
			best = m
		}
	}
	if best == "" {
		return ""
	}
	return ": " + best
}

func conclude(vv leak.VariantVerdict, o leak.Outcome, r leak.Result, reason string) leak.VariantVerdict {
	vv.Outcome, vv.Result, vv.Reason = o, r, reason
	return vv
}

func unmeasured(vv leak.VariantVerdict, reason string) leak.VariantVerdict {
	return conclude(vv, leak.Inconclusive, leak.Unmeasured, reason)
}

// failedLoad returns the verdict for a load that was not that of the scenario: never clean, but sustained growth is a
// leak nevertheless, because many leaks are on error paths. An expected leak is reproduced, though by another load,
// only if it leaks with its fingerprint.
func failedLoad(vv leak.VariantVerdict, variant leak.Variant, why string) leak.VariantVerdict {
	if why == noOperations || !slices.ContainsFunc(vv.Findings, sustainedLeak) || variant.Expect != leak.ExpectClean {
		return conclude(vv, leak.Inconclusive, leak.Undecided, why)
	}
	for i := range vv.Findings { // what came at once may be what failed
		if f := &vv.Findings[i]; f.Outcome == leak.Leaking && !sustainedLeak(*f) {
			f.Outcome = leak.Inconclusive
			f.Summary += ", while operations failed"
		}
	}
	vv = expectClean(vv)
	vv.Reason += "; " + why
	return vv
}

// sustainedLeak reports whether a trend shows the leak, as opposed to a larger value than before. Failed operations do
// not excuse a load that is over its own budget either.
func sustainedLeak(f leak.Finding) bool {
	return f.Outcome == leak.Leaking && (f.BoundPerOperation || f.Load)
}

func expectClean(vv leak.VariantVerdict) leak.VariantVerdict {
	if f := vv.Lead(); f != nil {
		reason := fmt.Sprintf("expected clean, but %s leaks: %s", f.Check, f.Summary)
		if f.Load {
			reason = fmt.Sprintf("expected clean, but %s is over its bound: %s", f.Check, f.Summary)
		}
		if why := expired(vv.Allowed); why != "" {
			reason += "; " + why
		}
		return conclude(vv, leak.Leaking, leak.NotMet, reason)
	}
	if f := firstWith(vv.Findings, leak.Inconclusive); f != nil {
		return conclude(vv, leak.Inconclusive, leak.Undecided, f.Check+": "+f.Summary)
	}
	if len(vv.Findings) == 0 {
		return conclude(vv, leak.Inconclusive, leak.Undecided, "the scenario has no checks")
	}
	if why := expired(vv.Allowed); why != "" {
		return conclude(vv, leak.Clean, leak.NotMet, "clean, but "+why)
	}
	return conclude(vv, leak.Clean, leak.Met, summaries(vv.Findings)+tolerated(vv.Allowed))
}

// expectLeaking asks for the fingerprint and nothing else: another leak is not the one to reproduce.
func expectLeaking(vv leak.VariantVerdict, names []string) leak.VariantVerdict {
	var prints []leak.Finding
	for _, name := range names {
		i := slices.IndexFunc(vv.Findings, func(f leak.Finding) bool { return f.Check == name })
		if i < 0 {
			return conclude(vv, leak.Inconclusive, leak.Undecided, "the fingerprint names a check that does not exist: "+name)
		}
		prints = append(prints, vv.Findings[i])
	}
	if len(prints) == 0 {
		return conclude(vv, leak.Inconclusive, leak.Undecided, "the variant has no fingerprint that identifies its leak")
	}
	if f := firstWith(prints, leak.Clean); f != nil {
		outcome := leak.Clean
		reason := fmt.Sprintf("not reproduced: %s is clean: %s", f.Check, f.Summary)
		for _, other := range vv.Findings {
			if other.Outcome != leak.Clean {
				outcome = leak.Inconclusive
			}
		}
		if other := firstWith(vv.Findings, leak.Leaking); other != nil {
			reason += fmt.Sprintf("; %s leaks, but not with the fingerprint: %s", other.Check, other.Summary)
		}
		return conclude(vv, outcome, leak.NotMet, reason)
	}
	if f := firstWith(prints, leak.Inconclusive); f != nil {
		return conclude(vv, leak.Inconclusive, leak.Undecided, f.Check+": "+f.Summary)
	}
	return conclude(vv, leak.Leaking, leak.Met, summaries(prints))
}

// firstWith returns the first finding with an outcome, nil if there is none.
func firstWith(findings []leak.Finding, o leak.Outcome) *leak.Finding {
	for i := range findings {
		if findings[i].Outcome == o {
			return &findings[i]
		}
	}
	return nil
}

// summaries joins what findings say. Those of series that do not grow are one statement.
func summaries(findings []leak.Finding) string {
	var parts, floors []string
	highest := map[string]float64{} // of the series in a unit; bytes are told apart by their series
	for _, f := range findings {
		if flat(&f) {
			highest[f.Unit] = max(highest[f.Unit], f.Floor)
		}
	}
	for _, f := range findings {
		if flat(&f) {
			if f.Unit != "bytes" {
				f.Floor = highest[f.Unit]
			}
			floor := strings.TrimSuffix(per(f.Floor, f.Unit), rateSuffix)
			if f.Unit == "bytes" {
				floor += " of " + f.Series
			}
			if !slices.Contains(floors, floor) {
				floors = append(floors, floor)
			}
			continue
		}
		part := f.Summary
		if f.Series == "" {
			part = f.Check + " " + part
		}
		parts = append(parts, part)
	}
	if n := len(floors); n > 0 {
		list := floors[n-1]
		if n > 1 {
			list = strings.Join(floors[:n-1], ", ") + " or " + list
		}
		nothing := "Nothing grows"
		if len(parts) > 0 {
			nothing = "nothing else grows"
		}
		parts = append(parts, nothing+fmt.Sprintf(undetected, list+rateSuffix))
	}
	return strings.Join(parts, "; ")
}

// fingerprint returns which stacks the variant's fingerprint checks match.
func (j judge) fingerprint(names []string) func(leak.Stack) bool {
	var matches []func(leak.Stack) bool
	for _, b := range j.scenario.Spec.Checks {
		if c, ok := b.Value.(*Stack); ok && slices.Contains(names, b.Name) && c.Validate() == nil {
			matches = append(matches, c.matchOne())
		}
	}
	return func(s leak.Stack) bool {
		return slices.ContainsFunc(matches, func(match func(leak.Stack) bool) bool { return match(s) })
	}
}

// growing returns the stacks that grew most in all probes of a kind, largest growth first, and the growth of all of
// them. It returns nil if they were not measured.
func growing(e evidence, kind string, fingerprint func(leak.Stack) bool) (grew []leak.StackGrowth, spreads []leak.Spread) {
	for _, probe := range e.Variant.Probes(kind) {
		c, err := e.census(probe)
		if err != nil {
			continue
		}
		list, spread := c.growing(func(id string) bool { return !c.ownThreads(id) })
		if spread != nil {
			spreads = append(spreads, *spread)
		}
		for _, g := range list {
			if g.To > g.From {
				g.Fingerprint = fingerprint(g.Stack)
				grew = append(grew, g)
			}
		}
	}
	slices.SortStableFunc(grew, func(a, b leak.StackGrowth) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	return grew[:min(len(grew), maxStacks)], spreads
}

// sentence summarizes every variant in one sentence, unexpected ones first. It accompanies the result and does not
// repeat it.
func sentence(v *leak.Verdict, r *leak.Record) string {
	if len(v.Variants) == 0 {
		return "no variant was planned" + failureReason(r.Failure, r.Interrupted) + "."
	}
	var parts []string
	fine := manyFine(v)
	for _, result := range []leak.Result{leak.Unmeasured, leak.NotMet, leak.Undecided, leak.Met} {
		for i := range v.Variants {
			if fine != "" && isFine(&v.Variants[i]) {
				continue
			}
			if v.Variants[i].Result == result {
				part := clause(&v.Variants[i])
				if result == leak.Met && v.Result != leak.Met {
					part += " as expected"
				}
				parts = append(parts, part)
			}
		}
	}
	if fine != "" {
		if v.Result != leak.Met {
			fine += " as expected"
		}
		parts = append(parts, fine)
	}
	between := "; " // reasons have commas of their own
	if v.Result == leak.Met {
		between = ", "
	}
	return strings.Join(parts, between) + "."
}

// maxFine is the number of clean variants that a sentence lists one by one.
const maxFine = 5

func isFine(vv *leak.VariantVerdict) bool { return vv.Result == leak.Met && vv.Outcome == leak.Clean }

// manyFine is "fixed-1 to fixed-7, 7 variants, are clean", "" for few clean variants.
func manyFine(v *leak.Verdict) string {
	var names []string
	for i := range v.Variants {
		if isFine(&v.Variants[i]) {
			names = append(names, v.Variants[i].Variant)
		}
	}
	if len(names) <= maxFine {
		return ""
	}
	return fmt.Sprintf("%s, %s and %d more are clean", names[0], names[1], len(names)-2)
}

// hangs returns the finding on operations that never return, nil if all returned.
func hangs(findings []leak.Finding) *leak.Finding {
	i := slices.IndexFunc(findings, func(f leak.Finding) bool {
		return f.Kind == "hung" && f.Outcome == leak.Leaking && len(f.Points) > 0
	})
	if i < 0 {
		return nil
	}
	return &findings[i]
}

// ofAll is ", of +4.00 on all stacks" if the finding is on stacks with less than half of its probe's growth.
func ofAll(vv *leak.VariantVerdict, f *leak.Finding) string {
	if len(f.Stacks) == 0 || !f.BoundPerOperation {
		return ""
	}
	series := cmp.Or(f.Stacks[0].Probe, "goroutine") + ".count"
	if f.Unit == "bytes" {
		series = cmp.Or(f.Stacks[0].Probe, "heap") + ".alloc"
	}
	for _, all := range vv.Findings {
		if all.Series == series && all.Outcome == leak.Leaking && f.PerOperation <= (1-leak.MinMost)*all.PerOperation {
			return fmt.Sprintf(", of %s on all stacks", display.Rate(all.PerOperation, all.Unit))
		}
	}
	return ""
}

// mostly names the stack that grew most where the finding, on a metric, names none itself.
func mostly(vv *leak.VariantVerdict, f *leak.Finding) string {
	probe, metric, _ := strings.Cut(f.Series, ".")
	kind := leak.ProbeKind(probe)
	grew := vv.Growing
	if kind == "heap" {
		grew = vv.HeapGrowing
	}
	if kind == probe {
		probe = "" // the program's own, which growing stacks do not name
	}
	grew = slices.DeleteFunc(slices.Clone(grew), func(g leak.StackGrowth) bool { return g.Probe != probe })
	if len(grew) == 0 || kind == "process" || metric == "stack" {
		return ""
	}
	most := grew[0]
	spread := vv.SpreadIn(cmp.Or(probe, kind))
	share := func(g leak.StackGrowth) float64 { return spread.Share(g) }
	switch {
	case kind == "heap" && metric == "objects":
		most = slices.MaxFunc(grew, func(a, b leak.StackGrowth) int { return cmp.Compare(a.Objects, b.Objects) })
		first, last := f.Ends()
		share = func(g leak.StackGrowth) float64 { return float64(g.Objects) / max(last-first, 1) }
	case f.Unbounded:
		// The largest growth may be a pool that has filled. The stack must account for most of the continuing rate.
		most = slices.MaxFunc(grew, func(a, b leak.StackGrowth) int { return cmp.Compare(a.PerOperation, b.PerOperation) })
		share = func(g leak.StackGrowth) float64 { return g.PerOperation / f.PerOperation }
	}
	if share(most) < leak.MinMost {
		if spread == nil || spread.Stacks < 2 || spread.Share(grew[0]) >= leak.MinMost {
			return ""
		}
		return ", " + spreadOver(spread, kind == "heap")
	}
	if kind == "heap" && !certain(vv, f, most) {
		return ""
	}
	where := heldBy(vv, most) + ", most of it "
	switch {
	case most.Stack.State != "":
		where += most.Stack.State + " at "
	case kind == "heap":
		where += "allocated at "
	}
	where += placeOf(most)
	who := most.Who
	if who == nil {
		origin := most.Stack.Origin()
		who = &origin
	}
	if at := who.Position(); at != "" {
		where += " (" + at + ")"
	}
	return where
}

// certain reports whether the sampled profile shows that a stack allocated most of what the finding is about.
func certain(vv *leak.VariantVerdict, f *leak.Finding, g leak.StackGrowth) bool {
	x := vv.HeapExplained
	for i := range vv.ComponentHeaps {
		if vv.ComponentHeaps[i].Probe == g.Probe {
			x = &vv.ComponentHeaps[i]
		}
	}
	if x == nil || x.Probe != g.Probe {
		return true
	}
	bytes, objects := float64(g.To-g.From), float64(g.Objects)
	if tooCoarse(bytes, math.Sqrt(sampledVariance(bytes, objects, x.Rate))) {
		return false
	}
	if n := len(f.Points); f.Unit == "objects" && n > 1 {
		return objects >= (f.Points[n-1].Value-f.Points[0].Value)/2
	}
	return true
}

// minEach is the number of bytes per goroutine from which the sentence mentions what goroutines hold.
const minEach = 256

// heldBy is ", held by main.registry" if one holder has gained most of an allocation site.
func heldBy(vv *leak.VariantVerdict, g leak.StackGrowth) string {
	if held := vv.Holders.Of(g.Probe).MostOf(g.ID); held != nil {
		return ", held by " + held.Holder
	}
	return ""
}

// holding is ", each holding 14.7 KiB of heap" for a leak of goroutines.
func holding(vv *leak.VariantVerdict, f *leak.Finding) string {
	if f.Unit != "goroutines" || len(f.Stacks) == 0 {
		return ""
	}
	h := vv.Holders.Of(f.Stacks[0].Probe)
	if h == nil {
		return ""
	}
	for _, r := range h.Goroutines {
		if each := r.Each(); r.Stack == f.Stacks[0].ID && each >= minEach {
			return fmt.Sprintf(", each holding %s of heap", display.Value(each, "bytes"))
		}
	}
	return ""
}

func clause(vv *leak.VariantVerdict) string {
	leaks, name := vv.Lead(), vv.Variant
	if len(vv.Replicas) > 1 && vv.Outcome != leak.Clean {
		name += fmt.Sprintf(" (replica %d of %d)", vv.Replica, len(vv.Replicas))
	}
	switch {
	case vv.Result == leak.Unmeasured:
		return name + " was not measured: " + vv.Reason
	case vv.Result == leak.Undecided:
		return name + " is undecided: " + vv.Reason
	case vv.Outcome == leak.Leaking && hangs(vv.Findings) != nil:
		hung := hangs(vv.Findings).Points
		last := hung[len(hung)-1]
		return fmt.Sprintf("%s hangs: %.0f of %d operations never returned", name, last.Value, last.Operations) + blockedAt(leaks)
	case vv.Outcome == leak.Leaking && leaks.Load:
		return name + " is over the bound of " + leaks.Check + ": " + leaks.Summary
	case vv.Outcome == leak.Leaking:
		text := name + " leaks " + headline(leaks) + cmp.Or(at(leaks)+holding(vv, leaks), mostly(vv, leaks)) + ofAll(vv, leaks)
		if native := nativeText(vv.Findings, leaks); native != "" {
			text += ": " + native
		}
		return text
	case vv.Result == leak.NotMet:
		return name + " was " + vv.Reason
	}
	return name + " is clean"
}
