package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/rundir"

	_ "net/http/pprof"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/reports"
	"github.com/leakrig/leakrig/session"
)

// kept holds what the test leaks, park what its goroutines wait for.
var (
	kept [][]byte
	park chan struct{}
)

//go:noinline
func keepSmall() { kept = append(kept, make([]byte, 3<<20)) }

//go:noinline
func keepLarge(depth int) {
	if depth > 0 {
		keepLarge(depth - 1) // a function that calls itself counts once
		return
	}
	kept = append(kept, make([]byte, 16<<20))
}

//go:noinline
func wait() { <-park }

// The frames that are read back from the flame graph show the very totals of `go tool pprof`, on
// profiles of this process that were taken and grouped as in a run.
func TestFlameTotalsAreThoseOfPprof(t *testing.T) {
	park = make(chan struct{})
	t.Cleanup(func() { close(park); kept = nil })
	server := httptest.NewServer(http.DefaultServeMux)
	defer server.Close()
	target := leak.Target{URL: server.URL, Pprof: server.URL + "/debug/pprof", Transport: func() http.RoundTripper { return &http.Transport{} }}
	dir := t.TempDir()

	keepSmall()
	vr := leak.VariantRecord{Name: "this", Stacks: map[string]leak.Stack{}}
	snapshot(t, &vr, target, dir)
	for range 40 {
		go wait()
		go func() { wait() }()
	}
	for range 10 {
		keepLarge(3)
		keepSmall()
	}
	kept = kept[1:]
	for waiting := 0; waiting < 80; waiting = blocked() {
		time.Sleep(time.Millisecond)
	}
	snapshot(t, &vr, target, dir)
	runtime.KeepAlive(kept)

	in := reports.Input{Record: &leak.Record{Schema: 1, Variants: []leak.VariantRecord{vr}}, RunDir: dir}
	f, err := session.FindFormat("svg")
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	if err := f.Render(&picture, in); err != nil {
		t.Fatal(err)
	}
	drawn := readFlames(t, picture.Bytes())
	if len(drawn) != 2 {
		t.Fatalf("%d graphs", len(drawn))
	}
	for i, p := range []struct{ file, index string }{{"goroutine.pb.gz", "goroutine"}, {"heap.pb.gz", "inuse_space"}} {
		compareTotals(t, drawn[i], pprofTotals(t, p.index, filepath.Join(dir, "0", p.file), filepath.Join(dir, "1", p.file)))
	}
	for name, graph := range map[string]int{"main.wait": 0, "main.keepLarge": 1, "main.keepSmall": 1} {
		name = "github.com/leakrig/leakrig/cmd/leakrig" + strings.TrimPrefix(name, "main")
		if drawn[graph][name] == 0 {
			t.Errorf("%s is not drawn", name)
		}
	}
}

// blocked is how many goroutines stand in wait.
func blocked() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "cmd/leakrig.wait(")
}

func snapshot(t *testing.T, vr *leak.VariantRecord, target leak.Target, dir string) {
	t.Helper()
	round := len(vr.Snapshots)
	s := leak.Snapshot{Round: round, Operations: 80 * round}
	for _, probe := range []leak.Probe{&profiles.Goroutine{DumpLimit: 0}, &profiles.Heap{}} {
		r, err := probe.Sample(context.Background(), target)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range r.Files {
			if err := rundir.WriteFile(filepath.Join(dir, strconv.Itoa(round), file.Name), file.Data); err != nil {
				t.Fatal(err)
			}
		}
		for id, stack := range r.Stacks {
			vr.Stacks[id] = stack
		}
		s.Samples = append(s.Samples, r.Sample)
	}
	vr.Snapshots = append(vr.Snapshots, s)
}

var (
	totalLine = regexp.MustCompile(`(?m)^total ([+−]?[0-9.]+)(?: [KMG]iB \((-?\d+) B\)| B)?(?:,|$)`)
	stateMark = regexp.MustCompile(` \[[^\]]+\]$`)
)

// readFlames reads the graphs of an SVG file: the total of every function, counted once a stack.
func readFlames(t *testing.T, data []byte) []map[string]int64 {
	t.Helper()
	var graphs []map[string]int64
	var path []string // functions above the frame, by depth
	depth := 0
	title := false
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return graphs
		} else if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			title = e.Name.Local == "title"
			for _, a := range e.Attr {
				if e.Name.Local == "svg" && a.Name.Local == "y" {
					depth, _ = strconv.Atoi(a.Value)
				}
			}
		case xml.CharData:
			m := totalLine.FindStringSubmatch(string(e))
			if !title || m == nil {
				continue
			}
			title = false
			names := strings.Split(string(e), "\n")
			names = names[:slices.IndexFunc(names, func(line string) bool {
				return strings.HasPrefix(line, "total ") || line == "the fingerprint stands here"
			})]
			if names[0] == "all stacks" {
				graphs, path = append(graphs, map[string]int64{}), nil
			}
			exact := m[2]
			if exact == "" {
				exact = strings.ReplaceAll(m[1], "−", "-")
			}
			total, err := strconv.ParseInt(exact, 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", e, err)
			}
			path = path[:min(depth/19, len(path))]
			for _, name := range names { // a box is one frame, or several with the same numbers
				name = stateMark.ReplaceAllString(name, "")
				again := slices.Contains(path, name)
				path = append(path, name)
				if !again {
					graphs[len(graphs)-1][name] += total
				}
			}
		}
	}
}

// pprofTotals returns the totals of `go tool pprof` for every function.
func pprofTotals(t *testing.T, index, base, last string) map[string]int64 {
	t.Helper()
	cmd := exec.Command("go", "tool", "pprof", "-top", "-cum", "-unit=B", "-sample_index="+index, "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0", "-base", base, last)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	totals := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasSuffix(f[1], "%") {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSuffix(f[3], "B"), 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		totals[f[5]] += int64(math.Round(n))
	}
	return totals
}

// compareTotals leaves out the runtime's frames, of which the groups keep only those that others call. The
// functions of this package must agree to the goroutine and the byte; others may also stand in stacks
// that are too narrow to be drawn.
func compareTotals(t *testing.T, drawn, totals map[string]int64) {
	t.Helper()
	compared := 0
	for name, total := range drawn {
		if name == "all stacks" || strings.HasPrefix(name, "…") || strings.HasPrefix(name, "runtime.") {
			continue
		}
		compared++
		slack := drawn["all stacks"] / 100
		if strings.HasPrefix(name, "github.com/leakrig/leakrig/cmd/leakrig.") {
			slack = 0
		}
		if diff := total - totals[name]; diff > slack || diff < -slack {
			t.Errorf("%s: %d in the flame graph, %d in go tool pprof", name, total, totals[name])
		}
	}
	if compared < 2 {
		t.Errorf("only %d functions compared", compared)
	}
}
