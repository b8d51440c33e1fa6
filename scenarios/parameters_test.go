package scenarios

import (
	"maps"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

const sized = `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: sized, description: with $(nodes) nodes}
spec:
  parameters: {nodes: 20, posts: 5, app: web}
  subject: {command: [./server, -nodes=$(nodes)], env: {PRICE: $$(nodes)}}
  variants: [{name: only, expect: clean}]
  round: [{post: {path: "/$(app)/$(nodes)/{{.Op}}", times: $(posts)}}]
  probes: [goroutine]
  checks: [{delta: {probe: goroutine, max: 10}}]
`

func loadWith(text string, set map[string]string) (*leak.Scenario, error) {
	return Load(Source{Name: "f.yaml", Data: []byte(text), Set: set}, fakeKinds())
}

func TestParameters(t *testing.T) {
	for name, tt := range map[string]struct {
		set                      map[string]string
		description, path, nodes string
		times                    int
	}{
		"defaults": {nil, "with 20 nodes", "/web/20/{{.Op}}", "-nodes=20", 5},
		"set":      {map[string]string{"nodes": "3000", "posts": "2", "app": "a: [b"}, "with 3000 nodes", "/a: [b/3000/{{.Op}}", "-nodes=3000", 2},
	} {
		s, err := loadWith(sized, tt.set)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p := s.Spec.Round[0].Value.(*post)
		if s.Metadata.Description != tt.description || p.Path != tt.path || p.Times != tt.times || s.Spec.Subject.Command[1] != tt.nodes {
			t.Errorf("%s: %q, %+v, %q", name, s.Metadata.Description, p, s.Spec.Subject.Command)
		}
		if got := s.Spec.Subject.Env["PRICE"]; got != "$(nodes)" {
			t.Errorf("%s: two dollars became %q", name, got)
		}
		want := map[string]string{"nodes": "20", "posts": "5", "app": "web"}
		maps.Copy(want, tt.set)
		if !maps.Equal(s.Spec.Parameters, want) {
			t.Errorf("%s: the parameters are %v", name, s.Spec.Parameters)
		}
	}
}

func TestParameterProblems(t *testing.T) {
	for _, tt := range []struct {
		comment, old, new string
		set               map[string]string
		want              string
	}{
		{
			"a misspelt reference", "-nodes=$(nodes)", "-nodes=$(nodse)", nil,
			`6:33: no parameter is named "nodse" | did you mean nodes?; $$(…) is not a parameter`,
		},
		{
			"no longer used", "times: $(posts)", "times: 1", nil,
			"5:34: spec.parameters.posts: is not used | write $(posts) where its value belongs, or remove it",
		},
		{
			"not a name", "app: web", "App: web", nil,
			`5:37: spec.parameters.App: "App" is not the name of a parameter | a small letter, then letters and digits, for example nodes` + "\n" +
				`8:25: no parameter is named "app" | parameters: nodes, posts; $$(…) is not a parameter`,
		},
		{"no value", "app: web", "app: ~", nil, "5:42: spec.parameters.app: has no value | leave it out, or give it a value"},
		{"a list", "{nodes: 20, posts: 5, app: web}", "[nodes]", nil, "expected a map of text"},
		{
			"a value of the wrong type", "", "",
			map[string]string{"posts": "many"},
			`8:60: spec.round[0].post.times: expected an integer, found the text "many" | for example times: 10`,
		},
		{"a value that is out of bounds", "", "", map[string]string{"posts": "0"}, "8:60: spec.round[0].post.times: 0 is not positive"},
		{"an unknown one is set", "", "", map[string]string{"nodse": "1"}, `f.yaml has no parameter named "nodse"`},
		{"a value without end", "", "", map[string]string{"app": strings.Repeat("x", 1001)}, "more than 1000 bytes"},
		{"a default without end", "app: web", "app: " + strings.Repeat("x", 1001), nil, "5:42: spec.parameters.app: has more than 1000 bytes"},
		{
			"references without end", "with $(nodes) nodes", strings.Repeat("$(app)", 10_000),
			map[string]string{"app": strings.Repeat("x", 1000)},
			"more than 20000 values or 2 MiB",
		},
	} {
		_, err := loadWith(strings.Replace(sized, tt.old, tt.new, 1), tt.set)
		if got := brief(err); !strings.Contains(got, tt.want) {
			t.Errorf("%s:\n got %s\nwant %s", tt.comment, got, tt.want)
		}
	}
	_, err := loadWith(sized, map[string]string{"nodse": "1"})
	if got := leak.Hint(err); got != "did you mean nodes?" {
		t.Errorf("hint: %q", got)
	}
}
