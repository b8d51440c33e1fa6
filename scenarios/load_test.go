package scenarios

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// full gives every key of a scenario. Each row of TestProblems changes it in one place.
const full = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata:
  name: full
  description: Everything at once.
  links: [https://example.org/1]
spec:
  cluster: {providers: [embedded], kubernetes: v1.33.0}
  subject:
    build: ./server
    args: [--verbose]
    env: {A: 1, B: true, C: text, D: ""}
    port: 8080
    pprof: /pprof
    ready: /ready
    readyTimeout: 2m
  variants:
    - name: leaky
      modfile: leaky.mod
      expect: leaking
      fingerprint: [receive, growth heap]
    - {name: fixed, modfile: fixed.mod, expect: clean, env: {A: 0.10}}
  warmup: {rounds: 0}
  rounds: 5
  round:
    - post: {path: /a, headers: {X-Count: 007}}
    - post: {name: second, path: /b, times: 3}
  operation: second
  settle: {quiet: 100ms, timeout: 5s}
  probes:
    - goroutine
    - heap: {}
    - process
  checks:
    - delta: {probe: goroutine, max: 10}
    - growth: {probe: heap, maxPerOp: 4KiB}
    - growth: {probe: process, metric: descriptors, maxPerOp: 0.5}
    - stack: {name: receive, match: 'receive', state: chan send, maxPerOp: 0.01}
    - named: {name: not the block's}
`

// minimal omits everything with a default.
const minimal = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: minimal}
spec:
  subject: {command: [./server]}
  variants: [{name: current, expect: clean}]
  round: [post: {path: /}]
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 1}]
`

func load(text string) (*leak.Scenario, error) {
	return Load(Source{Name: "f", Data: []byte(text)}, fakeKinds())
}

func mustLoad(t *testing.T, text string) *leak.Scenario {
	t.Helper()
	s, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoadFull(t *testing.T) {
	want := &leak.Scenario{
		APIVersion: "leakrig.dev/v1",
		Kind:       "Scenario",
		Metadata:   leak.Metadata{Name: "full", Description: "Everything at once.", Links: []string{"https://example.org/1"}},
		Spec: leak.Spec{
			Cluster: &leak.ClusterSpec{Providers: []string{"embedded"}, Kubernetes: "v1.33.0", Nodes: 1},
			Subject: leak.SubjectSpec{
				Build: "./server", Args: []string{"--verbose"},
				Env:  map[string]string{"A": "1", "B": "true", "C": "text", "D": ""},
				Port: 8080, Pprof: "/pprof", Ready: "/ready", ReadyTimeout: leak.Duration(2 * time.Minute),
			},
			Variants: []leak.Variant{
				{Name: "leaky", Modfile: "leaky.mod", Expect: leak.ExpectLeaking, Fingerprint: []string{"receive", "growth heap"}},
				{Name: "fixed", Modfile: "fixed.mod", Expect: leak.ExpectClean, Env: map[string]string{"A": "0.10"}},
			},
			Rounds: 5,
			Round: []leak.Block[leak.Action]{
				{Kind: "post", Name: "post", Value: &post{Path: "/a", Times: 10, Headers: map[string]string{"X-Count": "007"}}},
				{Kind: "post", Name: "second", Value: &post{Path: "/b", Times: 3}},
			},
			Operation: "second",
			Settle:    leak.SettleSpec{Quiet: leak.Duration(100 * time.Millisecond), Timeout: leak.Duration(5 * time.Second)},
			Probes: []leak.Block[leak.Probe]{
				{Kind: "goroutine", Name: "goroutine", Value: &goroutineProbe{DumpLimit: 100}},
				{Kind: "heap", Name: "heap", Value: &plainProbe{}},
				{Kind: "process", Name: "process", Value: &plainProbe{}},
			},
			Checks: []leak.Block[leak.Check]{
				{Kind: "delta", Name: "delta goroutine", Value: &delta{Reading: Reading{Probe: "goroutine"}, Max: 10}},
				{Kind: "growth", Name: "growth heap", Value: &growth{Reading: Reading{Probe: "heap"}, MaxPerOp: 4096}},
				{Kind: "growth", Name: "growth process.descriptors", Value: &growth{Reading: Reading{"process", "descriptors"}, MaxPerOp: 0.5}},
				{Kind: "stack", Name: "receive", Value: &stack{Match: "receive", State: "chan send", MaxPerOp: 0.01}},
				{Kind: "named", Name: "named", Value: &named{Name: "not the block's"}},
			},
		},
	}
	if got := mustLoad(t, full); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLoadDefaults(t *testing.T) {
	s := mustLoad(t, minimal)
	if s.Spec.Cluster != nil {
		t.Errorf("cluster = %+v, want none", s.Spec.Cluster)
	}
	want := leak.SubjectSpec{Command: []string{"./server"}, Pprof: "/debug/pprof", Ready: "/healthz", ReadyTimeout: leak.Duration(time.Minute)}
	if !reflect.DeepEqual(s.Spec.Subject, want) {
		t.Errorf("subject = %+v", s.Spec.Subject)
	}
	if s.Spec.Rounds != 7 || s.Spec.Warmup.Rounds != 1 {
		t.Errorf("rounds %d, warmup %d, want 7 and 1", s.Spec.Rounds, s.Spec.Warmup.Rounds)
	}
	if want := (leak.SettleSpec{Quiet: leak.Duration(time.Second), Timeout: leak.Duration(30 * time.Second)}); s.Spec.Settle != want {
		t.Errorf("settle = %+v", s.Spec.Settle)
	}

	s = mustLoad(t, minimal+"  cluster: {}\n  warmup: {}\n")
	if want := (&leak.ClusterSpec{Providers: []string{"kind", "embedded"}, Nodes: 1}); !reflect.DeepEqual(s.Spec.Cluster, want) {
		t.Errorf("cluster = %+v", s.Spec.Cluster)
	}
	if s.Spec.Warmup.Rounds != 1 {
		t.Errorf("warmup: {} is %d rounds, want 1", s.Spec.Warmup.Rounds)
	}
}

// withShapes returns a scenario whose action is a shapes block with these settings, from line 9 on.
func withShapes(settings ...string) string {
	block := "round:\n    - shapes:\n        " + strings.Join(settings, "\n        ")
	return strings.Replace(minimal, "round: [post: {path: /}]", block, 1)
}

func TestLoadShapes(t *testing.T) {
	s := mustLoad(t, withShapes(
		"timeout: 3s", "flag: True", "share: 1", "small: -128", "maybe: 0", "words: [x]",
		"steps: [{do: &again it, times: 255}, {do: *again}]", "counts: {y: 2}", "first: {do: this}", "bounds: [1, 2KiB, '3']"))
	maybe := 0
	want := &shapes{
		limits: limits{leak.Duration(3 * time.Second)}, Flag: true, Share: 1, Small: -128, Maybe: &maybe, Words: []string{"x"},
		Steps: []step{{"it", 255}, {Do: "it"}}, Counts: map[string]int{"y": 2}, First: &step{Do: "this"}, Bounds: []leak.Quantity{1, 2048, 3},
	}
	if got := s.Spec.Round[0].Value; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	// Settings that a file omits keep the kind's defaults.
	if got := mustLoad(t, withShapes("flag: true")).Spec.Round[0].Value.(*shapes); got.Share != 0.5 || len(got.Words) != 2 || got.Maybe != nil {
		t.Errorf("defaults: got %+v", got)
	}
}

func TestErrorTypes(t *testing.T) {
	s, err := load("a: b")
	var usage *leak.UsageError
	var problems Problems
	if s != nil || !errors.As(err, &usage) || !errors.As(err, &problems) {
		t.Fatalf("got %v and %T: want no scenario, and an error that is a UsageError and holds Problems", s, err)
	}
	if first := problems[0]; first.File != "f" || first.Line != 1 || first.Column != 1 {
		t.Errorf("first problem: %+v", first)
	}
}

func TestSeveralProblemsAtOnce(t *testing.T) {
	_, err := load(`apiVersion: v1
kind: Scenario
metadata:
  name: Several
spec:
  subject: {build: server, prot: 80}
  variants:
    - name: leaky
      expect: leaking
      fingerprint: [recieve]
  rounds: many
  round:
    - post: {times: 0}
  probes: [gorutine]
  checks:
    - growth: {probe: heap, maxPerOp: 1 KiB, max: 3}
    - stack: {name: receive}
`)
	want := `f:1:13: apiVersion: "v1" is not supported
  hint: write apiVersion: leakrig.dev/v1
f:4:9: metadata.name: "Several" is not a name
  hint: lower-case letters, digits and dashes, for example watch-then-delete
f:6:28: spec.subject.prot: unknown key
  hint: did you mean port?
f:10:21: spec.variants[0].fingerprint[0]: no check is named "recieve"
  hint: did you mean receive?
f:11:11: spec.rounds: expected an integer, found the text "many"
  hint: for example rounds: 10
f:13:7: spec.round[0].post.path: is missing
  hint: for example path: /
f:13:21: spec.round[0].post.times: 0 is not positive
f:14:12: spec.probes[0].gorutine: unknown kind of probe
  hint: did you mean goroutine?
f:16:46: spec.checks[0].growth.max: unknown key
  hint: keys: probe, metric, maxPerOp, name`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestNoProblemsThatFollow checks that a misspelt key is only one problem. Load must not also report that the correct
// key and its contents are missing.
func TestNoProblemsThatFollow(t *testing.T) {
	_, err := load(strings.Replace(full, "\nspec:", "\nspce:", 1))
	if want := "f:7:1: spce: unknown key\n  hint: did you mean spec?"; err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
