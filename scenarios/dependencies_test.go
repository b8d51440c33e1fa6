package scenarios

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// trip is a fault of something.
type trip struct {
	noRun
	Name   string   `yaml:"of,omitempty" doc:"what it trips"`
	Action []string `yaml:"during" doc:"when"`
}

func (t *trip) During() []string { return t.Action }
func (t *trip) Of() (string, bool) {
	return t.Name, true
}

func (*trip) Begin(context.Context, leak.Target) (leak.Injection, error) { return nil, nil }

const dependent = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: dependent}
spec:
  parameters: {size: 5}
  subject: {command: [./server, -port=$(port), -to=$(backend.addr)], env: {HOST: $(backend.host), SIZE: $(size)}}
  dependencies:
    - {name: backend, build: exec-target, args: [-listen=$(port), -size=$(size)], ready: /healthz}
    - {name: cache, command: [redis-server], env: {TO: $(backend.addr)}}
  variants: [{name: only, args: [-cache=$(cache.addr)], expect: clean}]
  round:
    - post: {path: /}
    - trip: {of: backend, during: [post]}
  probes: [goroutine]
  checks: [{delta: {probe: goroutine, max: 10}}]
`

func TestDependencies(t *testing.T) {
	kinds := fakeKinds()
	kinds.Actions = append(kinds.Actions, leak.Kind[leak.Action]{Name: "trip", New: func() leak.Action { return &trip{} }})
	loaded := func(text string) (*leak.Scenario, error) {
		return Load(Source{Name: "f.yaml", Data: []byte(text)}, kinds)
	}
	s, err := loaded(dependent)
	if err != nil {
		t.Fatal(err)
	}
	d := s.Spec.Dependencies
	if d[0].Args[0] != "-listen=$(port)" || d[0].Args[1] != "-size=5" || d[1].Env["TO"] != "$(backend.addr)" || d[0].ReadyTimeout.D() != time.Minute {
		t.Errorf("%+v", d)
	}
	if s.Spec.Subject.Command[2] != "-to=$(backend.addr)" || s.Spec.Subject.Env["HOST"] != "$(backend.host)" || s.Spec.Variants[0].Args[0] != "-cache=$(cache.addr)" {
		t.Errorf("%+v", s.Spec.Subject)
	}
	for _, row := range []struct{ comment, old, new, want string }{
		{"an address of nothing", "$(cache.addr)", "$(queue.addr)", `no parameter is named "queue.addr"`},
		{"an address in the load", "path: /", "path: /$(backend.addr)", `no parameter is named "backend.addr"`},
		{"a port in the load", "path: /", "path: /$(port)", `no parameter is named "port"`},
		{"no program", "build: exec-target, ", "", "exactly one of build, command and address is needed"},
		{"two programs", "command: [redis-server]", "command: [a], address: 'b:1'", "exactly one of build, command and address is needed"},
		{"an empty command", "command: [redis-server]", "command: []", "names no program"},
		{"no address", "command: [redis-server]", "address: redis", `"redis" is not an address`},
		{"an API server without a cluster", "command: [redis-server]", "address: kube-apiserver", "the scenario has no cluster"},
		{"two of one name", "name: cache", "name: backend", "is taken by an earlier dependency"},
		{"a reserved name", "name: cache", "name: subject", "is reserved"},
		{"a fault of nothing", "of: backend", "of: queue", `no dependency is named "queue"`},
		{"a fault of an API server without a cluster", "of: backend", "of: kube-apiserver", "the scenario has no cluster"},
		{"a path as modfile", "build: exec-target", "build: exec-target, modfile: a/b.mod", "is not the name of a modfile"},
		{"a relative path", "build: exec-target", "build: a/b", "is neither a name nor a relative path"},
		{"a path of readiness", "ready: /healthz", "ready: healthz", "ready"},
		{"a port", "ready: /healthz", "port: 70000", "70000 is not between"},
		{"no time", "ready: /healthz", "readyTimeout: 0s", "is not positive"},
	} {
		text := strings.Replace(dependent, row.old, row.new, 1)
		if text == dependent {
			t.Fatalf("%s: nothing replaced", row.comment)
		}
		if _, err := loaded(text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", row.comment, err, row.want)
		}
	}
	if s, err := loaded(strings.Replace(dependent, "spec:\n", "spec:\n  cluster: {}\n", 1) + ""); err != nil || s.Spec.Cluster == nil {
		t.Error(err)
	}
	if _, err := loaded(strings.NewReplacer("spec:\n", "spec:\n  cluster: {}\n", "of: backend", "of: kube-apiserver").Replace(dependent)); err != nil {
		t.Error(err)
	}
}
