package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestTiers(t *testing.T) {
	all := func(names ...string) map[string]bool {
		m := map[string]bool{}
		for _, n := range names {
			m[module+"/"+n] = true
		}
		return m
	}
	packages := all("checks", "cluster", "cluster/nodeimage", "internal/affected", "internal/e2e", "cmd/leakrig")
	imported := all("checks", "cluster", "cluster/nodeimage", "internal/e2e", "cmd/leakrig")
	for _, c := range []struct{ changed, want string }{
		{"CHANGELOG.md docs/decisions/0001-x.md .github/workflows/push.yml", ""},
		{"internal/affected/main.go", ""}, // no test of the tier imports it
		{"checks/growth.go", "embedded"},
		{"cmd/leakrig/testdata/script/usage.txtar", "embedded"},
		{"cluster/kind.go", "embedded kind"},
		{"cluster/nodeimage/files/config.toml", "embedded kind"},
		{"internal/e2e/kind_test.go", "embedded kind"},
		{"subjects/watch-then-delete/main.go", "embedded"},
		{"subjects/exec-target/main.go", "embedded kind"},
		{"README.md", "embedded"}, // the tier runs its sessions
		{"deploy/cronjob.yaml", "embedded kind"},
	} {
		got := slices.Sorted(maps.Keys(tiers(strings.Fields(c.changed), packages, imported)))
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s affects %v, want %s", c.changed, got, c.want)
		}
	}
}

// TestImports checks that the packages named in embeddedPackages exist, and that they import every package of
// leakrig.
func TestImports(t *testing.T) {
	t.Chdir("../..")
	imported, err := lines("go", append([]string{"list", "-deps", "-test", "-tags", "e2e slow", "-f", "{{.ImportPath}}"}, embeddedPackages...)...)
	if err != nil {
		t.Fatal(err)
	}
	all := set(imported)
	for _, want := range []string{"leak", "stats", "checks", "cluster/nodeimage", "internal/docs"} {
		if !all[module+"/"+want] {
			t.Errorf("%s affects no test", want)
		}
	}
}
