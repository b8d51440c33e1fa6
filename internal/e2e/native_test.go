//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestNightlyNative observes a service that leaks 4 KiB per operation with C.malloc, and the same service with a leak of
// the Go heap, 20 times each. Only the first one is native.
func TestNightlyNative(t *testing.T) { testNative(t, 20) }

func testNative(t *testing.T, times int) {
	t.Parallel()
	program := builtWithC(t, "./testdata/native")
	const flat = "the Go heap is flat; 4.0 KiB per operation is outside of it (cgo or mmap)"
	for i := range times {
		for _, args := range [][]string{{}, {"-go"}} {
			url := serving(t, program, args...)
			got := run(t, "observe", url, "--operations", "50", "--runs-dir", t.TempDir(), "--format", "json", "--", "curl", "-sf", url+"/work?n=50")
			var report struct{ Verdict leak.Verdict }
			if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != leak.ExitNotMet {
				t.Fatalf("run %d %v: %v, exit code %d\n%s\n%s", i, args, err, got.code, got.stderr, report.Verdict.Sentence)
			}
			native := leak.Inconclusive
			for _, f := range report.Verdict.Variants[0].Findings {
				if f.Series != "process.native" {
					continue
				}
				native = f.Outcome
				t.Logf("run %d %v: %s: %s", i, args, f.Outcome, f.Summary)
				if ours := len(args) == 0; ours && (f.Outcome != leak.Leaking || f.PerOperation < 3900 || f.PerOperation > 4400) {
					t.Errorf("run %d %v: %+.0f bytes per operation, %s: %s", i, args, f.PerOperation, f.Outcome, f.Summary)
				}
			}
			sentence := report.Verdict.Sentence
			if ours := len(args) == 0; ours != strings.Contains(sentence, flat) || ours != (native == leak.Leaking) {
				t.Errorf("run %d %v: native memory is %s: %s", i, args, native, sentence)
			}
		}
	}
	met("cgo")
}

// builtWithC builds a program of internal/e2e that needs cgo.
func builtWithC(t *testing.T, pkg string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatal(fmt.Errorf("this test needs cgo: %w; apt-get install gcc libc6-dev", err))
	}
	path := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", path, pkg)
	build.Dir = filepath.Join(root, "internal/e2e")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}
