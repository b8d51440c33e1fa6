package reports

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leakrig/leakrig/leak"
)

// command is a shell command that shows part of the report again.
type command struct {
	Doc  string
	Line string
}

// pprofCommands returns the commands that show each variant's growth in the raw profiles: goroutines, then heap.
func (v view) pprofCommands() []command {
	var list []command
	for _, x := range v.Variants {
		for _, probe := range x.profiles() {
			if line, ok := v.pprof(x, probe); ok {
				list = append(list, command{x.Name + ", " + probe, line})
			}
		}
	}
	return list
}

// reproduce returns the command that shows the leak in the raw profiles. It prefers a variant that shows its
// fingerprint, then a leaking variant, then any.
func (v view) reproduce() (string, bool) {
	var best string
	rank := 0
	for _, x := range v.Variants {
		for _, probe := range x.profiles() {
			line, ok := v.pprof(x, probe)
			if r := reproduceRank(x, probe); ok && r > rank {
				best, rank = line, r
			}
		}
	}
	return best, rank > 0
}

func reproduceRank(x variant, probe string) int {
	top, grew := x.top(probe)
	switch {
	case grew && top.Fingerprint:
		return 4
	case grew && x.Verdict.Outcome == leak.Leaking:
		return 3
	case x.Verdict.Outcome == leak.Leaking:
		return 2
	}
	return 1
}

// profiles returns the probes that keep profiles, goroutine probes first.
func (x variant) profiles() []string {
	return slices.Concat(x.Record.Probes("goroutine"), x.Record.Probes("heap"))
}

// top returns the first stack to show from the probe's profile.
func (x variant) top(probe string) (leak.StackGrowth, bool) {
	stacks := x.Goroutines()
	if leak.ProbeKind(probe) == "heap" {
		stacks = x.Heap()
	}
	for _, g := range stacks {
		if g.Probe == probe || g.Probe == "" && leak.ProbeKind(probe) == probe {
			return g, true
		}
	}
	return leak.StackGrowth{}, false
}

// rerun returns the command that made the run.
func (v view) rerun() string { return v.rerunWith("", "") }

// rerunWith returns the command that made the run with a flag set, if it is not "". Flags come before the command of an
// observation.
func (v view) rerunWith(flag, value string) string {
	args := slices.Clone(v.Record.Args)
	if len(args) == 0 {
		args = []string{"run", v.Name()}
	}
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	if flag != "" {
		own := args[:end:end]
		if i := slices.Index(own, flag); i >= 0 && i+1 < len(own) {
			own = slices.Delete(own, i, i+2)
		}
		own = slices.DeleteFunc(own, func(a string) bool { return strings.HasPrefix(a, flag+"=") })
		args = slices.Concat(own, []string{flag, value}, args[end:])
	}
	words := []string{"leakrig"}
	for _, a := range args {
		words = append(words, ShellWord(a))
	}
	return strings.Join(words, " ")
}

// pprof returns the command that subtracts the probe's baseline from its last round.
func (v view) pprof(x variant, probe string) (string, bool) {
	if len(x.Record.Snapshots) < 2 {
		return "", false
	}
	base, last := rawProfile(&x.Record.Snapshots[0], probe), rawProfile(x.Record.Final(), probe)
	if base == "" || last == "" {
		return "", false
	}
	words := []string{"go tool pprof"}
	if leak.ProbeKind(probe) == "heap" {
		words = append(words, "-sample_index=inuse_space")
	}
	top, _ := x.top(probe)
	if focus := focus(top.Stack.Place()); focus != "" {
		words = append(words, "-traces", "-focus='"+focus+"'")
	} else {
		words = append(words, "-top")
	}
	// Do not use -diff_base: it labels the base's samples, and -traces then lists them separately instead of
	// subtracting them.
	words = append(words, "-base", v.file(base), v.file(last))
	return strings.Join(words, " "), true
}

func rawProfile(s *leak.Snapshot, probe string) string {
	sample := s.Sample(probe)
	if sample == nil {
		return ""
	}
	for _, f := range sample.Files {
		if strings.HasSuffix(f, ".pb.gz") {
			return f
		}
	}
	return ""
}

// file returns the path of a file in the run directory as a shell word.
func (v view) file(name string) string { return ShellPath(path.Join(v.RunDir, name)) }

// focus returns a regular expression that matches the function and needs no escaping in any shell:
// "StreamWatcher..receive" for watch.(*StreamWatcher).receive.
func focus(f leak.Frame) string {
	name := f.Short()
	if _, method, ok := strings.Cut(name, "(*"); ok {
		name = method
	}
	return mapRunes(name, isWordRune)
}

// ShellWord quotes s as one shell word. It replaces unprintable characters instead of quoting them: a user must be
// able to paste the line without checking it, even if a path with a newline then no longer works.
func ShellWord(s string) string {
	s = mapRunes(s, func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError })
	if mapRunes(s, func(r rune) bool { return isWordRune(r) || strings.ContainsRune("./-+@%:,=", r) }) == s && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ShellPath quotes a path as one shell word. A path that starts with a dash does not become a flag.
func ShellPath(s string) string {
	if strings.HasPrefix(s, "-") {
		s = "./" + s
	}
	return ShellWord(s)
}

func isWordRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// mapRunes replaces each rune that keep rejects with a dot.
func mapRunes(s string, keep func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if keep(r) {
			return r
		}
		return '.'
	}, s)
}
