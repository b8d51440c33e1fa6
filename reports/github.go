package reports

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// github writes workflow commands of GitHub Actions: an error for each variant that is not as expected, a notice for
// each expected leak. It is the only format whose lines are commands.
func github(w io.Writer, in Input) error {
	v := newView(in)
	var commands []display.Command
	if f := v.Record.Failure; f != nil {
		commands = append(commands, display.Command{Level: "error", Title: v.Name() + ": could not measure", Message: failureText(f)})
	}
	for _, a := range v.annotations() {
		level := "error"
		switch a.Result {
		case leak.Met:
			level = "notice"
		case leak.Undecided:
			level = "warning"
		}
		commands = append(commands, display.Command{Level: level, File: a.File, Line: a.Line, Title: a.Title, Message: a.Message})
	}
	if len(commands) == 0 {
		level := "notice"
		if v.Result() != leak.Met {
			level = "error"
		}
		commands = []display.Command{{Level: level, Title: v.Name() + ": " + v.Headline(), Message: v.Sentence()}}
	}
	return display.WriteCommands(w, commands)
}

// annotation is what a CI system shows at a line.
type annotation struct {
	Variant        variant
	Result         leak.Result
	Title, Message string
	// File is relative to the folder in which leakrig ran, "" if the code is not in it.
	File string
	Line int
	// Growth is the stack behind it, nil if there is none.
	Growth *leak.StackGrowth
	// Lead is the finding behind it, nil if nothing leaks.
	Lead *leak.Finding
}

// annotations returns one for each variant that leaks or is not as expected.
func (v view) annotations() []annotation {
	var list []annotation
	for _, x := range v.Variants {
		if x.Verdict.Outcome != leak.Leaking && x.Verdict.Result == leak.Met {
			continue
		}
		a := annotation{
			Variant: x, Result: x.Verdict.Result, Lead: x.Verdict.Lead(),
			Title:   fmt.Sprintf("%s/%s: %s", v.Name(), x.Name, x.Headline()),
			Message: oneLine(x.Verdict.Reason),
		}
		if g, _, ok := x.lead(); ok && x.Verdict.Outcome == leak.Leaking {
			a.Growth = &g
			a.File, a.Line = v.ownLine(x, g)
		}
		list = append(list, a)
	}
	return list
}

// Headline says whether the variant leaks, and whether that is as expected.
func (x variant) Headline() string {
	if r := x.Verdict.Result; r == leak.Met || r == leak.NotMet {
		return x.Verdict.Outcome.String() + ", " + r.String()
	}
	return x.Verdict.Result.String()
}

// ownLine returns the line of the subject's own code that a stack leads to: the innermost frame, else the creator.
func (v view) ownLine(x variant, g leak.StackGrowth) (file string, line int) {
	info := x.Record.Binary(g.Probe)
	frames := g.Stack.Frames
	if g.Stack.Creator != nil {
		frames = append(frames[:len(frames):len(frames)], *g.Stack.Creator)
	}
	for _, f := range frames {
		if own, ok := info.Own(f); ok {
			return path.Join(v.sourceFolder(), own), f.Line
		}
	}
	return "", 0
}

// sourceFolder is the folder of the subject, relative to the one in which leakrig ran.
func (v view) sourceFolder() string {
	build := v.Scenario.Spec.Subject.Build
	if !strings.HasPrefix(build, "./") && !strings.HasPrefix(build, "../") {
		return path.Join(leak.SourceDir, build)
	}
	if args := v.Record.Args; len(args) > 1 && strings.ContainsRune(args[1], '/') {
		return path.Join(filepath.ToSlash(filepath.Dir(args[1])), build)
	}
	return build
}
