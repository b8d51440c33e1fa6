package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestWorkersPreflight checks that missing worker images are reported before a boot.
func TestWorkersPreflight(t *testing.T) {
	for _, c := range []struct {
		comment, want string
		err           error
	}{
		{"existing, without an image", "could not be loaded into the nodes", (&Existing{}).Preflight(t.Context(), leak.BootOptions{Workers: true})},
		{"embedded", "no nodes to run them", (&Embedded{}).Preflight(t.Context(), leak.BootOptions{Workers: true})},
	} {
		var usage *leak.UsageError
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want) || leak.Hint(c.err) == "" || !errors.As(c.err, &usage)) {
			t.Errorf("%s: %v", c.comment, c.err)
		}
	}
}

// Where no pod ever runs, load on pods is refused before anything is booted.
func TestEmbeddedRunsNoPods(t *testing.T) {
	for _, o := range []leak.BootOptions{{Pods: true}, {LoadsPods: true}, {Spec: leak.ClusterSpec{Nodes: 3}}} {
		err := (&Embedded{}).Preflight(t.Context(), o)
		var usage *leak.UsageError
		if !errors.As(err, &usage) || !strings.Contains(leak.Hint(err), "--cluster kind") {
			t.Errorf("%+v: %v (hint %q)", o, err, leak.Hint(err))
		}
	}
}

// Where there are nodes and a scheduler, fixtures are refused before anything is booted.
func TestFixturesAreForEmbedded(t *testing.T) {
	o := leak.BootOptions{Fixtures: leak.Fixtures{Nodes: 1}}
	for name, p := range map[string]leak.Preflighter{"kind": &Kind{}, "existing": &Existing{}} {
		err := p.Preflight(t.Context(), o)
		var usage *leak.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), name) || leak.Hint(err) != "use --cluster embedded" {
			t.Errorf("%s: %v (hint %q)", name, err, leak.Hint(err))
		}
	}
	if err := (&Embedded{}).Preflight(t.Context(), o); err != nil {
		t.Error(err)
	}
}
