package reports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// replaced is a run whose binary was built with -trimpath and a replace line, so that its stacks name the version that
// was replaced.
func replaced() Input {
	in := fixture()
	for i := range in.Record.Variants[0].Subject.Modules {
		if m := &in.Record.Variants[0].Subject.Modules[i]; m.Path == "k8s.io/apimachinery" {
			m.Version, m.Replace = "v0.18.8", "k8s.io/apimachinery v0.17.1"
		}
	}
	return in
}

// Every position under a variant has the version of that variant.
func TestVersionIsThatOfTheVariant(t *testing.T) {
	in := replaced()
	in.Record.Variants, in.Verdict.Variants, in.Record.Plan.Variants = in.Record.Variants[:1], in.Verdict.Variants[:1], in.Record.Plan.Variants[:1]
	in.Scenario.Metadata.Links = nil
	in.Verdict.Variants[0].Result = leak.NotMet // which junit shows with its stacks
	for _, format := range []string{"text", "html", "markdown", "junit", "json"} {
		got := render(t, format, in)
		if !strings.Contains(got, "v0.17.1/pkg/watch/streamwatcher.go:127") && format != "json" {
			t.Errorf("%s does not name the version of the variant", format)
		}
		if i := strings.Index(got, "v0.18.8/pkg/watch/streamwatcher.go"); i >= 0 {
			t.Errorf("%s names another version: %s", format, got[max(i-80, 0):i+40])
		}
	}
}

// many is a run whose leaky variant has more growing stacks than its verdict lists.
func many(stacks int) Input {
	in := fixture()
	vv := &in.Verdict.Variants[0]
	vv.Growing, vv.HeapGrowing, vv.Holders = nil, nil, nil
	in.Record.Variants[0].Holders = nil
	for i := range 20 {
		s := leak.Stack{State: "chan receive", Frames: []leak.Frame{{Func: fmt.Sprintf("example.org/x.F%d", i)}}}
		vv.Growing = append(vv.Growing, grown(s, 0, 10, "", false))
		s.State = ""
		vv.HeapGrowing = append(vv.HeapGrowing, grown(s, 0, 1<<20, "", false))
	}
	vv.Spreads = []leak.Spread{
		{Probe: "goroutine", Stacks: stacks, Grew: int64(10 * stacks), Largest: 10, Started: "main.go:31"},
		{Probe: "heap", Stacks: 541, Grew: 541 << 20, Largest: 1 << 20},
	}
	for i := range vv.Findings {
		vv.Findings[i].Stacks = nil
	}
	return in
}

// Lists that are cut count what the run has, not what the verdict lists.
func TestMoreIsTheTruth(t *testing.T) {
	in := many(151)
	in.Verdict.Variants = in.Verdict.Variants[:1]
	in.Record.Variants, in.Record.Plan.Variants = in.Record.Variants[:1], in.Record.Plan.Variants[:1]
	for format, want := range map[string][]string{
		"text": {"… and 148 more stacks", "… and 538 more allocation sites"},
		"html": {"… and 143 more stacks", "… and 536 more allocation sites", "151 stacks grew, +1510 in total, exact", "541 allocation sites grew, +541.00 MiB in total, sampled"},
	} {
		got := render(t, format, in)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s does not say %q", format, w)
			}
		}
	}
	a := newView(in).Answer()
	if want := "< 1 % of the growth on 151 stacks, all started at main.go:31"; a.Share != want {
		t.Errorf("%q, want %q", a.Share, want)
	}
}

// What was expected does not paint a leak green, and the answer comes in the order in which reviewers ask.
func TestAnswer(t *testing.T) {
	in := fixture()
	a := newView(in).Answer()
	if a.Tone() != "leaking" || a.Variant != "leaky" || a.Who.Func != "watch.(*StreamWatcher).receive" || a.Caller.How != "created by" || a.Blocks != "chan send" {
		t.Errorf("%+v", a)
	}
	if a.Who.Line != "sw.result <- Event{" || !strings.Contains(a.Known, "v0.21.0") || !strings.HasPrefix(a.Clean, "fixed is clean with k8s.io/apimachinery v0.21.0 instead of v0.18.8") {
		t.Errorf("%+v", a)
	}
	if len(a.Next) == 0 || a.Next[0].Command != "leakrig bisect watch-then-delete --variant leaky --module k8s.io/apimachinery --with k8s.io/api,k8s.io/client-go --bad v0.18.8 --good v0.21.0" {
		t.Errorf("%+v", a.Next)
	}
	for format, order := range map[string][]string{
		"text":     {"leak found, as expected", "who ", "blocks on", "cost", "proof", "fix", "next: "},
		"markdown": {"leak found, as expected", "Leaks?", "Expected?", "**Who**", "**Blocks on**", "**Cost**", "**Proof**", "**Known**", "**Fix**", "leakrig bisect"},
		"html":     {`verdict tone-leaking`, "leak found, as expected", "Does it leak?", "Did the rig expect it?", "Who leaks", "Blocks on", "Cost", "Proof", "Fix", "leakrig bisect"},
		"json":     {`"leaks":`, `"rig":`, `"who":`, `"caller":`, `"blocks":`, `"cost":`, `"proof":`, `"known":`, `"clean":`, `"next":`},
	} {
		rest := render(t, format, in)
		for _, part := range order {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("%s has no %q after the part before", format, part)
				break
			}
			rest = after
		}
	}
}

// A run that decided nothing names the command that decides, with the flags that it had.
func TestAnswerOfUndecided(t *testing.T) {
	in := failing()
	in.Record.Variants, in.Verdict.Variants, in.Record.Plan.Variants = in.Record.Variants[2:3], in.Verdict.Variants[2:3], in.Record.Plan.Variants[2:3]
	in.Verdict.Variants[0].Reason = "heap: the scatter allows +2.7 KiB; --rounds 12 or more operations per round"
	in.Record.Args = []string{"observe", "http://x", "--rounds", "6", "--", "curl", "--rounds", "1"}
	a := newView(in).Answer()
	if want := "leakrig observe http://x --rounds 12 -- curl --rounds 1"; len(a.Next) != 1 || a.Next[0].Command != want || a.Why == "" {
		t.Errorf("%+v, want %s", a, want)
	}
}

// The answer skips plumbing, and a scenario may name its own.
func TestWho(t *testing.T) {
	frame := func(f string) leak.Frame { return leak.Frame{Func: f} }
	s := leak.Stack{Frames: []leak.Frame{
		frame("sync.(*Cond).Wait"), frame("k8s.io/apimachinery/pkg/util/wait.BackoffUntil"), frame("example.org/lib.Loop"), frame("example.org/helper.Go"), frame("main.work"),
	}}
	for _, c := range []struct {
		of          leak.Attribution
		who, caller string
	}{
		{leak.Attribution{}, "example.org/lib.Loop", "main.work"},
		{leak.Attribution{Plumbing: []string{"example.org/lib"}}, "example.org/helper.Go", "main.work"},
		{leak.Attribution{Own: []string{"example.org/helper"}}, "example.org/lib.Loop", "example.org/helper.Go"},
		{leak.Attribution{Own: []string{"k8s.io/apimachinery"}}, "k8s.io/apimachinery/pkg/util/wait.BackoffUntil", ""},
	} {
		caller := ""
		if f := c.of.Caller(s, leak.SubjectInfo{}); f != nil {
			caller = f.Func
		}
		if who := c.of.Who(s).Func; who != c.who || caller != c.caller {
			t.Errorf("%+v: %s, called by %s", c.of, who, caller)
		}
	}
}
