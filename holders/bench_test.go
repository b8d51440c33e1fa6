//go:build bench

package holders

import (
	"io"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/holders/heapdump"
)

// peak returns the highest heap in use while f runs.
func peak(f func()) uint64 {
	var stop atomic.Bool
	highest := make(chan uint64)
	go func() {
		var m runtime.MemStats
		most := uint64(0)
		for !stop.Load() {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			time.Sleep(20 * time.Millisecond)
		}
		highest <- most
	}()
	f()
	stop.Store(true)
	return <-highest
}

// cpuTime returns the time that this process has used on processors. Unlike the clock, it does not depend on neighbours.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLargeHeap reads the dump of a heap of 1 GiB with 10 million objects.
func BenchmarkLargeHeap(b *testing.B) {
	const objects = 10_000_000
	s := startShape(b, "large")
	s.leak(objects)
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	for b.Loop() {
		resp := s.response(heapdump.Path)
		pause, err := time.ParseDuration(resp.Header.Get(heapdump.PauseHeader))
		if err != nil {
			b.Fatal(err)
		}
		counted := &counter{r: resp.Body}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		var d *dump
		start := cpuTime()
		high := peak(func() {
			if d, err = parse(counted, s.bin); err != nil {
				b.Fatal(err)
			}
		})
		parsed := cpuTime() - start
		resp.Body.Close()
		references := len(d.targets)
		start = cpuTime()
		var g *graph
		high = max(high, peak(func() {
			if g, err = newGraph(d); err != nil {
				b.Fatal(err)
			}
		}))
		graphed := cpuTime() - start
		start = cpuTime()
		summary := newAttribution(g, 0).summary()
		named := cpuTime() - start
		raw := float64(references+g.objects) * wordSize
		b.ReportMetric(float64(g.objects), "objects")
		b.ReportMetric(float64(references), "references")
		b.ReportMetric(float64(counted.n)/(1<<20), "dump-MiB")
		b.ReportMetric(pause.Seconds(), "pause-s")
		b.ReportMetric(parsed.Seconds(), "parse-s")
		b.ReportMetric(graphed.Seconds(), "graph-s")
		b.ReportMetric(named.Seconds(), "names-s")
		b.ReportMetric(float64(high-before.HeapAlloc)/(1<<20), "peak-MiB")
		b.ReportMetric(float64(high-before.HeapAlloc)/raw, "peak/raw")
		if graphed > 8*time.Second {
			b.Errorf("graph and dominators took %s, want 8s (parse %s, names %s, peak %.2f of %.0f MiB raw)", graphed, parsed, named, float64(high-before.HeapAlloc)/raw, raw/(1<<20))
		}
		if got := summary.Sites[0].Holdings[0].Holder(); got != "main.records" {
			b.Errorf("held by %s, want main.records", got)
		}
	}
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
