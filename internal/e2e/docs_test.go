//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leakrig/leakrig/internal/docs"
)

// The sessions of README and docs that need a cluster, with all that stands on the same page before and
// after them. Those that need none are tests of cmd/leakrig.
func TestSessionsOfTheDocs(t *testing.T) {
	pages, err := docs.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	needs := map[string]func(*testing.T){"kube-apiserver": func(*testing.T) {}, "module proxy": func(*testing.T) {}, "kind": needsKind}
	for _, page := range pages {
		if len(page.Needs()) == 0 {
			continue
		}
		t.Run(filepath.Base(page.Path), func(t *testing.T) {
			for _, need := range page.Needs() {
				if needs[need] == nil {
					t.Fatalf("%s: nothing is known of the need %q", page.Path, need)
				}
				needs[need](t)
			}
			r := docs.Runner{
				Dir: t.TempDir(), Checkout: root, Has: func(string) bool { return true },
				Env: append(os.Environ(), "PATH="+filepath.Dir(leakrig)+string(filepath.ListSeparator)+os.Getenv("PATH")),
			}
			if _, err := r.Run(t.Context(), page); err != nil {
				t.Fatal(err)
			}
			for _, need := range page.Needs() {
				met(need)
			}
		})
	}
}
