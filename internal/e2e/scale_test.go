//go:build e2e && bench

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/rundir"
)

// TestScale measures the cost of judging and reporting, and the size of a record, by stacks, rounds and subjects:
// each varies while the others are constant.
//
//	make bench
func TestScale(t *testing.T) {
	// Use a separate process, because the memory peak of this process would count for its children.
	sized := built(t, "internal/e2e", "./testdata/sized")
	t.Logf("%7s %7s %9s | %9s | %10s %9s | %10s %9s %9s", "stacks", "rounds", "subjects", "run.json", "judge CPU", "memory", "html CPU", "memory", "page")
	for _, c := range []struct{ stacks, rounds, subjects int }{
		{100, 10, 1},
		{1000, 10, 1},
		{10_000, 10, 1},
		{1000, 30, 1},
		{1000, 100, 1},
		{1000, 10, 4},
		{1000, 10, 16},
		{100, 10, 256},
	} {
		dir := rundir.Dir(t.TempDir())
		measureCommand(t, sized, "-stacks", fmt.Sprint(c.stacks), "-rounds", fmt.Sprint(c.rounds), "-subjects", fmt.Sprint(c.subjects), string(dir))
		page := filepath.Join(t.TempDir(), "report.html")
		judge := measureCommand(t, leakrig, "judge", string(dir))
		report := measureCommand(t, leakrig, "report", string(dir), "--format", "html", "--output", page)
		if !strings.Contains(judge.output, "as expected") {
			t.Fatal(judge.output)
		}
		size := func(path string) string {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%d KiB", info.Size()>>10)
		}
		mib := func(c cost) string { return fmt.Sprintf("%d MiB", c.rss>>20) }
		t.Logf("%7d %7d %9d | %9s | %9.2fs %9s | %9.2fs %9s %9s", c.stacks, c.rounds, c.subjects, size(dir.Path(rundir.RecordFile)),
			judge.cpu.Seconds(), mib(judge), report.cpu.Seconds(), mib(report), size(page))
	}
}
