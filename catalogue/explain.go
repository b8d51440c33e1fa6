package catalogue

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/leakrig/leakrig/leak"
)

// Status is what a match means.
type Status string

// The statuses, in the order of a report.
const (
	// KnownLeak is a known leak: enough goroutines or bytes, in a version that is affected or unknown.
	KnownLeak Status = "known leak"
	// StandsOut is a pattern with more goroutines or bytes than a healthy process has.
	StandsOut Status = "stands out"
	// Present is code of the catalogue with an amount that a healthy process has.
	Present Status = "present"
	// NotAffected is the stack of a known leak in a version that has the fix.
	NotAffected Status = "not affected"
)

var statuses = []Status{KnownLeak, StandsOut, Present, NotAffected}

// Input is what is explained: the stacks of one profile, or the stacks that grew in a run.
type Input struct {
	// Title names the profile in the output.
	Title string
	// Unit is "goroutines", or "bytes" for the heap.
	Unit   string
	Stacks []Amount
	// Binary has the versions of the binary, nil if unknown.
	Binary *leak.SubjectInfo
	// Grew is set if the amounts are growth in a run, Leaking if that run leaks. A small amount counts then.
	Grew, Leaking bool
}

// Amount is a stack with its goroutines or bytes.
type Amount struct {
	leak.Stack
	N int64
	// OldestMinutes is the longest time that a goroutine has waited on the stack.
	OldestMinutes int
}

// Explanation is what the catalogue has on a profile.
type Explanation struct {
	Title string `json:"profile"`
	Unit  string `json:"unit"`
	Total int64  `json:"total"`
	// Grew is set if the amounts are the growth of a run.
	Grew bool `json:"grew,omitempty"`
	// Matches are known leaks, then patterns that stand out, then the rest. The largest amount comes first.
	Matches []Match `json:"matches"`
	// Unknown are the other stacks, by wait state and first function outside the standard library, largest first.
	Unknown []Group `json:"unknown"`
	// Omitted is the number of unknown groups that are omitted to limit the output.
	Omitted int `json:"omitted,omitempty"`
}

// Match is an entry with its stacks in a profile.
type Match struct {
	*Entry
	Status Status `json:"status"`
	// Reference names the leak: "kubernetes/kubernetes#93138".
	Reference string `json:"reference"`
	N         int64  `json:"amount"`
	// Threshold is the amount from which the entry explains a leak.
	Threshold int64 `json:"threshold"`
	// Share is the amount divided by the total.
	Share float64 `json:"share"`
	// Version is the version of the module, "" if unknown. VersionFrom is where it is from: binary or profile.
	Version     string `json:"version,omitempty"`
	VersionFrom string `json:"versionFrom,omitempty"`
	// FixedIn is the version with the fix, for the version in use if known.
	FixedIn string `json:"fixedIn,omitempty"`
	// Caller is the first frame in the user's code, nil if there is none.
	Caller *leak.Frame `json:"caller,omitempty"`
	// Groups is the number of different stacks. Stack is the largest, with its largest amount.
	Groups        int        `json:"stacks"`
	Stack         leak.Stack `json:"stack"`
	OldestMinutes int        `json:"oldestMinutes,omitempty"`
	largest       int64
}

// Group are stacks that are not in the catalogue.
type Group struct {
	// State is the wait state, "" for the heap.
	State string `json:"state,omitempty"`
	// At is the first frame outside the standard library.
	At            leak.Frame  `json:"at"`
	N             int64       `json:"amount"`
	Stacks        int         `json:"stacks"`
	OldestMinutes int         `json:"oldestMinutes,omitempty"`
	Caller        *leak.Frame `json:"caller,omitempty"`
}

// leastShare is the share of the growth of a leaking run from which a pattern stands out: one in leastShare.
const leastShare = 10

// Limits of an explanation: groups of unknown stacks, frames of the stack of a match, bytes of the name of a frame.
const (
	maxUnknown  = 1000
	stackFrames = 30
	stackName   = 300
)

// Explain finds the entries of each stack. A stack counts for one entry: a known leak whose version is affected, or
// else a pattern. Fingerprints with more callers win.
func Explain(in Input) *Explanation {
	x := &Explanation{Title: in.Title, Unit: in.Unit, Grew: in.Grew, Matches: []Match{}, Unknown: []Group{}}
	find := library().finder()
	matches, unknown := map[*Entry]*Match{}, map[string]*Group{}
	var order []*Entry
	for _, s := range in.Stacks {
		x.Total += s.N
		entry, version, from := in.choose(find.find(s.Stack, in.Unit == "bytes"), s.Stack)
		if entry == nil {
			addUnknown(unknown, in, s)
			continue
		}
		m := matches[entry]
		if m == nil {
			m = &Match{Entry: entry, Reference: entry.Reference(), Threshold: entry.least(in.Unit), Version: version, VersionFrom: from}
			matches[entry] = m
			order = append(order, entry)
		}
		m.N += s.N
		m.Groups++
		m.OldestMinutes = max(m.OldestMinutes, s.OldestMinutes)
		if s.N > m.largest {
			m.largest, m.Stack = s.N, s.Stack.Cut(stackFrames, stackName)
			if caller := in.caller(s.Stack, entry.Module); caller != nil {
				m.Caller = short(*caller)
			}
		}
	}
	for _, entry := range order {
		m := matches[entry]
		m.Share = float64(m.N) / float64(max(x.Total, 1))
		m.Status, m.FixedIn = in.status(m, x.Total)
		x.Matches = append(x.Matches, *m)
	}
	slices.SortStableFunc(x.Matches, func(a, b Match) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.N, a.N), cmp.Compare(a.ID, b.ID))
	})
	for _, g := range unknown {
		x.Unknown = append(x.Unknown, *g)
	}
	slices.SortFunc(x.Unknown, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.At.Func, b.At.Func), cmp.Compare(a.State, b.State))
	})
	if x.Omitted = max(0, len(x.Unknown)-maxUnknown); x.Omitted > 0 {
		x.Unknown = x.Unknown[:maxUnknown]
	}
	return x
}

// rank orders matches: by status, and known leaks before patterns.
func rank(m Match) int {
	n := 2 * slices.Index(statuses, m.Status)
	if !m.Leak() {
		n++
	}
	return n
}

// choose returns the entry that a stack counts for, with the version of its module.
func (in Input) choose(found []*Entry, s leak.Stack) (entry *Entry, version, from string) {
	for _, e := range found {
		v, f := in.version(e, s)
		switch {
		case e.Leak() && (v == "" || e.affects(v) != nil):
			return e, v, f
		case entry == nil || entry.Leak() && !e.Leak(): // a pattern is better than a leak that this version does not have
			entry, version, from = e, v, f
		}
	}
	return entry, version, from
}

// status decides what a match means, and which version has the fix.
func (in Input) status(m *Match, total int64) (Status, string) {
	least := m.Threshold
	if in.Leaking {
		least = 1
		if !m.Leak() {
			least = max(1, total/leastShare)
		}
	}
	fixed := m.Fixed()
	switch {
	case !m.Leak() && m.N >= least:
		return StandsOut, ""
	case !m.Leak():
		return Present, ""
	case m.Version != "":
		r := m.affects(m.Version)
		if r == nil {
			return NotAffected, fixed
		}
		fixed = r.Fixed
	}
	if m.N < least {
		return Present, fixed
	}
	return KnownLeak, fixed
}

// least returns the amount from which an entry explains a leak. The least of an entry is in the unit of its class, so
// that it does not apply to the other kind of profile.
func (e *Entry) least(unit string) int64 {
	if heap := unit == "bytes"; e.Least > 0 && heap == (e.Class == Heap) {
		return int64(e.Least)
	} else if heap {
		return leastBytes
	}
	return leastGoroutines
}

// version returns the version of an entry's module, and where it is from: the binary, or the file names of a stack. It
// is "" if the version is unknown, a replacement with another module, or from before the module had a go.mod file:
// k8s.io/client-go v12.0.0+incompatible is older than v0.15.0.
func (in Input) version(e *Entry, s leak.Stack) (version, from string) {
	if e.Module == Std {
		return "", ""
	}
	version, known := in.required(e.Module)
	from = "binary"
	if !known {
		version, from = filesVersion(e.Module, s), "profile"
	}
	const old = "+incompatible"
	if version == "" || strings.HasSuffix(version, old) != strings.HasSuffix(e.Names, old) {
		return "", ""
	}
	return version, from
}

// filesVersion returns the version of a module in the file names of a stack, "" if there is none.
func filesVersion(path string, s leak.Stack) string {
	names := []string{path}
	if escaped, err := module.EscapePath(path); err == nil && escaped != path {
		names = append(names, escaped)
	}
	frames := s.Frames
	if s.Creator != nil {
		frames = append(slices.Clip(frames), *s.Creator)
	}
	for _, f := range frames {
		if version := versionIn(f.File, names); version != "" {
			return version
		}
	}
	return ""
}

// required returns the version of a module in the binary, "" if it is not comparable. ok is false if the binary is
// unknown or does not have the module.
func (in Input) required(path string) (version string, ok bool) {
	if in.Binary == nil {
		return "", false
	}
	i := slices.IndexFunc(in.Binary.Modules, func(m leak.Module) bool { return m.Path == path })
	if i < 0 {
		return "", false
	}
	m := in.Binary.Modules[i]
	version = m.Version
	if m.Replace != "" {
		replaced := ""
		if replaced, version, _ = strings.Cut(m.Replace, " "); replaced != path {
			return "", true
		}
	}
	if !semver.IsValid(version) {
		return "", true
	}
	return version, true
}

// versionIn finds the version of a module, under any of its names, in the path of a file in the module cache:
// "…/k8s.io/api@v0.25.0/types.go".
func versionIn(file string, names []string) string {
	for _, name := range names {
		i := strings.Index(file, name+"@")
		if i < 0 || i > 0 && file[i-1] != '/' {
			continue
		}
		version, _, _ := strings.Cut(file[i+len(name)+1:], "/")
		if semver.IsValid(version) {
			return version
		}
	}
	return ""
}

// caller returns the first frame in the user's own code that called a module, or created the goroutine that did. It is
// nil if the stack has no such frame.
func (in Input) caller(s leak.Stack, module string) *leak.Frame {
	frames := s.Frames
	if s.Creator != nil {
		frames = append(slices.Clip(frames), *s.Creator)
	}
	for i, f := range slices.Backward(frames) {
		if within(f.Package(), module) {
			frames = frames[i+1:]
			break
		}
	}
	for i, f := range frames {
		if f.Func != "" && !f.Standard() && in.own(f) {
			return &frames[i]
		}
	}
	return nil
}

// own reports whether a frame is in the user's code: in package main, in the main module, or in a file outside the
// module cache and vendor folders.
func (in Input) own(f leak.Frame) bool {
	if f.Package() == "main" {
		return true
	}
	if in.Binary != nil && in.Binary.Main != "" {
		return within(f.Package(), in.Binary.Main)
	}
	return path.IsAbs(f.File) && !strings.Contains(f.File, "@") && !strings.Contains(f.File, "/vendor/")
}

// within reports whether a package is in a module.
func within(pkg, module string) bool {
	return pkg == module || strings.HasPrefix(pkg, module+"/")
}

func addUnknown(all map[string]*Group, in Input, s Amount) {
	at := s.Origin()
	key := s.State + "\x00" + at.Func
	g := all[key]
	if g == nil {
		g = &Group{State: s.State, At: *short(at)}
		if caller := in.caller(s.Stack, Std); caller != nil {
			g.Caller = short(*caller)
		}
		all[key] = g
	}
	g.N += s.N
	g.Stacks++
	g.OldestMinutes = max(g.OldestMinutes, s.OldestMinutes)
}

// short is a frame with names of limited length.
func short(f leak.Frame) *leak.Frame {
	return &leak.Stack{Frames: []leak.Frame{f}}.Cut(1, stackName).Frames[0]
}

// Sentence names a known leak and its fix: "known leak: kubernetes/kubernetes#98653, fixed in k8s.io/apimachinery
// v0.21.0".
func (m *Match) Sentence() string {
	if m.FixedIn == "" {
		return "known leak: " + m.Reference + ", not fixed in any version of " + m.Module
	}
	return "known leak: " + m.Reference + ", fixed in " + m.Module + " " + m.FixedIn
}

// Known returns the known leak of a stack that grew in a leaking run, nil if there is none.
func Known(s leak.Stack, heap bool, binary leak.SubjectInfo) *Match {
	in := Input{Unit: "goroutines", Stacks: []Amount{{Stack: s, N: 1}}, Binary: &binary, Grew: true, Leaking: true}
	if heap {
		in.Unit = "bytes"
	}
	if x := Explain(in); len(x.Matches) > 0 && x.Matches[0].Status == KnownLeak {
		return &x.Matches[0]
	}
	return nil
}

// Growth returns the stacks that grew in a variant of a run, one input for each binary and unit. A clean variant has
// none.
func Growth(v *leak.VariantRecord, verdict *leak.VariantVerdict) []Input {
	if verdict.Outcome == leak.Clean {
		return nil
	}
	var inputs []Input
	add := func(unit string, stacks []leak.StackGrowth) {
		at := map[string]int{}
		for _, g := range stacks {
			component, _, ok := strings.Cut(g.Probe, "/")
			if !ok {
				component = ""
			}
			i, ok := at[component]
			if !ok {
				i = len(inputs)
				at[component] = i
				binary := v.Binary(g.Probe)
				title := strings.TrimSpace(v.Name + " " + component)
				inputs = append(inputs, Input{Title: title, Unit: unit, Binary: &binary, Grew: true, Leaking: verdict.Outcome == leak.Leaking})
			}
			inputs[i].Stacks = append(inputs[i].Stacks, Amount{Stack: g.Stack, N: g.To - g.From, OldestMinutes: g.OldestMinutes})
		}
	}
	add("goroutines", verdict.Growing)
	add("bytes", verdict.HeapGrowing)
	return inputs
}
