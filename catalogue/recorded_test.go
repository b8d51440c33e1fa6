package catalogue

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
)

var record = flag.String("record", "", "record the profiles of the newest runs in this folder into testdata/recorded")

// profileOf is the stored profile that shows a class. A leaked descriptor shows in the profile of the goroutine that holds it.
func profileOf(class Class) string {
	if class == Heap {
		return "heap"
	}
	return "goroutine"
}

// production is how much more a program leaks in production than in a run of a minute or two: that a run leaks some MiB is
// known from its growth, but its profile alone could be that of a healthy program.
const production = 20

// TestRecorded explains the profiles that runs of the scenarios stored after their last round: the entry of the leak
// comes first for the leaking variant, and no known leak is found for the clean one. It explains them as files, without
// the versions in the binary.
//
// Only scenarios of the museum are recorded. make track-record checks the runs of all.
//
// To record new runs: go test -run Recorded ./catalogue -record RUNS_DIR.
func TestRecorded(t *testing.T) {
	t.Parallel()
	tested := 0
	defer func() {
		if tested < 20 {
			t.Errorf("%d leaks of the museum", tested)
		}
	}()
	for _, e := range All() {
		if e.Verified != ByScenario || !e.Leak() || !inMuseum(e.Scenario) {
			continue
		}
		tested++
		if *record != "" {
			if err := recordRun(e, *record); err != nil {
				t.Errorf("%s: %v", e.ID, err)
			}
		}
		leaky, err := readRecording(filepath.Join("testdata", "recorded", e.Scenario, "leaking-"+profileOf(e.Class)+".txt"))
		if err != nil {
			t.Error(err)
			continue
		}
		for i := range leaky.Stacks {
			leaky.Stacks[i].N *= production
		}
		if x := Explain(leaky); !namesFirst(x, e) {
			t.Errorf("%s: %+v", e.ID, x.Matches)
		}
		for _, profile := range []string{"goroutine", "heap"} {
			fixed, err := readRecording(filepath.Join("testdata", "recorded", e.Scenario, "clean-"+profile+".txt"))
			if err != nil {
				t.Error(err)
				continue
			}
			for _, m := range Explain(fixed).Matches {
				if m.Status == KnownLeak {
					t.Errorf("%s, clean %s: %d at %s", e.ID, profile, m.N, m.ID)
				}
			}
		}
	}
}

// inMuseum reports whether a scenario is in the museum.
func inMuseum(scenario string) bool {
	_, err := os.Stat(filepath.Join("..", "scenarios", "museum", scenario+".yaml"))
	return err == nil
}

// namesFirst reports whether the entry is the first match, or comes after entries of the same scenario only.
func namesFirst(x *Explanation, e *Entry) bool {
	for _, m := range x.Matches {
		if m.Status != KnownLeak || m.Scenario != e.Scenario {
			return false
		}
		if m.ID == e.ID {
			return true
		}
	}
	return false
}

// recorded is the number of stacks in a recording. The largest are most of a profile of the museum.
const recorded = 15

// recordRun writes the profiles of the newest run of a scenario.
func recordRun(e *Entry, runs string) error {
	dirs, err := filepath.Glob(filepath.Join(runs, e.Scenario, "2*Z*"))
	if err != nil || len(dirs) == 0 {
		return err
	}
	newest := slices.Max(dirs)
	to := filepath.Join("testdata", "recorded", e.Scenario)
	errs := []error{os.MkdirAll(to, 0o755), copyProfile(newest, "leaky", profileOf(e.Class), filepath.Join(to, "leaking-"))}
	for _, profile := range []string{"goroutine", "heap"} {
		errs = append(errs, copyProfile(newest, "fixed", profile, filepath.Join(to, "clean-")))
	}
	return errors.Join(errs...)
}

// copyProfile writes the largest stacks of a stored profile as text.
func copyProfile(run, variant, profile, to string) error {
	p, err := profiles.Open(filepath.Join(run, variant, "idle", profile+".pb.gz"))
	if err != nil {
		return err
	}
	slices.SortStableFunc(p.Groups, func(a, b leak.Group) int { return int(p.Amount(b) - p.Amount(a)) })
	var text strings.Builder
	total := int64(0)
	for _, g := range p.Groups {
		total += p.Amount(g)
	}
	fmt.Fprintf(&text, "%d %s\n", total, p.Unit())
	for _, g := range p.Groups[:min(recorded, len(p.Groups))] {
		s := p.Stacks[g.Stack]
		fmt.Fprintf(&text, "\n%d %s\n", p.Amount(g), s.State)
		for _, f := range s.Frames {
			fmt.Fprintf(&text, "\t%s %s:%d\n", f.Func, f.File, f.Line)
		}
		if s.Creator != nil {
			fmt.Fprintf(&text, "\tcreated by %s %s:%d\n", s.Creator.Func, s.Creator.File, s.Creator.Line)
		}
	}
	return os.WriteFile(to+profile+".txt", []byte(text.String()), 0o644)
}

// readRecording reads what copyProfile has written.
func readRecording(path string) (Input, error) {
	file, err := os.Open(path)
	if err != nil {
		return Input{}, err
	}
	defer file.Close()
	in := Input{Title: path}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		n, state, _ := strings.Cut(line, " ")
		switch number, err := strconv.ParseInt(n, 10, 64); {
		case line == "":
		case in.Unit == "":
			in.Unit = state
		case err == nil:
			in.Stacks = append(in.Stacks, Amount{Stack: leak.Stack{State: state}, N: number})
		default:
			s := &in.Stacks[len(in.Stacks)-1].Stack
			name, created := strings.CutPrefix(strings.TrimSpace(line), "created by ")
			f, err := frameOf(name)
			if err != nil {
				return in, fmt.Errorf("%s: %w", path, err)
			}
			if created {
				s.Creator = &f
			} else {
				s.Frames = append(s.Frames, f)
			}
		}
	}
	return in, errors.Join(lines.Err())
}

// frameOf is "function file:line".
func frameOf(text string) (leak.Frame, error) {
	name, position, _ := strings.Cut(text, " ")
	file, line, ok := strings.Cut(position, ":")
	number, err := strconv.Atoi(line)
	if !ok || err != nil {
		return leak.Frame{}, fmt.Errorf("%q is not a frame", text)
	}
	return leak.Frame{Func: name, File: file, Line: number}, nil
}
