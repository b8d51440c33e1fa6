package reports

import (
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// stripModules limits the modules of the strip.
const stripModules = 6

// moduleStrip is a module with the versions that variants were built with, and what came of each.
type moduleStrip struct {
	Path     string
	Versions []stripVersion
}

// stripVersion is a version with the worst outcome of its variants.
type stripVersion struct {
	moduleVersion
	Outcome leak.Outcome
}

// Strip lists the modules whose versions differ between variants, those with growing stacks first.
func (v view) Strip() []moduleStrip {
	shown, _ := head(v.strips(), stripModules)
	return shown
}

// StripMore is the number of modules that Strip leaves out.
func (v view) StripMore() int { return max(len(v.strips())-stripModules, 0) }

func (v view) strips() []moduleStrip {
	var paths []string
	for _, x := range v.Variants {
		for _, b := range x.binaries() {
			for _, m := range b.Modules {
				paths = append(paths, m.Path)
			}
		}
	}
	slices.Sort(paths)
	var list []moduleStrip
	for _, path := range unique(append(v.stackModules(), paths...)) {
		s := moduleStrip{Path: path}
		for _, m := range v.versions(path) {
			s.Versions = append(s.Versions, stripVersion{m, v.worstOf(m.Variants)})
		}
		if len(s.Versions) > 1 {
			list = append(list, s)
		}
	}
	return list
}

// worstOf is leaking if a variant leaks, inconclusive if one is undecided, else clean.
func (v view) worstOf(names []string) leak.Outcome {
	worst := leak.Clean
	for _, x := range v.Variants {
		switch o := x.Verdict.Outcome; {
		case !slices.Contains(names, x.Name):
		case o == leak.Leaking:
			return leak.Leaking
		case o == leak.Inconclusive:
			worst = leak.Inconclusive
		}
	}
	return worst
}
