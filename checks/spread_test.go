package checks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// manyStacks is a record in which every operation leaves a goroutine on each of n stacks, all created at one line.
func manyStacks(n int) *leak.Record {
	r := recordOf(flatValues, flatValues)
	v := &r.Variants[0]
	creator := &leak.Frame{Func: "example.org/svc/jobs.Start", File: "example.org/svc@v1.0.0/jobs/jobs.go", Line: 31}
	for i := range n {
		s := leak.Stack{State: "chan receive", Creator: creator, Frames: []leak.Frame{{Func: fmt.Sprintf("example.org/svc/jobs.F%d", i)}}}
		v.Stacks[s.ID()] = s
		add := func(shot *leak.Snapshot) {
			sample := shot.Sample("goroutine")
			sample.Groups["dump"] = append(sample.Groups["dump"], leak.Group{Stack: s.ID(), Count: int64(shot.Operations)})
			sample.Values["count"] += float64(shot.Operations)
		}
		for k := range v.Snapshots {
			add(&v.Snapshots[k])
		}
		add(v.Idle)
	}
	return r
}

// A sentence says "most of it" and "at" only of a stack with at least half of the growth, and counts all stacks, also
// those that lists leave out.
func TestSentenceOfManyStacks(t *testing.T) {
	s := scenario()
	s.Spec.Variants[0].Fingerprint = []string{"goroutines"}
	v := Judge(s, manyStacks(151))
	if v.Variants[0].Outcome != leak.Leaking {
		t.Fatalf("%+v", v.Sentence)
	}
	if want := "spread over 151 stacks, all started at example.org/svc@v1.0.0/jobs/jobs.go:31"; !strings.Contains(v.Sentence, want) || strings.Contains(v.Sentence, "most of it") {
		t.Errorf("%q does not say %q", v.Sentence, want)
	}
	one := &leak.Finding{Unit: "goroutines", Stacks: []leak.StackGrowth{{To: 2, Stack: receive}, {To: 1}}, Spread: &leak.Spread{Stacks: 40, Grew: 41, Largest: 2}}
	if got := blockedAt(one); got != ", spread over 40 stacks" {
		t.Error(got)
	}
	one.Spread.Grew = 3
	if got := blockedAt(one); got != ", blocked in chan send at watch.(*StreamWatcher).receive and on 39 more stacks" {
		t.Error(got)
	}
}

// The headline is the largest of the fingerprints, whatever the order of the checks.
func TestLeadIsTheLargest(t *testing.T) {
	bytes := func(name string, size float64, fingerprint bool) leak.Finding {
		return leak.Finding{Check: name, Outcome: leak.Leaking, Unit: "bytes", BoundPerOperation: true, PerOperation: size, Fingerprint: fingerprint}
	}
	vv := leak.VariantVerdict{Findings: []leak.Finding{bytes("small", 36.2, true), bytes("all", 73.4, false), bytes("large", 37.1, true)}}
	if lead := vv.Lead(); lead.Check != "large" {
		t.Errorf("the headline is %s", lead.Check)
	}
	vv.Findings[1].Fingerprint = true
	if lead := vv.Lead(); lead.Check != "all" {
		t.Errorf("the headline is %s", lead.Check)
	}
	// A stack with 1 of 151 does not stand for all of them.
	vv.Findings = []leak.Finding{
		{Check: "stack", Outcome: leak.Leaking, Unit: "goroutines", BoundPerOperation: true, PerOperation: 1, Stacks: []leak.StackGrowth{{To: 1}}},
		{Check: "all", Outcome: leak.Leaking, Unit: "goroutines", BoundPerOperation: true, PerOperation: 151},
	}
	if lead := vv.Lead(); lead.Check != "all" {
		t.Errorf("the headline is %s", lead.Check)
	}
}

// Reports name the version that a program has, not the one that a binary built with -trimpath names.
func TestStackOfReplacedModule(t *testing.T) {
	r := recordOf(leakyValues, flatValues)
	r.Variants[0].Subject.Modules = []leak.Module{{Path: "k8s.io/apimachinery", Version: "v0.18.8", Replace: "k8s.io/apimachinery v0.17.0"}}
	g := Judge(scenario(), r).Variants[0].Growing[0]
	if at := g.Stack.Top().Position(); !strings.HasPrefix(at, "k8s.io/apimachinery@v0.17.0/") || g.Module != "k8s.io/apimachinery v0.17.0" || g.Who.File != g.Stack.Top().File {
		t.Errorf("%s in %s", at, g.Module)
	}
}
