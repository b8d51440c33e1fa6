package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// elsewhere are commands that take minutes, or a container engine: tests against real parts have them.
var elsewhere = []string{"leakrig node-image build", "leakrig selfcheck", "leakrig worker"}

// Every command has a script that ends well, and one that shows what it says to bad usage: exit code 2.
func TestEveryCommandHasItsScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		path := c.CommandPath()
		if c.HasSubCommands() || path == "leakrig completion powershell" {
			return
		}
		if !strings.Contains(scripts.String(), "exits 2 "+path) {
			t.Errorf("no script has bad usage of %s: exits 2 %[1]s", path)
		}
		if !strings.Contains(scripts.String(), "exec "+path) && !strings.Contains(scripts.String(), "exits 0 "+path) && !slices.Contains(elsewhere, path) {
			t.Errorf("no script has %s end well", path)
		}
	}
	walk((&app{}).command())
}

// TestHelp checks that the flags of every command are documented, and that their values are not listed twice.
func TestHelp(t *testing.T) {
	run := (&app{}).runCommand()
	usage := run.UsageString()
	for _, want := range []string{"--cluster word", "provider of the cluster: auto, kind, embedded, existing (default auto)", "--placement word", "output format: text, "} {
		if !strings.Contains(usage, want) {
			t.Errorf("no %q in\n%s", want, usage)
		}
	}
}
