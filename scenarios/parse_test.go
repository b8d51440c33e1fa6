package scenarios

import (
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestSyntaxProblems(t *testing.T) {
	const indentation = " | often the indentation, or a quote or bracket that is not closed, near this line"
	for _, row := range []struct{ comment, text, want string }{
		{"nothing", "", "1:1: the file is empty | the README shows a scenario to start from"},
		{"comments alone", "# a\n\n# b\n", "1:1: the file is empty | the README shows a scenario to start from"},
		{"an empty document", "---\n", "1:1: the file is empty | the README shows a scenario to start from"},
		{"null", "null\n", "1:1: the file is empty | the README shows a scenario to start from"},
		{"a list", "\n- a\n", "2:1: expected a mapping, found a list | the README shows a scenario to start from"},
		{"prose", "Dear leakrig", `1:1: expected a mapping, found the text "Dear leakrig" | the README shows a scenario to start from`},
		{"just over 1 MiB", "# " + strings.Repeat("x", maxSize-1), "1:1: larger than 1 MiB | keep request bodies in separate files"},
		{"a picture", "a: 1\nb: \x89PNG", "2:4: not text: a control character or invalid UTF-8 | a scenario is UTF-8 text"},
		{"a control character, after a wide one", "é: \x1b[31m", "1:4: not text: a control character or invalid UTF-8 | a scenario is UTF-8 text"},
		{"two documents", "a: 1\n---\nb: 2\n", "2:1: several documents in one file | put each scenario in a separate file"},
		{"two documents after a separator", "---\na: 1\n---\nb: 2\n", "3:1: several documents in one file | put each scenario in a separate file"},
		{"a second document that is empty", "a: 1\n---\n", "2:1: several documents in one file | put each scenario in a separate file"},
		{"a second document that does not parse", "a: 1\n--- {\n", "2:1: several documents in one file | put each scenario in a separate file"},
		{"text after the end", "a: 1\n...\nb: 2\n", "3:1: did not find expected <document start>" + indentation},
		{"a tab before a key", "a:\n\tb: 1\n", "2:1: a tab in the indentation | YAML indents with spaces"},
		{"a tab after spaces", "a:\n  b: 1\n  \tc: 1\n", "3:3: a tab in the indentation | YAML indents with spaces"},
		{"a key indented too far", "a: 1\n b: 2\n", "2:1: mapping values are not allowed in this context" + indentation},
		{"a key not indented enough", "x: 1\na:\n  b: 1\n c: 2\n", "4:1: did not find expected key" + indentation},
		{"an open bracket", "x: 1\na: [1,\nb: 2\n", "2:1: did not find expected ',' or ']'" + indentation},
		{"a tab in a later text, which is valid", "a: 1\n@b: 2\nc: |\n  x\n \ty\n", "2:1: found character that cannot start any token" + indentation},
		{"an open quote", "x: 1\na: 'b\n", "2:1: found unexpected end of stream" + indentation},
		{"a reserved character", "a: 1\n@b: 2", "2:1: found character that cannot start any token" + indentation},
		{"an alias without its anchor", "a: 1\nb: *c\n", "2:4: unknown anchor 'c' referenced | an alias *name needs an anchor &name before it"},
	} {
		_, err := load(row.text)
		if got := brief(err); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.comment, got, row.want)
		}
	}
}

func TestAliases(t *testing.T) {
	s := mustLoad(t, `apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: aliases, description: &text same}
spec:
  subject: {command: [*text], env: &env {A: *text}}
  variants:
    - {name: a, expect: clean, env: *env}
  round: [&post {post: {path: /}}]
  probes: &probes [goroutine]
  checks: [delta: {probe: goroutine, max: 1}]
`)
	if got := s.Spec.Variants[0].Env["A"]; got != "same" {
		t.Errorf("A = %q", got)
	}
}

// TestAliasProblems checks that a problem below an alias is reported once per use, at the place of the value.
func TestAliasProblems(t *testing.T) {
	_, err := load(strings.Replace(strings.Replace(full, "{A: 0.10}", "*env", 1), "env: {A: 1", "env: &env {A=: 1", 1))
	want := `12:20: spec.subject.env["A="]: "A=" is not the name of a variable | write NAME: value
12:20: spec.variants[1].env["A="]: "A=" is not the name of a variable | write NAME: value`
	if got := brief(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAliasCycle(t *testing.T) {
	for _, row := range []struct{ comment, text, want string }{
		{"a list inside itself", "a: &a [*a]", "1:8: the alias *a stands inside what it refers to | write the value out"},
		{"deeper down", "a: &a\n  b:\n    - c: *a\n", "3:10: the alias *a stands inside what it refers to | write the value out"},
	} {
		_, err := load(row.text)
		if got := brief(err); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.comment, got, row.want)
		}
	}
}

// TestAliasBomb expands each line to ten of the line before: 10^10 values in 400 bytes. The walk must end at its
// budget on any machine.
func TestAliasBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 lol\n")
	for i := 1; i <= 10; i++ {
		aliases := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", ")
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, aliases)
	}
	r := newReport("f")
	root, ok := r.parse([]byte(bomb.String()))
	if !ok {
		t.Fatal(r.problems)
	}
	s := survey{open: map[*yaml.Node]bool{}}
	if s.visit(root) == nil || s.nodes != maxNodes+1 {
		t.Errorf("the walk ended after %d values, want %d", s.nodes, maxNodes+1)
	}
	_, err := load(bomb.String())
	want := "5:45: more than 20000 values or 2 MiB, with aliases written out | a scenario has a few hundred values; is this one?"
	if got := brief(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAliasBombOfText checks that few values can still expand to too much text.
func TestAliasBombOfText(t *testing.T) {
	long := strings.Repeat("x", maxSize/2)
	_, err := load("a: &a " + long + "\nb: [*a, *a, *a, *a, *a]\n")
	want := "2:13: more than 20000 values or 2 MiB, with aliases written out | a scenario has a few hundred values; is this one?"
	if got := brief(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
