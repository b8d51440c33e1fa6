package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
)

// TestAttackScripts checks that attempts to get an undeserved pass, or to read private data, fail.
func TestAttackScripts(t *testing.T) {
	for _, name := range []string{"secrets", "words", "bearer", "observe", "seals", "unsealed", "left", "restart"} {
		if _, err := os.Stat(filepath.Join("testdata/attacks", name+".txtar")); err != nil {
			t.Error(err)
		}
	}
	runScripts(t, "testdata/attacks")
}

// TestAttackEveryWord checks for every word of a scenario as a secret that the stored scenario is valid and nearly
// the same.
func TestAttackEveryWord(t *testing.T) {
	shape := func(s *leak.Scenario) string {
		text := fmt.Sprint(s.Metadata.Name, s.Spec.Rounds, s.Spec.Operation, s.Spec.Settle, s.Spec.Cluster, s.Spec.Subject.Build)
		for _, v := range s.Spec.Variants {
			text += fmt.Sprint(v.Name, v.Modfile, v.Expect, v.Fingerprint)
		}
		for _, p := range s.Spec.AllProbes() {
			text += p.Name
		}
		for _, c := range s.Spec.Checks {
			config, err := json.Marshal(c.Value)
			if err != nil {
				t.Fatal(err)
			}
			text += c.Kind + c.Name + string(config)
		}
		for _, a := range s.Spec.Round {
			text += a.Kind + a.Name
		}
		return text
	}
	tried := 0
	for _, name := range scenarios.Names() {
		src, s, err := session.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		words := regexp.MustCompile(`\w[\w.-]{3,}`).FindAllString(string(src.Data), -1)
		slices.Sort(words)
		for _, word := range slices.Compact(words) {
			kept, err := scenarios.Keep(src, rundir.Secrets{word})
			if err != nil {
				t.Fatalf("%s: %s: %v", name, word, err)
			}
			got, err := scenarios.Load(scenarios.Source{Name: name, Data: kept.Text, Set: kept.Parameters, Recorded: true, Files: src.Files}, session.Kinds())
			if err != nil {
				t.Errorf("%s: without %q it cannot be read: %v", name, word, err)
			} else if shape(got) != shape(s) {
				t.Errorf("%s: without %q it is another one:\n%s\n%s", name, word, shape(got), shape(s))
			}
			tried++
		}
	}
	if tried < 500 {
		t.Errorf("%d words were tried", tried)
	}
}

// searches TEXT PATH... fails where a file, or one below a folder, holds a text, unpacked if it is compressed.
func searches(ts *testscript.TestScript, _ bool, args []string) {
	files := 0
	for _, name := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Type()&fs.ModeSymlink != 0 { // latest is the newest run
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
				if data, err = io.ReadAll(z); err != nil {
					return err
				}
			}
			if at := bytes.Index(data, []byte(args[0])); at >= 0 {
				ts.Fatalf("%s holds %q", path, data[max(0, at-60):min(len(data), at+60)])
			}
			return nil
		}))
	}
	if files == 0 {
		ts.Fatalf("there is nothing to search")
	}
}
