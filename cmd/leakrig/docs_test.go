package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
		if _, _, err := open(file, nil); err != nil {
			t.Errorf("example %d: %v\n%s", i+1, err, block[1])
		}
	}
	for _, k := range kinds().Actions {
		if !shown[k.Name] {
			t.Errorf("%s has no example", k.Name)
		}
	}
}
