//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/leakrig/leakrig/internal/docs"
)

// TestSessionsOfTheDocs runs the pages in docs whose sessions need a real part other than kind. It runs all sessions
// of these pages. Tests of cmd/leakrig run the sessions that need no real part, and TestWatchThenDelete runs those of
// README.
func TestSessionsOfTheDocs(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		if needs := page.Needs(); len(needs) > 0 && !slices.Contains(needs, "kind") && page.Path != "README.md" {
			t.Run(filepath.Base(page.Path), func(t *testing.T) { runPage(t, page.Path) })
		}
	}
}

// TestKindSessionsOfTheDocs runs the pages in docs that need a kind cluster.
func TestKindSessionsOfTheDocs(t *testing.T) {
	needsKind(t)
	for _, page := range pages(t) {
		if slices.Contains(page.Needs(), "kind") {
			t.Run(filepath.Base(page.Path), func(t *testing.T) { runPage(t, page.Path) })
		}
	}
}

func pages(t *testing.T) []docs.Page {
	t.Helper()
	all, err := docs.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// runPage runs the commands of a page, and reports the real parts that it needs as met.
func runPage(t *testing.T, path string) {
	t.Helper()
	all := pages(t)
	i := slices.IndexFunc(all, func(p docs.Page) bool { return p.Path == path })
	if i < 0 {
		t.Fatalf("no page %s", path)
	}
	for _, need := range all[i].Needs() {
		if !slices.Contains([]string{"kube-apiserver", "module proxy", "kind"}, need) {
			t.Fatalf("%s: no test provides %q", path, need)
		}
	}
	setenv(t, "PATH", filepath.Dir(leakrig)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	r := docs.Runner{Dir: t.TempDir(), Checkout: root, Has: func(string) bool { return true }, Env: append(environ(t), "LEAKRIG="+root)}
	if _, err := r.Run(t.Context(), all[i]); err != nil {
		t.Fatal(err)
	}
	for _, need := range all[i].Needs() {
		met(need)
	}
}
