package reports

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// Answer is what a reviewer asks first about a run. Every format shows it on top, in this order.
type Answer struct {
	// Leaks says which variants leak, and Rig whether that is as expected.
	Leaks string `json:"leaks"`
	Rig   string `json:"rig"`
	// Variant is the variant that the rest describes: the worst one. Outcome is its outcome.
	Variant string       `json:"variant,omitempty"`
	Outcome leak.Outcome `json:"outcome"`
	// Who is the code that leaks: the first frame outside the standard library and plumbing. Caller is the subject's
	// frame that called it, or the creator of the goroutines.
	Who    *AnswerFrame `json:"who,omitempty"`
	Caller *AnswerFrame `json:"caller,omitempty"`
	// Share says how much of the growth Who stands for, "" if there is nothing else.
	Share string `json:"share,omitempty"`
	// Blocks is the wait state of the goroutines with the source line.
	Blocks string `json:"blocks,omitempty"`
	// Cost are the numbers per operation, largest share of the growth first, each with its label.
	Cost []string `json:"cost,omitempty"`
	// Holder says who holds the memory.
	Holder string `json:"holder,omitempty"`
	// Proof is the runtime's own profile if there is one, else what the rounds show.
	Proof string `json:"proof,omitempty"`
	// Known names the known leak and the version that fixes it, and Link its issue.
	Known string `json:"known,omitempty"`
	Link  string `json:"link,omitempty"`
	// Clean names a variant that is clean, and what it is built from.
	Clean string `json:"clean,omitempty"`
	// Why says why there is no answer, for runs that are undecided or were not measured.
	Why string `json:"why,omitempty"`
	// Next are commands to copy.
	Next []AnswerCommand `json:"next"`
}

// AnswerFrame is a frame with its position, with the versions that the variant has.
type AnswerFrame struct {
	Func     string `json:"func"`
	Position string `json:"position,omitempty"`
	URL      string `json:"url,omitempty"`
	// Line is the source line, "" if unavailable.
	Line string `json:"line,omitempty"`
	// How is "called by" or "created by", for callers.
	How string `json:"how,omitempty"`
}

// String is "created by watch.NewStreamWatcher, k8s.io/…/streamwatcher.go:76".
func (f *AnswerFrame) String() string {
	if f == nil {
		return ""
	}
	text := strings.TrimSpace(f.How + " " + f.Func)
	if f.Position != "" {
		text += ", " + f.Position
	}
	return text
}

// Tone and Icon are those of the outcome. That the rig expected a leak does not make it green.
func (a Answer) Tone() string { return a.Outcome.String() }

// Icon is the icon of the outcome.
func (a Answer) Icon() string { return a.Outcome.String() }

// AnswerCommand is a command with what it is for.
type AnswerCommand struct {
	Doc     string `json:"doc"`
	Command string `json:"command"`
}

// namesShown limits the variants that a sentence lists.
const namesShown = 6

// namesOf lists variants with an outcome: "leaky, natural and 3 more".
func namesOf(variants []variant) string {
	var names []string
	for _, x := range variants {
		names = append(names, x.Name)
	}
	if len(names) > namesShown {
		return strings.Join(names[:namesShown], ", ") + fmt.Sprintf(" and %d more", len(names)-namesShown)
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

func (v view) with(keep func(variant) bool) []variant {
	return slices.DeleteFunc(slices.Clone(v.Variants), func(x variant) bool { return !keep(x) })
}

// Headline says first whether something leaks, and then whether that is as expected.
func (v view) Headline() string {
	result := v.Result()
	if v.Interrupted() || result == leak.Unmeasured || result == leak.Undecided {
		return v.Status()
	}
	found := "clean"
	switch {
	case slices.ContainsFunc(v.Variants, func(x variant) bool { return x.Verdict.Outcome == leak.Leaking }):
		found = "leak found"
	case result == leak.NotMet:
		found = "no leak found"
	}
	return found + ", " + v.Status()
}

// leaks says which variants leak, which are clean, and which are neither.
func (v view) leaks() string {
	var parts []string
	add := func(verb, verbs string, list []variant) {
		switch {
		case len(list) == 1:
			parts = append(parts, namesOf(list)+" "+verb)
		case len(list) > 1:
			parts = append(parts, namesOf(list)+" "+verbs)
		}
	}
	of := func(o leak.Outcome) []variant {
		return v.with(func(x variant) bool { return x.Verdict.Outcome == o && x.Verdict.Result != leak.Unmeasured })
	}
	add("leaks", "leak", of(leak.Leaking))
	add("is clean", "are clean", of(leak.Clean))
	add("is undecided", "are undecided", of(leak.Inconclusive))
	add("was not measured", "were not measured", v.with(func(x variant) bool { return x.Verdict.Result == leak.Unmeasured }))
	if len(parts) == 0 {
		return "Unknown: no variant was run."
	}
	return strings.Join(parts, "; ") + "."
}

// rig says whether the variants came out as expected.
func (v view) rig() string {
	met := len(v.with(func(x variant) bool { return x.Verdict.Result == leak.Met }))
	if v.Result() == leak.Met {
		return "As expected: " + count(met, "variant") + "."
	}
	text := fmt.Sprintf("%s: %d of %s as expected", capital(v.Status()), met, count(len(v.Variants), "variant"))
	for _, result := range []leak.Result{leak.NotMet, leak.Undecided, leak.Unmeasured} {
		if list := v.with(func(x variant) bool { return x.Verdict.Result == result }); len(list) > 0 {
			text += fmt.Sprintf("; %s: %s", result, namesOf(list))
		}
	}
	return text + "."
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// worst returns the variant that the answer describes: an unexpected leak, else a leak, else what is not as expected,
// else the first.
func (v view) worst() (variant, bool) {
	rank := func(x variant) int {
		leaks, r := x.Verdict.Outcome == leak.Leaking, x.Verdict.Result
		switch {
		case leaks && r != leak.Met:
			return 5
		case leaks:
			return 4
		case r == leak.NotMet:
			return 3
		case r == leak.Unmeasured:
			return 2
		case r == leak.Undecided:
			return 1
		}
		return 0
	}
	if len(v.Variants) == 0 {
		return variant{}, false
	}
	return slices.MaxFunc(v.Variants, func(a, b variant) int { return cmp.Compare(rank(a), rank(b)) }), true
}

// Answer computes the answer.
func (v view) Answer() Answer {
	a := Answer{Leaks: v.leaks(), Rig: v.rig(), Next: []AnswerCommand{}}
	x, ok := v.worst()
	if !ok {
		if f := v.Record.Failure; f != nil {
			a.Why = oneLine(f.Message)
		}
		a.Next = append(a.Next, AnswerCommand{"Run it again", v.rerun()})
		return a
	}
	a.Variant, a.Outcome = x.Name, x.Verdict.Outcome
	if x.Verdict.Outcome != leak.Leaking {
		if x.Verdict.Result != leak.Met {
			a.Why = oneLine(x.Verdict.Reason)
		}
		a.Next = v.next(x, nil)
		return a
	}
	lead := x.Verdict.Lead()
	g, heap, found := x.lead()
	a.Cost = x.cost()
	if found {
		v.answerWho(&a, x, g, heap)
		for _, line := range x.held(g, stackUnit(heap)) {
			a.Holder = line
			break
		}
		if m := x.knownLeak(g, stackUnit(heap)); m != nil {
			a.Known, a.Link = m.Sentence(), m.Links[0]
		}
	}
	if a.Holder == "" {
		a.Holder = x.NoHolders()
	}
	a.Proof = x.proof(lead, g)
	var module string
	if found {
		module, _, _ = strings.Cut(g.Module, " ")
	}
	fix := v.cleanTwin(x, module)
	if fix != nil {
		a.Clean = fix.sentence()
	}
	a.Next = v.next(x, fix)
	return a
}

// answerWho fills in the code that leaks, its caller, and what it blocks on.
func (v view) answerWho(a *Answer, x variant, g leak.StackGrowth, heap bool) {
	info := x.Record.Binary(g.Probe)
	frame := func(f leak.Frame) *AnswerFrame {
		line := ""
		if e, ok := v.Sources[info.SourceKey(f)]; ok && f.Line >= e.First && f.Line-e.First < len(e.Lines) {
			line = strings.TrimSpace(e.Lines[f.Line-e.First])
		}
		return &AnswerFrame{Func: f.Short(), Position: info.Position(f), URL: upstream(info, f), Line: line}
	}
	who, caller := v.who(x, g)
	if who.Short() == "" {
		who.Func = "an unknown place"
	}
	a.Who = frame(who)
	if c := component(g); c != "" {
		a.Who.Func = c + ": " + a.Who.Func
	}
	if caller != nil {
		a.Caller = frame(*caller)
		a.Caller.How = "called by"
		if g.Stack.Creator != nil && *caller == *g.Stack.Creator {
			a.Caller.How = "created by"
		}
	}
	kind := "goroutine"
	if heap {
		kind = "heap"
	}
	if s := x.Verdict.SpreadOf(kind); s != nil && s.Stacks > 1 {
		noun := "stacks"
		if heap {
			noun = "allocation sites (sampled)"
		}
		a.Share = fmt.Sprintf("%s of the growth on %d %s", shareText(s.Share(g)), s.Stacks, noun)
		if s.Started != "" {
			a.Share += ", all started at " + s.Started
		}
	}
	switch {
	case heap:
	case strings.HasPrefix(g.Stack.State, "run"):
		a.Blocks = "nothing: it is " + g.Stack.State
	case g.Stack.State != "":
		a.Blocks = g.Stack.State
		if at := g.Stack.Place(); at != who {
			a.Blocks += " in " + at.Short()
		}
	}
}

// who returns the code that a stack belongs to, and its caller. Verdicts of older versions do not have them.
func (v view) who(x variant, g leak.StackGrowth) (leak.Frame, *leak.Frame) {
	if g.Who != nil {
		return *g.Who, g.Caller
	}
	whose := v.Scenario.Spec.Attribution
	return whose.Who(g.Stack), whose.Caller(g.Stack, x.Record.Binary(g.Probe))
}

// shareText formats a share: "3 %", "< 1 %".
func shareText(share float64) string {
	switch {
	case share > 0 && share < 0.01:
		return "< 1 %"
	case share > 0.99 && share < 1:
		return "> 99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// cost lists what leaks, per unit the finding with the largest share of the growth. Its label says whether the number
// is exact or sampled.
func (x variant) cost() []string {
	var lines []string
	seen := map[string]bool{}
	findings := x.ranked()
	add := func(f *leak.Finding) {
		if seen[f.Check] {
			return
		}
		seen[f.Check] = true
		lines = append(lines, x.costOf(f))
	}
	if lead := x.Verdict.Lead(); lead != nil {
		add(lead)
	}
	units := map[string]bool{}
	for i := range findings {
		f := &findings[i]
		key := fmt.Sprint(f.Unit, f.Series == "" && f.Kind != "", f.BoundPerOperation)
		if f.Unit == "goroutines" || f.Unit == "bytes" {
			key = fmt.Sprint(f.Unit, f.BoundPerOperation)
		}
		if f.Outcome == leak.Leaking && !units[key] {
			units[key] = true
			if lead := x.Verdict.Lead(); f.Unit != lead.Unit || (checkCell{Finding: f}).Growth() != (checkCell{Finding: lead}).Growth() {
				add(f)
			}
		}
	}
	shown, more := head(lines, 4)
	if more > 0 {
		shown = append(slices.Clone(shown), and(more, "series"))
	}
	return shown
}

// ranked returns the findings, leaking ones first, those with the largest share of the growth before others.
func (x variant) ranked() []leak.Finding {
	list := slices.Clone(x.Verdict.Findings)
	rank := func(f leak.Finding) int {
		return slices.Index([]leak.Outcome{leak.Leaking, leak.Inconclusive, leak.Clean}, f.Outcome)
	}
	slices.SortStableFunc(list, func(a, b leak.Finding) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.Verdict.Share(&b), x.Verdict.Share(&a)))
	})
	return list
}

// costOf is "+36.2 KiB per operation (listeners, sampled), 49 % of what grows".
func (x variant) costOf(f *leak.Finding) string {
	c := checkCell{Finding: f}
	text := c.Growth()
	if !c.InAll() {
		if text == "–" {
			text = rate(f.PerOperation, f.Unit)
		}
		if f.Unit != "bytes" && f.Unit != "seconds" && f.Unit != "" { // which the number already names
			text += " " + f.Unit
		}
		text += " per operation"
	}
	what := f.Check
	if f.Series != "" {
		what = f.Series
	}
	text += " (" + what + ", " + label(f)
	if f.Low < f.High {
		text += ", 95 % interval " + strings.Trim(c.Interval(), "()")
	}
	text += ")"
	if share := x.Verdict.Share(f); share < 1 {
		text += ", " + shareText(share) + " of the growth"
	}
	return text
}

// label says how a number was measured: "exact" or "sampled".
func label(f *leak.Finding) string {
	if f.Series == "" && f.Unit == "bytes" {
		return "sampled"
	}
	return "exact"
}

// proof is the runtime's own profile if the run has one, else what the rounds show.
func (x variant) proof(lead *leak.Finding, g leak.StackGrowth) string {
	for _, probe := range x.Record.Probes("leaked") {
		if n := len(x.Record.Snapshots); n > 1 {
			first, last := x.Record.Snapshots[0].Sample(probe), x.Record.Snapshots[n-1].Sample(probe)
			if first != nil && last != nil && last.Unavailable == "" && last.Values["count"] > first.Values["count"] {
				return fmt.Sprintf("the runtime's goroutine leak profile lists %.0f more goroutines after %s: nothing can wake them",
					last.Values["count"]-first.Values["count"], count(x.Operations(), "operation"))
			}
		}
	}
	if lead == nil {
		return ""
	}
	points := rounds(lead.Points)
	if len(points) < 2 {
		return ""
	}
	first, last := points[0], points[len(points)-1]
	parts := []string{fmt.Sprintf("%s after %s in %s", display.Delta(last.Value-first.Value, lead.Unit),
		count(last.Operations, "operation"), count(len(points)-1, "round"))}
	for _, p := range lead.Points {
		if p.Idle {
			parts = append(parts, fmt.Sprintf("%s still there after idling", display.Delta(p.Value-first.Value, lead.Unit)))
		}
	}
	if g.Survived > 0 {
		parts = append(parts, fmt.Sprintf("%d of the goroutines that appeared in a round never ended", g.Survived))
	}
	if lead.Exactly != "" {
		parts = append(parts, "exactly "+lead.Exactly)
	}
	return strings.Join(parts, "; ")
}

// twin is a clean variant with what it is built from, next to a leaking one.
type twin struct {
	clean, leaky variant
	// Modules differ. Those of growing stacks come first.
	Modules []moduleDiff
}

// moduleDiff is a module with its version in two variants, "" where a variant lacks it.
type moduleDiff struct{ Path, Leaky, Clean string }

// cleanTwin returns the clean variant that differs in the fewest modules from x, preferring one that differs in
// module; nil if no variant is clean.
func (v view) cleanTwin(x variant, module string) *twin {
	var best *twin
	rank := func(t *twin) int {
		n := len(t.Modules)
		switch {
		case n > 0 && t.Modules[0].Path == module:
			return n
		case n > 0:
			return n + 1<<20
		}
		return 1 << 30
	}
	for _, c := range v.Variants {
		if c.Verdict.Outcome != leak.Clean || c.Name == x.Name {
			continue
		}
		t := &twin{clean: c, leaky: x, Modules: v.differing(x, c, module)}
		if best == nil || rank(t) < rank(best) {
			best = t
		}
	}
	return best
}

// differing lists the modules with different versions in two variants: first the given one, then those with growing
// stacks, then the others.
func (v view) differing(a, b variant, first string) []moduleDiff {
	stacks := v.stackModules()
	var list []moduleDiff
	var paths []string
	for _, x := range []variant{a, b} {
		for _, bin := range x.binaries() {
			for _, m := range bin.Modules {
				paths = append(paths, m.Path)
			}
		}
	}
	for _, p := range unique(paths) {
		if d := (moduleDiff{p, a.version(p), b.version(p)}); d.Leaky != d.Clean {
			list = append(list, d)
		}
	}
	rank := func(d moduleDiff) int {
		switch {
		case d.Path == first:
			return 0
		case d.Leaky == "" || d.Clean == "":
			return 3
		case slices.Contains(stacks, d.Path):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b moduleDiff) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Path, b.Path)) })
	return list
}

// sentence is "fixed is clean with k8s.io/apimachinery v0.21.0 instead of v0.18.8; 3 more modules have other versions, and
// 1 module is in only one of the two".
func (t *twin) sentence() string {
	if len(t.Modules) == 0 {
		return t.clean.Name + " is clean, built from the same modules: its arguments, environment or code differ"
	}
	d := t.Modules[0]
	text := fmt.Sprintf("%s is clean with %s %s instead of %s", t.clean.Name, d.Path, cmp.Or(d.Clean, "absent"), cmp.Or(d.Leaky, "absent"))
	versions, single := 0, 0
	for _, m := range t.Modules[1:] {
		if m.Leaky == "" || m.Clean == "" {
			single++
		} else {
			versions++
		}
	}
	var rest []string
	switch {
	case versions == 1:
		rest = append(rest, "1 more module has another version")
	case versions > 1:
		rest = append(rest, fmt.Sprintf("%d more modules have other versions", versions))
	}
	switch {
	case single == 1:
		rest = append(rest, "1 module is in only one of the two")
	case single > 1:
		rest = append(rest, fmt.Sprintf("%d modules are in only one of the two", single))
	}
	if len(rest) > 0 {
		text += "; " + strings.Join(rest, ", and ")
	}
	return text
}

// suggested finds the flag in a reason that would decide: "--rounds 14", "--for 2m0s".
var suggested = regexp.MustCompile(`--(rounds|for) ([0-9][0-9a-z.]*)`)

// next returns the commands that a reviewer types next.
func (v view) next(x variant, fix *twin) []AnswerCommand {
	list := []AnswerCommand{}
	scenario := v.Name()
	if len(v.Record.Args) > 1 && v.Record.Args[0] == "run" && !strings.HasPrefix(v.Record.Args[1], "-") {
		scenario = v.Record.Args[1]
	}
	ran := len(v.Record.Args) == 0 || v.Record.Args[0] == "run"
	switch {
	case x.Verdict.Result == leak.Unmeasured && v.RunDir != "":
		list = append(list, AnswerCommand{"See the last words of the subject", "tail " + v.file(path.Join(x.Name, "subject.log"))})
	case x.Verdict.Outcome == leak.Leaking && fix != nil && ran:
		if c := bisection(scenario, fix); c != "" {
			list = append(list, AnswerCommand{"Find the version that fixes it", c})
		}
	}
	if m := suggested.FindStringSubmatch(x.Verdict.Reason); m != nil && x.Verdict.Outcome == leak.Inconclusive {
		list = append(list, AnswerCommand{"Decide with more operations", v.rerunWith("--"+m[1], m[2])})
	}
	if x.Verdict.Outcome == leak.Leaking && v.RunDir != "" {
		list = append(list, AnswerCommand{"Compare with known leaks", "leakrig explain " + ShellPath(v.RunDir)})
		if len(v.Variants) == 1 || fix == nil {
			list = append(list, AnswerCommand{"See whether it repeats", v.rerun()})
		}
	}
	if len(list) == 0 {
		list = append(list, AnswerCommand{"Run it again", v.rerun()})
	}
	return list
}

// bisection returns the command that searches between the versions of the first module, "" if none differs in its
// version. Modules with the same two versions go with it.
func bisection(scenario string, t *twin) string {
	if len(t.Modules) == 0 {
		return ""
	}
	d := t.Modules[0]
	if !release.MatchString(d.Leaky) || !release.MatchString(d.Clean) {
		return ""
	}
	words := []string{"leakrig bisect", ShellWord(scenario), "--variant", ShellWord(t.leaky.Name), "--module", ShellWord(d.Path)}
	var with []string
	for _, o := range t.Modules[1:] {
		if o.Leaky == d.Leaky && o.Clean == d.Clean {
			with = append(with, o.Path)
		}
	}
	if len(with) > 0 {
		words = append(words, "--with", ShellWord(strings.Join(with, ",")))
	}
	return strings.Join(append(words, "--bad", ShellWord(d.Leaky), "--good", ShellWord(d.Clean)), " ")
}
