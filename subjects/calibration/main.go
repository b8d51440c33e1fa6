// Command calibration grows by known amounts, or appears to, so that leakrig can be compared with the truth. It is
// the only subject with an artificial leak. Its leaks are real goroutines, memory and descriptors that are never
// released. Its healthy variants are ordinary code of ordinary services.
//
// -plant selects the behaviour. Every POST to /work is one operation and also does some ordinary work. At its end the
// program prints the counted retained resources and the number of operations.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/leakrig/leakrig/subjects/serve"
)

// plants are the ways to grow, by name; each returns what an operation does.
var plants = map[string]func(options) func(){
	// leaks.go
	"goroutine":  goroutine,
	"heap":       heap,
	"descriptor": descriptor,
	"two":        two,
	"hidden":     hidden,
	"masked":     masked,
	"clock":      clock,
	"burst":      burst,
	// healthy.go
	"nothing":   nothing,
	"lazy":      lazy,
	"pool":      pool,
	"ticker":    ticker,
	"lru":       lru,
	"map":       mapCache,
	"sync-pool": syncPool,
	"conns":     conns,
	"queue":     queue,
	"scaling":   scaling,
	"gc":        gcNoise,
	"keepalive": keepAlive,
	// defaults.go
	"thread":   thread,
	"deep":     deep,
	"numbers":  numbers,
	"appended": appended,
	"users":    users,
	"ring":     ring,
	"evicting": evicting,
	"keys":     keys,
	"workers":  workers,
	"reload":   reload,
	"adaptive": adaptive,
	"timers":   timers,
	"linger":   linger,
	"jitter":   jitter,
	"spikes":   spikes,
}

// options are the flags that a plant may read.
type options struct {
	every, after, size, times, limit int
}

func main() {
	var o options
	plant := flag.String("plant", "nothing", "the way to grow")
	noise := flag.Bool("noise", false, "do noisy work in every operation")
	flag.IntVar(&o.every, "every", 1, "operations per leak")
	flag.IntVar(&o.after, "after", 0, "a leak starts after this many operations")
	flag.IntVar(&o.times, "times", 1, "how often a leak leaks then")
	flag.IntVar(&o.limit, "limit", 100, "how much a cache, ring or pool takes, and after how many seconds what lingers goes")
	flag.IntVar(&o.size, "size", 16<<10, "bytes that a leak of memory leaks at once: 16, 64, 1024 or a multiple of 8192")
	flag.Parse()
	start, ok := plants[*plant]
	if !ok {
		log.Fatalf("calibration: unknown -plant %q", *plant)
	}
	operate := start(o)
	traffic := noisyTraffic()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /work", func(w http.ResponseWriter, _ *http.Request) {
		garbage := make([]byte, 32<<10)
		operate()
		if *noise {
			traffic()
		}
		fmt.Fprintln(w, len(garbage))
	})
	serve.Main(mux)
	fmt.Println(&truth)
}

// retained is what the program holds and will never let go.
type retained struct {
	operations, goroutines, bytes, descriptors atomic.Int64
}

var truth retained

// String is the line that leakrig's self-check reads.
func (r *retained) String() string {
	return fmt.Sprintf("calibration: retained goroutines=%d bytes=%d descriptors=%d in %d operations",
		r.goroutines.Load(), r.bytes.Load(), r.descriptors.Load(), r.operations.Load())
}

// rarely wraps a leak so that it starts late and happens in some operations only. The operations that are
// counted are those since it may have leaked.
func rarely(o options, leak func()) func() {
	var mu sync.Mutex
	operations := 0
	return func() {
		mu.Lock()
		operations++
		n := operations - o.after
		mu.Unlock()
		if n <= 0 {
			return
		}
		truth.operations.Add(1)
		if n%o.every == 0 {
			for range max(o.times, 1) {
				leak()
			}
		}
	}
}

// noisyTraffic is the ordinary work of a busy service: garbage of any size, short-lived goroutines, and a bounded
// history whose entries differ in size.
func noisyTraffic() func() {
	var mu sync.Mutex
	history := make([][]byte, 64)
	next := 0
	return func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = make([]byte, rand.IntN(64<<10))
		}()
		<-done
		entry := make([]byte, rand.IntN(2<<10))
		mu.Lock()
		defer mu.Unlock()
		history[next%len(history)] = entry
		next++
	}
}
