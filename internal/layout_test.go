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

// rows are the layers of packages, top layer first. A package may import packages of lower layers, but not of the
// same layer.
var rows = [][]string{
	{"cmd/leakrig"},
	{"bisect", "fleet", "compare", "scaffold", "leaktest"},
	{"session"},
	{"scenarios", "subjects", "runner", "cluster", "load", "faults", "profiles", "checks", "reports", "terminal"},
	{"cluster/component", "cluster/subjectpod", "cluster/workers", "cluster/fleetpods"},
	{"cluster/binaries", "cluster/nodeimage", "cluster/node", "cluster/apiserver", "cluster/images"},
	{"cluster/engine", "cluster/tarfile"},
	{"cluster/upstream", "cluster/journal", "packed"},
	{"holders"},
	{"rundir", "leak/httpclient", "catalogue"},
	{"leak"},
	{"leak/display", "stats", "leak/group", "leak/procs", "holders/heapdump"},
}

// guests are heavy dependencies, with the folders that may import them. Kubernetes' own libraries have two: cluster
// boots and reads clusters, and load talks to their API servers. Both hide the libraries behind the types of package
// leak.
var guests = map[string][]string{
	"gopkg.in/yaml.v3":                       {"scenarios", "catalogue"},
	"github.com/google/pprof":                {"profiles"},
	"github.com/prometheus/":                 {"fleet"},
	"github.com/spf13/":                      {"cmd/leakrig"},
	"k8s.io/":                                {"cluster", "load"},
	"sigs.k8s.io/":                           {"cluster"},
	"github.com/google/go-containerregistry": {"cluster"},
	"github.com/Shopify/toxiproxy":           {"faults"},
	"github.com/rs/zerolog":                  {"faults"},
	"github.com/HdrHistogram":                {"load"},
	"golang.org/x/mod":                       {"cluster/upstream", "cluster/binaries", "bisect", "session", "catalogue"},
	"golang.org/x/sync":                      {"session"},
	"golang.org/x/term":                      {"terminal"},
	"golang.org/x/tools/txtar":               {"packed"},
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
				continue // the standard library, or packages of this module, which TestArrowsPointDown checks
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

// TestSubjectsAreModules checks that every subject's folder has a go.mod. Without it, the subject would silently join
// the root module and be built with its versions.
func TestSubjectsAreModules(t *testing.T) {
	for _, file := range subjectFiles(t, "*.go") {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "go.mod")); err != nil {
			t.Errorf("%s: %v", filepath.Dir(file), err)
		}
	}
}

// TestModfilesHaveSums checks that every modfile that needs sums has them.
func TestModfilesHaveSums(t *testing.T) {
	for _, mod := range subjectFiles(t, "*.mod") {
		data, err := os.ReadFile(mod)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(strings.TrimSuffix(mod, ".mod") + ".sum"); err != nil && strings.Contains(string(data), "k8s.io/") {
			t.Errorf("%s: %v", mod, err)
		}
	}
}

// subjectFiles lists the files of all subjects, those in groups included.
func subjectFiles(t *testing.T, pattern string) []string {
	t.Helper()
	var files []string
	for _, folder := range []string{"../subjects/*", "../subjects/museum/*"} {
		matches, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(matches) == 0 {
			t.Fatalf("no %s in %s: %v", pattern, folder, err)
		}
		files = append(files, matches...)
	}
	return files
}
