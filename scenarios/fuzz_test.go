package scenarios

import (
	"errors"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// FuzzLoad checks Load with any input. Load returns either a scenario or problems, never both and never neither.
// Every problem has a position and is on one line.
func FuzzLoad(f *testing.F) {
	for _, name := range Names() {
		src, err := Find(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src.Data)
	}
	for _, text := range []string{
		full, minimal,
		withShapes("timeout: 3s", "flag: True", "share: 1e3", "maybe: 0", "steps: [{do: &a it}, {do: *a}]", "counts: {y: 2}", "bounds: [1, '3']"),
		"", "---\n", "a: &a [*a]", "a: 1\n---\nb: 2", "a:\n\tb", "<<: {a: b}", "? [a]\n: b", "a: !!binary aGk=", "a: *b", "%YAML 1.2\n---\nspec: [",
		"spec: {checks: [delta, {growth: }, {stack: {name: 1}}, 12, []], variants: [~], round: post}",
		"spec: {round: [post: {path: /whole, times: 0x1}], settle: {quiet: 1e99h}}",
	} {
		f.Add([]byte(text))
	}
	kinds := fakeKinds()
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Load(Source{Name: "f", Data: data}, kinds)
		if err == nil {
			if s == nil || s.APIVersion != leak.APIVersion || len(s.Spec.Checks) == 0 {
				t.Fatalf("no error, and the scenario %+v", s)
			}
			return
		}
		var problems Problems
		if s != nil || !errors.As(err, &problems) || len(problems) == 0 || len(problems) > maxProblems {
			t.Fatalf("scenario %v, error %T with %d problems", s, err, len(problems))
		}
		lines := 0
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("incomplete: %+v", p)
			}
			lines += 1 + min(1, len(p.Hint))
		}
		if got := strings.Count(err.Error(), "\n") + 1; got != lines {
			t.Errorf("%d lines, want %d:\n%v", got, lines, err)
		}
	})
}
