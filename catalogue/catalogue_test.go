package catalogue

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/leakrig/leakrig/scenarios"
)

func TestLibrary(t *testing.T) {
	t.Parallel()
	entries, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	leaks := 0
	for _, e := range entries {
		if seen[e.ID] {
			t.Errorf("%s is there twice", e.ID)
		}
		seen[e.ID] = true
		if e.Leak() {
			leaks++
		}
		if e.Scenario != "" && !slices.Contains(scenarios.Names(), e.Scenario) {
			t.Errorf("%s: the library has no scenario %s", e.ID, e.Scenario)
		}
		for _, s := range e.Stacks {
			for _, expr := range append(s.Callers, s.Match) {
				if !strings.HasPrefix(expr, "^") {
					t.Errorf("%s: %s does not start with ^: a fork has the same end", e.ID, expr)
				}
			}
		}
	}
	if len(entries) < 60 || leaks < 20 {
		t.Errorf("%d entries, %d of them known leaks", len(entries), leaks)
	}
}

const valid = `id: x
title: t
class: goroutine
module: example.com/m
affected: [{fixed: v1.2.0}]
names: v1.1.0
stacks: [{match: '^example\.com/m\.Run$', state: chan send}]
links: [https://example.com/1]
verified: issue
look: l
confirm: c
`

// A wrong entry is an error, and the error says which field is wrong.
func TestInvalid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, now, want string }{
		{"", "", ""},
		{"id: x", "id: y", `id: "y" is not the name of the file`},
		{"title: t", "titel: t", "field titel not found"},
		{"class: goroutine", "class: thread", `class: "thread"`},
		{"module: example.com/m", "module: m m", `module: "m m"`},
		{"affected: [{fixed: v1.2.0}]\n", "", "affected: known leaks in leaks have versions"},
		{"fixed: v1.2.0", "fixed: 1.2", `fixed: "1.2" is not a version`},
		{"fixed: v1.2.0", "introduced: never", `introduced: "never" is not a version`},
		{"names: v1.1.0", "names: v1.2.0", "names: v1.2.0 is not affected"},
		{"names: v1.1.0", "names: latest", `names: "latest" is not a version`},
		{"links: [https://example.com/1]", "links: []", "links are required"},
		{"links: [https://example.com/1]", "links: [example.com/1]", `links: "example.com/1"`},
		{`m\.Run$'`, `m\.(Run$'`, "missing closing )"},
		{"state: chan send", "state: chan send, profile: heap", "heap profiles have none"},
		{"verified: issue", "verified: scenario", "verified: scenario, with a scenario"},
		{"verified: issue", "verified: hearsay", "verified: scenario, with a scenario"},
		{"look: l\n", "", "title, look and confirm are required"},
	} {
		text := strings.Replace(valid, c.old, c.now, 1)
		_, err := load(fstest.MapFS{"leaks/x.yaml": {Data: []byte(text)}})
		if c.want == "" && err != nil {
			t.Error(err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.now, err, c.want)
		}
	}
	pattern := regexp.MustCompile(`(?m)^affected.*\n`).ReplaceAllString(valid, "")
	if _, err := load(fstest.MapFS{"patterns/x.yaml": {Data: []byte(pattern)}}); err == nil || !strings.Contains(err.Error(), "least") {
		t.Errorf("a pattern without the amount that stands out: %v", err)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	e := Entry{Affected: []Range{{Introduced: "v1.2.0", Fixed: "v1.3.5"}, {Introduced: "v1.4.0-rc.1", Fixed: "v1.4.2"}}}
	for version, want := range map[string]string{
		"v1.1.9": "", "v1.2.0": "v1.3.5", "v1.3.4": "v1.3.5", "v1.3.5": "", "v1.4.0-rc.1": "v1.4.2", "v1.4.2": "", "v1.5.0": "",
		"v1.2.1-0.20240101000000-abcdefabcdef": "v1.3.5", // a commit between two releases
	} {
		fixed := ""
		if r := e.affects(version); r != nil {
			fixed = r.Fixed
		}
		if fixed != want {
			t.Errorf("%s: %q, want %q", version, fixed, want)
		}
	}
	if got := e.Fixed(); got != "v1.3.5 and v1.4.2" {
		t.Error(got)
	}
	always := Entry{Affected: []Range{{Introduced: "always"}}}
	if always.affects("v9.0.0") == nil || always.Fixed() != "" {
		t.Error("a leak without a fix is in every version")
	}
}
