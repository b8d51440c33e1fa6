//go:build e2e

package upstream

import (
	"context"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// Any released version has a go.mod, pinned or made.
func TestEmbeddedKubernetesMod(t *testing.T) {
	mod, err := kubernetesMod(context.Background(), "v1.24.17")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"k8s.io/kubernetes v1.24.17", "k8s.io/apimachinery => k8s.io/apimachinery v0.24.17"} {
		if !strings.Contains(string(mod), want) {
			t.Errorf("no %q in\n%s", want, mod)
		}
	}
	if _, err := kubernetesMod(context.Background(), "v1.0.999"); err == nil || leak.Hint(err) == "" {
		t.Errorf("a version that was never released: %v", err)
	}
}
