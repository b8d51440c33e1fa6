package catalogue

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/leakrig/leakrig/leak"
)

// index finds the entries of a stack.
type index struct {
	entries  []*Entry
	patterns []pattern
	// steps are the regular expressions of all patterns, each once.
	steps []step
}

// step is a regular expression with the literal start of the names that it matches, which is faster to compare.
type step struct {
	start string
	re    *regexp.Regexp
}

func newStep(expr string) step {
	start := ""
	if rest, ok := strings.CutPrefix(expr, "^"); ok && !strings.Contains(rest, "|") {
		start, _ = regexp.MustCompile(rest).LiteralPrefix()
	}
	return step{start, regexp.MustCompile(expr)}
}

func (s step) matches(name string) bool {
	return strings.HasPrefix(name, s.start) && s.re.MatchString(name)
}

// pattern is a fingerprint with its regular expressions as indexes of steps.
type pattern struct {
	entry *Entry
	heap  bool
	// path has the callers and the match, outermost first.
	path  []int
	state string
}

func newIndex(entries []*Entry) *index {
	x := &index{entries: entries}
	known := map[string]int{}
	number := func(expr string) int {
		i, ok := known[expr]
		if !ok {
			i = len(x.steps)
			known[expr] = i
			x.steps = append(x.steps, newStep(expr))
		}
		return i
	}
	for _, e := range entries {
		for _, f := range e.Stacks {
			p := pattern{entry: e, heap: f.Profile == Heap, state: f.State}
			for _, caller := range f.Callers {
				p.path = append(p.path, number(caller))
			}
			p.path = append(p.path, number(f.Match))
			x.patterns = append(x.patterns, p)
		}
	}
	// The most specific pattern comes first: it has more steps or a state.
	slices.SortStableFunc(x.patterns, func(a, b pattern) int {
		return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(min(len(b.state), 1), min(len(a.state), 1)))
	})
	return x
}

// finder finds entries for many stacks with the same functions. It compares each name once.
type finder struct {
	*index
	// steps are the steps that match each name seen, with the file for closures.
	steps map[string][]int
}

func (x *index) finder() *finder { return &finder{index: x, steps: map[string][]int{}} }

// stepsOf returns the steps that match the name of a function. A closure in an inlined function also has the name that
// it would have without inlining.
func (f *finder) stepsOf(frame leak.Frame) []int {
	key := frame.Func
	closure := strings.Contains(frame.Func, ".func")
	if closure {
		key += " " + frame.File
	}
	steps, ok := f.steps[key]
	if !ok {
		steps = f.matching(frame.Func)
		if closure && steps == nil {
			if pkg := sourcePackage(frame.File); pkg != "" && pkg != frame.Package() {
				steps = f.matching(pkg + "." + frame.Stable())
			}
		}
		f.steps[key] = steps
	}
	return steps
}

func (f *finder) matching(name string) (steps []int) {
	for i, step := range f.index.steps {
		if step.matches(name) {
			steps = append(steps, i)
		}
	}
	return steps
}

// sourcePackage returns the import path of the package with a file in the module cache, "" for any other file.
func sourcePackage(file string) string {
	if _, rest, ok := strings.Cut(file, "/pkg/mod/"); ok {
		file = rest
	}
	start, rest, ok := strings.Cut(file, "@")
	if !ok || strings.HasPrefix(start, "/") {
		return ""
	}
	if original, err := module.UnescapePath(start); err == nil {
		start = original
	}
	_, rest, _ = strings.Cut(rest, "/")
	return path.Join(start, path.Dir(rest))
}

// find returns the entries of a stack, the most specific fingerprint first.
func (f *finder) find(s leak.Stack, heap bool) []*Entry {
	creator := []int(nil)
	if s.Creator != nil {
		creator = f.stepsOf(*s.Creator)
	}
	frames := make([][]int, 0, len(s.Frames)) // those with a step, outermost first
	for _, frame := range slices.Backward(s.Frames) {
		if steps := f.stepsOf(frame); steps != nil {
			frames = append(frames, steps)
		}
	}
	if creator == nil && len(frames) == 0 {
		return nil
	}
	var found []*Entry
	for _, p := range f.patterns {
		if p.heap != heap || p.state != "" && s.State != "" && p.state != s.State || slices.Contains(found, p.entry) {
			continue
		}
		if p.leads(frames) || len(p.path) == 1 && slices.Contains(creator, p.path[0]) {
			found = append(found, p.entry)
		}
	}
	return found
}

// leads reports whether the path matches frames, outermost first, in order.
func (p pattern) leads(frames [][]int) bool {
	step := 0
	for _, steps := range frames {
		if slices.Contains(steps, p.path[step]) {
			if step++; step == len(p.path) {
				return true
			}
		}
	}
	return false
}
