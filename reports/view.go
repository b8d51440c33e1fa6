package reports

import (
	"slices"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// view is the input without gaps: no pointer is nil, and it has every planned variant, even if the run ended before
// it.
type view struct {
	Input
	Variants []variant
}

// variant has all data of one variant: its specification, record and verdict.
type variant struct {
	Name    string
	Spec    leak.Variant
	Record  *leak.VariantRecord
	Verdict leak.VariantVerdict
}

func newView(in Input) view {
	if in.Scenario == nil {
		in.Scenario = &leak.Scenario{}
	}
	if in.Record == nil {
		in.Record = &leak.Record{}
	}
	if in.Verdict == nil {
		in.Verdict = &leak.Verdict{Result: leak.Unmeasured, Sentence: "The run was not judged.", Interrupted: in.Record.Interrupted}
	}
	in.Record = in.Record.Shown(in.Verdict) // of several replicas, the worst
	in.Verdict = actual(in.Verdict, in.Record)
	v := view{Input: in}
	for _, name := range variantNames(in) {
		v.Variants = append(v.Variants, newVariant(in, name))
	}
	return v
}

// actual returns the verdict with the versions of modules that each variant has in its stacks. Verdicts of older versions
// have those that a binary built with -trimpath names.
func actual(v *leak.Verdict, r *leak.Record) *leak.Verdict {
	out := *v
	out.Variants = slices.Clone(v.Variants)
	for i := range out.Variants {
		vv := &out.Variants[i]
		x := r.Variant(vv.Variant)
		if x == nil {
			continue
		}
		stacks := func(list []leak.StackGrowth) []leak.StackGrowth {
			list = slices.Clone(list)
			for k := range list {
				list[k].Stack = x.Binary(list[k].Probe).ActualStack(list[k].Stack)
			}
			return list
		}
		vv.Growing, vv.HeapGrowing = stacks(vv.Growing), stacks(vv.HeapGrowing)
		vv.Findings = slices.Clone(vv.Findings)
		for k := range vv.Findings {
			vv.Findings[k].Stacks = stacks(vv.Findings[k].Stacks)
		}
	}
	return &out
}

// variantNames lists the planned variants in order, then those that only the verdict or the record has.
func variantNames(in Input) []string {
	names := slices.Clone(in.Record.Plan.Variants)
	for _, vv := range in.Verdict.Variants {
		names = append(names, vv.Variant)
	}
	for _, vr := range in.Record.Variants {
		names = append(names, vr.Name)
	}
	return unique(names)
}

func newVariant(in Input, name string) variant {
	x := variant{Name: name, Record: in.Record.Variant(name)}
	if x.Record == nil {
		x.Record = &leak.VariantRecord{Name: name}
	}
	for _, spec := range in.Scenario.Spec.Variants {
		if spec.Name == name {
			x.Spec = spec
		}
	}
	x.Verdict = leak.VariantVerdict{Variant: name, Expect: x.Spec.Expect, Result: leak.Unmeasured, Reason: "It was not measured."}
	for _, vv := range in.Verdict.Variants {
		if vv.Variant == name {
			x.Verdict = vv
		}
	}
	return x
}

// Name returns the name of the scenario, from the verdict or the record.
func (v view) Name() string {
	for _, name := range []string{v.Record.Scenario, v.Verdict.Scenario, v.Scenario.Metadata.Name} {
		if name != "" {
			return name
		}
	}
	return "unnamed scenario"
}

// Interrupted reports whether a person ended the run.
func (v view) Interrupted() bool { return v.Record.Interrupted || v.Verdict.Interrupted }

// ExitCode returns the exit code of the command line for this run alone.
func (v view) ExitCode() int {
	return leak.ExitCode(v.Interrupted(), false, v.Record.Failure != nil, v.Verdict.Result)
}

// Sentence returns the verdict in one sentence.
func (v view) Sentence() string {
	if s := oneLine(v.Verdict.Sentence); s != "" {
		return s
	}
	return "No verdict was given."
}

// Result returns the verdict's result. A run that ended early measured nothing, even if its first variants have
// results.
func (v view) Result() leak.Result {
	if v.Interrupted() || v.Record.Failure != nil {
		return leak.Unmeasured
	}
	return v.Verdict.Result
}

// Status returns the result in words.
func (v view) Status() string {
	if v.Interrupted() {
		return "interrupted"
	}
	return v.Result().String()
}

// Elapsed returns the duration of the run, or 0 if its end is unknown.
func (v view) Elapsed() time.Duration {
	if v.Record.Finished.Before(v.Record.Started) {
		return 0
	}
	return v.Record.Finished.Sub(v.Record.Started).Round(time.Second)
}

// Elapsed returns how long the variant was measured, or 0 if unknown.
func (x variant) Elapsed() time.Duration {
	first, last := x.Record.Snapshots, x.Record.Final()
	if x.Record.Idle != nil {
		last = x.Record.Idle
	}
	if len(first) == 0 || last.Time.Before(first[0].Time) {
		return 0
	}
	return last.Time.Sub(first[0].Time)
}

// Warnings returns the warnings of the run, then those of each variant with its name: "leaky: …".
func (v view) Warnings() []string {
	all := slices.Clone(v.Record.Warnings)
	for _, x := range v.Variants {
		for _, w := range x.Record.Warnings {
			all = append(all, x.Name+": "+w)
		}
	}
	return all
}

// Goroutines returns the growing goroutine stacks, fingerprint first.
func (x variant) Goroutines() []leak.StackGrowth { return x.leadFirst(x.Verdict.Growing) }

// Heap returns the growing allocation sites, fingerprint first.
func (x variant) Heap() []leak.StackGrowth { return x.leadFirst(x.Verdict.HeapGrowing) }

// lead returns the stack that the verdict's sentence names. If the finding is on a metric, it returns the stack that
// grew most in its probe. heap reports whether it is an allocation site. ok is false if no stack was found.
func (x variant) lead() (g leak.StackGrowth, heap, ok bool) {
	f, heap := x.Verdict.Lead(), leak.ProbeKind(x.leadProbe()) == "heap"
	switch {
	case f == nil:
		return g, heap, false
	case len(f.Stacks) == 0:
		g, ok = x.top(x.leadProbe())
		return g, heap, ok
	}
	for _, g := range slices.Concat(x.Verdict.Growing, x.Verdict.HeapGrowing) {
		if g.ID == f.Stacks[0].ID && g.Probe == f.Stacks[0].Probe {
			return g, heap, true
		}
	}
	return f.Stacks[0], heap, true
}

// leadFirst orders stacks: first the one that the sentence names, then other fingerprints, then the rest.
func (x variant) leadFirst(stacks []leak.StackGrowth) []leak.StackGrowth {
	var id, probe string
	if f := x.Verdict.Lead(); f != nil && len(f.Stacks) > 0 {
		id, probe = f.Stacks[0].ID, f.Stacks[0].Probe
	}
	rank := func(g leak.StackGrowth) int {
		switch {
		case g.ID == id && g.Probe == probe:
			return 0
		case g.Fingerprint:
			return 1
		}
		return 2
	}
	out := slices.Clone(stacks)
	slices.SortStableFunc(out, func(a, b leak.StackGrowth) int { return rank(a) - rank(b) })
	return out
}

// growthOf is the growth of all stacks of a list, of which the list has the largest; of the list alone in verdicts of
// older versions.
func (x variant) growthOf(heap bool) leak.Spread {
	kind, list := "goroutine", x.Verdict.Growing
	if heap {
		kind, list = "heap", x.Verdict.HeapGrowing
	}
	if s := x.Verdict.SpreadOf(kind); s != nil {
		return *s
	}
	s := leak.Spread{Probe: kind, Stacks: len(list)}
	for _, g := range list {
		s.Grew += g.To - g.From
	}
	return s
}

// unlisted is the number of stacks that grew and that the verdict does not list.
func (x variant) unlisted(heap bool) int {
	list := x.Verdict.Growing
	if heap {
		list = x.Verdict.HeapGrowing
	}
	return max(x.growthOf(heap).Stacks-len(list), 0)
}

// Against reports whether the finding keeps the variant from its expectation. If a leak is expected, only its
// fingerprint counts. Otherwise every check counts.
// Nothing counts against a variant that came out as expected, such as one with a leak that a ratchet accepts.
func (x variant) Against(f leak.Finding) bool {
	if x.Verdict.Result == leak.Met {
		return false
	}
	if x.Verdict.Expect == leak.ExpectLeaking {
		return f.Fingerprint && f.Outcome != leak.Leaking
	}
	return f.Outcome != leak.Clean
}

// binaries returns everything that was observed: the program and the components.
func (x variant) binaries() []leak.ComponentInfo {
	return append([]leak.ComponentInfo{{Name: "subject", SubjectInfo: x.Record.Subject}}, x.Record.Components...)
}

// version returns the module's version according to go version -m of the observed binaries, or "" if they lack it. If
// binaries have different versions, it names each binary.
func (x variant) version(path string) string {
	var versions, named []string
	for _, b := range x.binaries() {
		for _, m := range b.Modules {
			if m.Path != path {
				continue
			}
			version := m.Version
			switch replaced, actual, _ := strings.Cut(m.Replace, " "); {
			case replaced == m.Path && actual != "":
				version = actual
			case m.Replace != "":
				version += " ⇒ " + m.Replace
			}
			versions = append(versions, version)
			named = append(named, b.Name+" "+version)
		}
	}
	if versions = unique(versions); len(versions) == 1 {
		return versions[0]
	}
	return strings.Join(named, ", ")
}

// component returns the component that the stack belongs to, or "" for the program.
func component(g leak.StackGrowth) string {
	name, _, ok := strings.Cut(g.Probe, "/")
	if !ok {
		return ""
	}
	return name
}

// stackTitle describes a stack in one line, with its component.
func stackTitle(g leak.StackGrowth) string {
	if c := component(g); c != "" {
		return c + ": " + g.Stack.String()
	}
	return g.Stack.String()
}

// Operations returns the number of operations attempted after the baseline.
func (x variant) Operations() int {
	if s := x.Record.Final(); s != nil {
		return s.Operations
	}
	return 0
}

// stackModules returns the paths of the modules with growing stacks, those of fingerprints first.
func (v view) stackModules() []string {
	var first, then []string
	for _, x := range v.Variants {
		for _, g := range slices.Concat(x.Goroutines(), x.Heap()) {
			path, _, _ := strings.Cut(g.Module, " ")
			switch {
			case path == "":
			case g.Fingerprint:
				first = append(first, path)
			default:
				then = append(then, path)
			}
		}
	}
	return unique(append(first, then...))
}

// moduleVersion is one version of a module, with the variants that were built with it.
type moduleVersion struct {
	Version  string
	Variants []string
}

// versions groups the variants by their version of the module.
func (v view) versions(path string) []moduleVersion {
	var out []moduleVersion
	for _, x := range v.Variants {
		version := x.version(path)
		if version == "" {
			continue
		}
		i := slices.IndexFunc(out, func(m moduleVersion) bool { return m.Version == version })
		if i < 0 {
			i, out = len(out), append(out, moduleVersion{Version: version})
		}
		out[i].Variants = append(out[i].Variants, x.Name)
	}
	return out
}

// unique removes duplicates and keeps the first of each.
func unique(in []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(in, func(s string) bool {
		was := seen[s]
		seen[s] = true
		return was
	})
}
