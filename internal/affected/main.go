// Command affected prints the test tiers that the changes since a commit can affect, one per line. For each tier it
// prints the first changed file that affects it to standard error:
//
//	go run ./internal/affected COMMIT
//
// The tier embedded runs leakrig. A change affects it if a package of the tier, or leakrig, transitively imports the
// changed package. The tier kind takes 25 minutes, and cluster imports almost every package. So only changes of
// cluster and of its tests affect it, and one kind test runs on every change.
package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

const module = "github.com/leakrig/leakrig"

// embeddedPackages are the packages with tests in the tier embedded. internal/test.sh runs them.
var embeddedPackages = []string{"./cmd/leakrig", "./internal/e2e", "./cluster", "./cluster/upstream", "./load", "./profiles"}

// inert are prefixes of files that no test beyond `make test` reads.
var inert = []string{"CHANGELOG.md", "LICENSE", "SECURITY.md", ".github/", ".git", ".golangci.yml", "docs/decisions/", "docs/images/", "internal/tools/"}

// onKind are prefixes of files that only the tier kind depends on: tests, and files outside Go packages.
var onKind = []string{"cluster/", "deploy/", "subjects/exec-target/", "internal/e2e/kind_", "internal/e2e/parallel_exec_", ".ci/", "go.mod"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/affected COMMIT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "affected: %v\n", err)
		os.Exit(1)
	}
}

func run(base string) error {
	changed, err := lines("git", "diff", "--name-only", base, "--")
	if err != nil {
		return err
	}
	imported, err := lines("go", append([]string{"list", "-deps", "-test", "-tags", "e2e slow", "-f", "{{.ImportPath}}"}, embeddedPackages...)...)
	if err != nil {
		return err
	}
	folders, err := lines("go", "list", "-tags", "e2e slow", "-f", "{{.ImportPath}}", "./...")
	if err != nil {
		return err
	}
	why := tiers(changed, set(folders), set(imported))
	for _, tier := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(os.Stderr, "affected: %s, by %s\n", tier, why[tier])
		fmt.Println(tier)
	}
	return nil
}

// tiers returns the affected tiers, each with the first file that affects it. packages are the import paths of the
// root module, and imported those that the tier embedded depends on.
func tiers(changed []string, packages, imported map[string]bool) map[string]string {
	why := map[string]string{}
	affects := func(tier, file string) {
		if why[tier] == "" {
			why[tier] = file
		}
	}
	for _, file := range changed {
		if hasPrefix(file, onKind) {
			affects("kind", file)
		}
		owner := packageOf(file, packages)
		switch {
		case hasPrefix(file, inert):
		case owner == "" || imported[owner]: // a file without a package is a subject, a page with sessions, or a script
			affects("embedded", file)
		}
	}
	return why
}

// packageOf returns the import path of the innermost package of the root module whose folder contains the file,
// directly or below it. It returns "" if there are none.
func packageOf(file string, packages map[string]bool) string {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if p := module + "/" + dir; packages[p] {
			return p
		}
	}
	return ""
}

func hasPrefix(file string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(file, p) })
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		name, _, _ = strings.Cut(name, " ") // drop the name of the test binary that a package was compiled for
		all[name] = true
	}
	return all
}

func lines(name string, args ...string) ([]string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return strings.Fields(strings.ReplaceAll(string(out), " [", "\n[")), nil
}
