//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestDiffAgainstPprof checks that leakrig diff and `go tool pprof -top -diff_base` find the same growth. The two
// profiles have 100,000 goroutines in 10,000 stacks. In a benchmark, leakrig must not need more time or memory than
// pprof.
func TestDiffAgainstPprof(t *testing.T) {
	dir := t.TempDir()
	base, now := filepath.Join(dir, "base.pb.gz"), filepath.Join(dir, "now.pb.gz")
	writeGoroutines(t, base, 0)
	writeGoroutines(t, now, 500)
	pprof := strings.TrimSpace(output(t, exec.Command("go", "tool", "-n", "pprof")))

	rounds := 1
	if timed {
		rounds = 7
	}
	var ours, theirs []cost
	for range rounds {
		ours = append(ours, measureCommand(t, leakrig, "diff", base, now))
		theirs = append(theirs, measureCommand(t, pprof, "-top", "-symbolize=none", "-diff_base", base, now))
	}
	a, b := medianOf(ours, wall), medianOf(theirs, wall)
	c, d := medianOf(ours, rss), medianOf(theirs, rss)
	t.Logf("leakrig diff %v, %d MiB; go tool pprof %v, %d MiB (medians of %d)", a, c>>20, b, d>>20, rounds)
	if timed && a > b {
		t.Errorf("slower: %v against %v", a, b)
	}
	if timed && c > d {
		t.Errorf("larger: %d KiB against %d KiB", c>>10, d>>10)
	}
	if !strings.Contains(ours[0].output, "goroutines  100000 → 100500 (+500)") || !strings.Contains(theirs[0].output, "leaf7") {
		t.Errorf("%.300s\n%.300s", ours[0].output, theirs[0].output)
	}
	met("pprof")
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// writeGoroutines writes a goroutine profile in the form of the runtime. It has 10 goroutines on each of 10,000
// stacks of 12 to 30 frames, and extra more on the seventh stack.
func writeGoroutines(t *testing.T, path string, extra int64) {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}},
		PeriodType: &profile.ValueType{Type: "goroutine", Unit: "count"}, Period: 1,
		Mapping: []*profile.Mapping{{ID: 1, Start: 0x400000, Limit: 0x4000000, File: "/bin/server", HasFunctions: true, HasFilenames: true, HasLineNumbers: true}},
	}
	known := map[string]*profile.Location{}
	at := func(name string, line int64) *profile.Location {
		key := fmt.Sprint(name, line)
		if known[key] == nil {
			id := uint64(len(p.Function) + 1)
			f := &profile.Function{ID: id, Name: name, SystemName: name, Filename: "example.org/server/" + name[:min(20, len(name))] + ".go", StartLine: 1}
			p.Function = append(p.Function, f)
			known[key] = &profile.Location{ID: id, Mapping: p.Mapping[0], Address: 0x400000 + 16*id, Line: []profile.Line{{Function: f, Line: line}}}
			p.Location = append(p.Location, known[key])
		}
		return known[key]
	}
	for i := range 10_000 {
		s := &profile.Sample{Value: []int64{10}}
		if i == 7 {
			s.Value[0] += extra
		}
		s.Location = append(s.Location, at("runtime.gopark", 460), at("runtime.chansend", 283), at("runtime.chansend1", 161))
		s.Location = append(s.Location, at(fmt.Sprintf("example.org/server/pkg%d.leaf%d", i%50, i), int64(i)))
		for depth := range 8 + i%19 {
			s.Location = append(s.Location, at(fmt.Sprintf("example.org/server/pkg%d.(*Server).call%d", (i+depth)%50, (i*7+depth)%3000), int64(depth)))
		}
		p.Sample = append(p.Sample, s)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := p.Write(f); err != nil {
		t.Fatal(err)
	}
}
