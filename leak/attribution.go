package leak

import (
	"slices"
	"strings"
)

// Attribution says whose code a report names. Elements are prefixes of package paths.
type Attribution struct {
	Own      []string `yaml:"own,omitempty" doc:"package paths, with those below them, that are your code: reports name them as the caller (default: the subject's module)"`
	Plumbing []string `yaml:"plumbing,omitempty" doc:"package paths, with those below them, that reports never name as the code that leaks, in addition to the standard library and well-known helpers"`
}

// plumbing are well-known packages that run, retry or encode for others. A leak on such a frame belongs to its caller.
var plumbing = []string{
	"golang.org/x/sync", "golang.org/x/exp", "github.com/sourcegraph/conc",
	"k8s.io/apimachinery/pkg/util/wait", "k8s.io/apimachinery/pkg/util/runtime", "k8s.io/apimachinery/pkg/util/json",
	"k8s.io/apimachinery/pkg/runtime/serializer", "k8s.io/utils",
	"github.com/json-iterator/go", "github.com/gogo/protobuf", "google.golang.org/protobuf", "sigs.k8s.io/json",
}

// within reports whether a package is one of the paths, or below one.
func within(pkg string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		rest, ok := strings.CutPrefix(pkg, p)
		return ok && p != "" && (rest == "" || rest[0] == '/')
	})
}

// Who returns the first frame outside the standard library and plumbing. If there is none, it returns Origin.
func (a Attribution) Who(s Stack) Frame {
	for _, f := range s.Frames {
		if f.Func == "" || f.Standard() {
			continue
		}
		if pkg := f.Package(); !within(pkg, a.Plumbing) && (within(pkg, a.Own) || !within(pkg, plumbing)) {
			return f
		}
	}
	return s.Origin()
}

// Caller returns the first frame of the subject's own code above Who, or for goroutines without one their creator. It
// returns nil if both are unknown, or Who is itself the subject's code.
func (a Attribution) Caller(s Stack, info SubjectInfo) *Frame {
	who := a.Who(s)
	if a.own(who, info) {
		return nil
	}
	i := slices.Index(s.Frames, who) + 1
	for k := range s.Frames[i:] {
		if f := s.Frames[i+k]; a.own(f, info) {
			return &f
		}
	}
	return s.Creator
}

// own reports whether a frame is in the subject's code.
func (a Attribution) own(f Frame, info SubjectInfo) bool {
	if len(a.Own) > 0 {
		return within(f.Package(), a.Own)
	}
	return f.Package() == "main" || info.Main != "" && within(f.Package(), []string{info.Main})
}

// Actual returns the frame with the version that the program has: a binary that was built with -trimpath names the
// version that a replace line replaced.
func (s SubjectInfo) Actual(f Frame) Frame {
	if module, version, file, ok := s.Origin(f); ok && module != "std" {
		f.File = module + "@" + version + "/" + file
	}
	return f
}

// ActualStack returns the stack with the versions that the program has.
func (s SubjectInfo) ActualStack(stack Stack) Stack {
	stack.Frames = slices.Clone(stack.Frames)
	for i := range stack.Frames {
		stack.Frames[i] = s.Actual(stack.Frames[i])
	}
	if stack.Creator != nil {
		creator := s.Actual(*stack.Creator)
		stack.Creator = &creator
	}
	return stack
}

// Spread is the growth of all stacks of a probe or of a check. Lists of stacks show the largest of them.
type Spread struct {
	// Probe is the name of the probe.
	Probe string `json:"probe"`
	// Stacks is the number of stacks that grew, and Grew the sum of their growth, in goroutines or bytes.
	Stacks int   `json:"stacks"`
	Grew   int64 `json:"grew"`
	// Largest is the growth of the stack that grew most.
	Largest int64 `json:"largest"`
	// Creator is the frame that created the goroutines of all these stacks, nil if they have several. Started is its
	// position: "main.go:31".
	Creator *Frame `json:"creator,omitempty"`
	Started string `json:"started,omitempty"`
}

// MinMost is the share of the growth from which a stack has most of it.
const MinMost = 0.5

// Share returns the share of one stack in the growth, from 0 to 1. It is 1 if the growth is unknown.
func (s *Spread) Share(g StackGrowth) float64 {
	if s == nil || s.Grew <= 0 {
		return 1
	}
	return min(float64(max(g.To-g.From, 0))/float64(s.Grew), 1)
}

// SpreadOf returns the growth of all stacks of a kind of probe, goroutine or heap; nil if it is unknown, in verdicts of
// older versions.
func (v *VariantVerdict) SpreadOf(kind string) *Spread {
	var all *Spread
	for _, s := range v.Spreads {
		if ProbeKind(s.Probe) != kind {
			continue
		}
		if all == nil {
			all = &s
			continue
		}
		all = &Spread{Probe: kind, Stacks: all.Stacks + s.Stacks, Grew: all.Grew + s.Grew, Largest: max(all.Largest, s.Largest)}
	}
	return all
}

// SpreadIn returns the growth of all stacks of one probe, nil if it is unknown or none grew.
func (v *VariantVerdict) SpreadIn(probe string) *Spread {
	for i := range v.Spreads {
		if v.Spreads[i].Probe == probe {
			return &v.Spreads[i]
		}
	}
	return nil
}
