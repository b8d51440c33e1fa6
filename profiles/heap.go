package profiles

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

var heapKind = leak.Kind[leak.Probe]{
	Name: "heap",
	Doc: "Live heap after two forced collections: exact figures from runtime.MemStats, and the sampled profile for the place. " +
		"One collection would leave sync.Pool victims and finalizers behind.",
	Metrics: []leak.Metric{
		{Name: "alloc", Unit: "bytes", Coarse: 2 << 10, Doc: "MemStats.HeapAlloc"},
		{Name: "objects", Unit: "objects", Coarse: 32, Doc: "MemStats.HeapObjects"},
		{Name: "stack", Unit: "bytes", Coarse: 256 << 10, Doc: "MemStats.StackInuse, which leaked goroutines fill"},
	},
	New: func() leak.Probe { return &Heap{} },
}

// Heap reads the heap.
type Heap struct{}

// Sample forces two collections, reads MemStats, and then the sampled profile.
func (*Heap) Sample(ctx context.Context, t leak.Target) (leak.Reading, error) {
	ctx, done := lend(ctx)
	defer done()
	if _, err := fetch(ctx, t, "/heap?gc=1"); err != nil {
		return leak.Reading{}, err
	}
	text, err := fetch(ctx, t, "/heap?gc=1&debug=1")
	if err != nil {
		return leak.Reading{}, err
	}
	values, err := parseMemStats(text)
	if err != nil {
		return leak.Reading{}, fmt.Errorf("%s/heap?debug=1: %w", t.Pprof, err)
	}
	raw, err := fetchAtMost(ctx, t, "/heap", maxFile)
	if err != nil {
		return leak.Reading{}, err
	}
	p, err := decode(ctx, raw, maxProfile, maxDecoded)
	if err != nil {
		return leak.Reading{}, fmt.Errorf("%s/heap: %w", t.Pprof, err)
	}
	g, err := heapGroups(p)
	if err != nil {
		return leak.Reading{}, fmt.Errorf("%s/heap: %w", t.Pprof, err)
	}
	return leak.Reading{
		Sample: leak.Sample{
			Probe: heapKind.Name, Values: values, Rate: p.Period,
			Groups: map[string][]leak.Group{SourceHeap: g.list()},
		},
		Stacks: g.stacks,
		Files:  []leak.File{{Name: "heap.pb.gz", Data: raw}},
	}, nil
}

// memStats maps the names in the text form of a heap profile onto metrics. Stack reads "inuse / sys".
var memStats = map[string]string{"HeapAlloc": "alloc", "HeapObjects": "objects", "Stack": "stack"}

// parseMemStats reads the metrics of the heap.
func parseMemStats(text []byte) (map[string]float64, error) {
	return memFigures(bytes.NewReader(text), memStats)
}

// memFigures reads the "# HeapAlloc = 123" lines at the end of a heap profile's text form. metrics has the wanted
// names of MemStats, each with the name of its value.
func memFigures(text io.Reader, metrics map[string]string) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "# "), " = ")
		metric, known := metrics[name]
		if !ok || !known {
			continue
		}
		value, _, _ = strings.Cut(value, " ")
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values[metric] = float64(n)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(values) != len(metrics) {
		return nil, leak.WithHint(fmt.Errorf("not a heap profile in text form: %d of %d MemStats figures found", len(values), len(metrics)),
			"net/http/pprof writes them with debug=1")
	}
	return values, nil
}
