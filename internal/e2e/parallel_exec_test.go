//go:build e2e

package e2e

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestParallelExec checks that parallel execs deadlock a real containerd's shim with ttrpc v1.0.2, but not with the
// ttrpc version that containerd requires. The versions come from the binaries in the nodes. A deadlock does not hang
// leakrig, and leakrig can still remove the container.
func TestParallelExec(t *testing.T) {
	needsKind(t)
	privateTmp(t)
	runs := t.TempDir()
	r := run(t, "run", "parallel-exec", "--variant", "leaky,fixed", "--rounds", "3", "--runs-dir", runs)
	if r.code != leak.ExitMet {
		t.Fatal(r)
	}
	met("kind")
	dir := runDir(t, runs)
	record, verdict := readRecord(t, dir), readVerdict(t, dir)

	leaky, fixed := record.Variant("leaky"), record.Variant("fixed")
	for _, c := range []struct {
		variant *leak.VariantRecord
		ttrpc   leak.Module
	}{
		{leaky, leak.Module{Version: "v1.1.2", Replace: "github.com/containerd/ttrpc v1.0.2"}},
		{fixed, leak.Module{Version: "v1.1.2"}},
	} {
		for _, name := range []string{"containerd", "containerd-shim"} {
			modules := c.variant.Modules(name + "/goroutine")
			i := slices.IndexFunc(modules, func(m leak.Module) bool { return m.Path == "github.com/containerd/ttrpc" })
			if i < 0 || modules[i].Version != c.ttrpc.Version || modules[i].Replace != c.ttrpc.Replace {
				t.Errorf("%s of %s was built with %+v", name, c.variant.Name, modules)
			}
		}
		for _, probe := range []string{"containerd/goroutine", "containerd/heap", "containerd-shim/goroutine", "containerd-shim/process", "kubelet/goroutine", "kubelet/heap"} {
			if c.variant.Final().Sample(probe) == nil {
				t.Errorf("%s: no sample of %s", c.variant.Name, probe)
			}
		}
	}
	if leaky.Stopped == "" {
		t.Error("the deadlock stood, and the rounds went on")
	}
	if len(fixed.Snapshots) != 4 {
		t.Errorf("fixed: %d snapshots", len(fixed.Snapshots))
	}
	page, err := os.ReadFile(dir.Path("report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"containerd", "containerd-shim", "kubelet"} {
		if flame := `<svg class="flame" width="100%" height="`; !regexp.MustCompile(flame + `\d+" role="img" aria-label="` + component + `: goroutines of leaky, all changes"`).Match(page) {
			t.Errorf("the report has no flame graph of %s", component)
		}
	}
	on := variantVerdict(t, verdict, "leaky")
	for _, check := range []string{"shim-writes", "shim-reader", "containerd-sends", "hung"} {
		if f := findingOf(t, on, check); f.Outcome != leak.Leaking {
			t.Errorf("%s: %v: %s", check, f.Outcome, f.Summary)
		}
	}
	if f := findingOf(t, variantVerdict(t, verdict, "fixed"), "hung"); f.Outcome != leak.Clean {
		t.Errorf("fixed hung: %s", f.Summary)
	}
}
