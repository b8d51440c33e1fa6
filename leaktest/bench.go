package leaktest

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// Retained repeats op in the loop of b and reports the heap bytes and the goroutines that each operation leaves behind,
// as "retained-B/op" and "retained-goroutines/op", which benchstat compares. It reads this process, so nothing else may
// run at the same time.
func Retained(b *testing.B, op Operation) {
	b.Helper()
	one := func(n int) {
		if err := op(b.Context(), n); err != nil {
			b.Fatalf("operation %d: %v", n, err)
		}
	}
	one(1) // what the first operation allocates once is not retained per operation
	heap, goroutines := resting(b.Context())
	n := 0
	for b.Loop() {
		n++
		one(n + 1)
	}
	heapAfter, goroutinesAfter := resting(b.Context())
	b.ReportMetric((heapAfter-heap)/float64(n), "retained-B/op")
	b.ReportMetric((goroutinesAfter-goroutines)/float64(n), "retained-goroutines/op")
}

// resting waits until the number of goroutines has not fallen for two windows, and returns the live heap and that number.
func resting(ctx context.Context) (heap, goroutines float64) {
	fewest, since := runtime.NumGoroutine(), time.Now()
	for time.Since(since) < 2*quiet && ctx.Err() == nil {
		time.Sleep(quiet / 5)
		if now := runtime.NumGoroutine(); now < fewest {
			fewest, since = now, time.Now()
		}
	}
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc), float64(fewest)
}
