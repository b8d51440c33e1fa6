package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/rundir"
)

// dump writes a goroutine dump with so many goroutines on one stack.
func dump(t *testing.T, name string, waiting int) string {
	t.Helper()
	var text strings.Builder
	for i := range waiting {
		fmt.Fprintf(&text, "goroutine %d [chan receive]:\nexample.com/shop.(*Cart).wait(0x1)\n\t/src/cart.go:7 +0x1\n\n", i+1)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDiff checks the growth and the exit code at the bound, which one stack may gain, and above it.
func TestDiff(t *testing.T) {
	base, now := dump(t, "base", 3), dump(t, "now", 13)
	for bound, want := range map[string]int{"": leak.ExitMet, "10": leak.ExitMet, "9": leak.ExitNotMet} {
		var out bytes.Buffer
		f := DiffOptions{Top: 10, Max: bound, Operations: 5}
		code, err := f.Diff(&out, base, now)
		if err != nil || code != want || !strings.Contains(out.String(), "+2.00/op") {
			t.Errorf("--max %q: exit code %d, want %d, %v\n%s", bound, code, want, err, out.String())
		}
	}
}

// TestBestVariant checks that match compares a profile with every variant, and reports the one that explains most,
// whatever was expected of it.
func TestBestVariant(t *testing.T) {
	stack := func(name string) leak.Stack {
		return leak.Stack{State: "chan receive", Frames: []leak.Frame{{Func: "example.com/shop." + name}}}
	}
	variant := func(name, grows string) *leak.VariantRecord {
		s := stack(grows)
		shot := func(round int, n int64) leak.Snapshot {
			return leak.Snapshot{Round: round, Operations: 10 * round, Samples: []leak.Sample{{
				Probe: "goroutine", Groups: map[string][]leak.Group{profiles.SourceDump: {{Stack: s.ID(), Count: n}}},
			}}}
		}
		return &leak.VariantRecord{Name: name, Snapshots: []leak.Snapshot{shot(0, 1), shot(1, 11)}, Stacks: map[string]leak.Stack{s.ID(): s}}
	}
	production, err := profiles.Open(dump(t, "production", 7))
	if err != nil {
		t.Fatal(err)
	}
	f := MatchOptions{Top: 10}
	m, err := f.best([]*leak.VariantRecord{variant("leaky", "(*Order).wait"), variant("fixed", "(*Cart).wait"), {Name: "broken"}}, production)
	if err != nil {
		t.Fatal(err)
	}
	if m.Variant != "fixed" || m.Explained != 7 || len(m.Variants) != 3 || m.Variants[0].Explained != 0 || m.Variants[2].Problem == "" {
		t.Errorf("%+v", m)
	}
	var out bytes.Buffer
	reports.MatchText(&out, m, 10)
	for _, want := range []string{"7 of 7 goroutines in production stand on stacks that grew in fixed", "leaky explains 0 (0.0 %)", "broken was not compared: no round was measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if _, err := f.best([]*leak.VariantRecord{{Name: "broken"}}, production); err == nil || !strings.Contains(err.Error(), "broken: no round") {
		t.Error(err)
	}
}

func TestExplainFleet(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	var b bytes.Buffer
	stack := leak.Stack{State: "chan send", Frames: []leak.Frame{
		{Func: "k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive", File: "k8s.io/apimachinery@v0.18.8/pkg/watch/streamwatcher.go", Line: 127},
	}}
	if err := profiles.Write(&b, "goroutines", []profiles.Counted{{Stack: stack, N: 300}}); err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteFile(rundir.GrowthFile("goroutines"), b.Bytes()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code, err := (&ExplainOptions{Format: "text", Top: 10}).Explain(t.Context(), &out, string(dir))
	if err != nil || code != leak.ExitMet || !strings.Contains(out.String(), "kubernetes/kubernetes#98653") || !strings.Contains(out.String(), "v0.21.0") {
		t.Errorf("code %d, %v:\n%s", code, err, out.String())
	}
}
