package internal

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// screen is the number of lines on a screen.
const screen = 50

// TestContributing checks that the code in CONTRIBUTING.md compiles in the package that it names. It also checks that
// every named file exists, and that each recipe fits on a screen.
func TestContributing(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]string{}
	folders := map[string]string{"load": "load", "profiles": "profiles", "checks": "checks", "cluster": "cluster", "main": "subjects/exec-target"}
	vetted := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)```go\npackage (\\w+)\n.*?```").FindAllStringSubmatch(string(text), -1) {
		folder := folders[m[1]]
		if folder == "" || vetted[folder] {
			t.Fatalf("package %s: not expected, or twice", m[1])
		}
		vetted[folder] = true
		name := "contributed.go"
		if m[1] == "main" {
			name = "main.go"
		}
		code := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(code, []byte(strings.TrimSuffix(strings.TrimPrefix(m[0], "```go\n"), "```")), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(root, folder, name)] = code
		if out, err := exec.Command("gofmt", "-l", code).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("package %s is not formatted: %s %v", m[1], out, err)
		}
	}
	if len(vetted) != len(folders) {
		t.Errorf("examples for %v", vetted)
	}
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for folder := range vetted {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-overlay", file, "-o", os.DevNull, ".")
		cmd.Dir = filepath.Join(root, folder)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
	}

	example := regexp.MustCompile(`^(load/get|profiles/maps|checks/least|cluster/remote)`)
	for _, m := range regexp.MustCompile("(?:`|\\()([a-z0-9_/.-]+/[a-z0-9_.-]+)(?:`|\\))").FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && !example.MatchString(m[1]) && !strings.HasPrefix(m[1], "../") && !strings.HasPrefix(m[1], "bin/") {
			t.Error(err)
		}
	}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		if n := strings.Count(section, "\n"); n > screen {
			t.Errorf("%q has %d lines", title, n)
		}
	}
	for _, want := range []string{"action", "probe", "check", "provider", "scenario", "subject"} {
		if !regexp.MustCompile(`(?m)^## Add an? ` + want + `$`).Match(text) {
			t.Errorf("no section explains how to add a %s", want)
		}
	}
}
