// Package internal holds tests of the checkout as a whole.
package internal

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/leakrig/leakrig"

// rows is the picture of the packages, top row first: each may import the rows below it, but not its own row.
var rows = [][]string{
	{"cmd/leakrig"},
	{"fleet"},
	{"scenarios", "subjects", "runner", "cluster", "load", "profiles", "checks", "reports", "bisect"},
	{"cluster/nodeimage"},
	{"cluster/upstream", "cluster/journal"},
	{"leak", "stats", "leak/group", "leak/procs"},
}

// guests are heavy dependencies and the folders that each lives in: one, but for Kubernetes' own
// libraries. cluster boots and reads clusters with them, load talks to their API servers; both keep them
// behind the types of package leak.
var guests = map[string][]string{
	"gopkg.in/yaml.v3":                       {"scenarios"},
	"github.com/google/pprof":                {"profiles"},
	"github.com/prometheus/":                 {"fleet"},
	"github.com/spf13/":                      {"cmd/leakrig"},
	"k8s.io/":                                {"cluster", "load"},
	"sigs.k8s.io/":                           {"cluster"},
	"github.com/google/go-containerregistry": {"cluster"},
	"github.com/HdrHistogram":                {"load"},
	"golang.org/x/mod":                       {"cluster/upstream", "bisect"},
	"golang.org/x/sync":                      {"cmd/leakrig"},
	"golang.org/x/term":                      {"cmd/leakrig"},
	"github.com/go-logr/logr":                {"cluster"},
	"github.com/chromedp":                    {"internal/e2e"},
	"github.com/rogpeppe":                    {"cmd/leakrig"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module+"/")] = p.Imports
	}
}

func TestArrowsPointDown(t *testing.T) {
	row := map[string]int{}
	for i, packages := range rows {
		for _, p := range packages {
			row[p] = i
		}
	}
	for name, imports := range packages(t) {
		if strings.HasPrefix(name, "internal") || name == module {
			continue
		}
		from, ok := row[name]
		if !ok {
			t.Errorf("%s stands in no row of the picture", name)
			continue
		}
		for _, imported := range imports {
			if to, ok := row[strings.TrimPrefix(imported, module+"/")]; ok && to <= from {
				t.Errorf("%s imports %s, which does not stand below it", name, imported)
			}
		}
	}
}

func TestGuestsStayAtHome(t *testing.T) {
	for name, imports := range packages(t) {
		for _, imported := range imports {
			first, _, _ := strings.Cut(imported, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(imported, module+"/") {
				continue // the standard library; our own, which rows looks at
			}
			homes := homesOf(imported)
			if len(homes) == 0 {
				t.Errorf("%s imports %s, which has no home among the guests", name, imported)
			} else if !slices.ContainsFunc(homes, func(home string) bool { return home == name || strings.HasPrefix(name, home+"/") }) {
				t.Errorf("%s imports %s, which lives in %s", name, imported, strings.Join(homes, " and "))
			}
		}
	}
}

func homesOf(imported string) []string {
	for prefix, homes := range guests {
		if strings.HasPrefix(imported, prefix) {
			return homes
		}
	}
	return nil
}

// A subject's folder without a go.mod would join the root module in silence, and be built with the
// root's versions.
func TestSubjectsAreModules(t *testing.T) {
	mains, err := filepath.Glob("../subjects/*/*.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("no subjects: %v", err)
	}
	for _, file := range mains {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "go.mod")); err != nil {
			t.Errorf("%s: %v", filepath.Dir(file), err)
		}
	}
}

// Every modfile has its sums, or needs none.
func TestModfilesHaveSums(t *testing.T) {
	mods, err := filepath.Glob("../subjects/*/*.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, mod := range mods {
		data, err := os.ReadFile(mod)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(strings.TrimSuffix(mod, ".mod") + ".sum"); err != nil && strings.Contains(string(data), "k8s.io/") {
			t.Errorf("%s: %v", mod, err)
		}
	}
}
