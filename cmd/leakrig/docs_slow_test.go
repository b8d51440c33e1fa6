//go:build slow

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/internal/docs"
	"github.com/leakrig/leakrig/session"
)

// Every "$ leakrig" of README and docs is typed, and prints what the page shows. What needs a cluster is
// for the tests against real parts.
func TestSlowSessionsOfTheDocs(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := docs.Find(checkout)
	if err != nil {
		t.Fatal(err)
	}
	goCache, sessions := goEnv(t, "GOCACHE"), 0
	for _, page := range pages {
		before := sessions
		for _, b := range page.Blocks {
			sessions += len(b.Commands())
			if len(b.Commands()) > 0 || b.File != "" || b.Change != "" {
				continue
			}
			for i, line := range b.Lines {
				if regexp.MustCompile(`^(bin/)?leakrig `).MatchString(line) {
					t.Errorf("%s:%d: write \"$ leakrig\", and it is tested", page.Path, b.Line+i)
				}
			}
		}
		if sessions == before {
			continue
		}
		t.Run(filepath.Base(page.Path), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := docs.Runner{Dir: dir, Checkout: checkout, Has: func(string) bool { return false }}
			r.Env = append(os.Environ(), "GOCACHE="+goCache, "LEAKRIG_CACHE="+filepath.Join(dir, ".cache"), "TMPDIR="+t.TempDir(), "LEAKRIG="+checkout)
			if ran, err := r.Run(t.Context(), page); err != nil {
				t.Error(err)
			} else if ran > 0 {
				t.Logf("%d commands", ran)
			}
		})
	}
	if sessions < 15 {
		t.Errorf("only %d commands in all pages", sessions)
	}
}

// Every example of docs/actions.md is a round that loads, and together they show every action.
func TestActionsOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/actions.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile(`(?m)^- (\w+):`).FindAllStringSubmatch(block[1], -1) {
			shown[name[1]] = true
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(block[1], "- "), ":")
		file := filepath.Join(t.TempDir(), "docs.yaml")
		scenario := fmt.Sprintf(`
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: docs}
spec:
  cluster: {}
  subject: {command: [my-service]}
  variants: [{name: only, expect: clean}]
  operation: %s
  probes: [goroutine]
  checks: [delta: {probe: goroutine, max: 10}]
  round:
    %s`, first, strings.ReplaceAll(block[1], "\n", "\n    "))
		if err := os.WriteFile(file, []byte(scenario), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := session.Open(file, nil); err != nil {
			t.Errorf("example %d: %v\n%s", i+1, err, block[1])
		}
	}
	for _, k := range session.Kinds().Actions {
		if !shown[k.Name] {
			t.Errorf("%s has no example", k.Name)
		}
	}
}
