// Command fleet is one process of the fleet that TestFleet observes. It serves net/http/pprof and a counter on its
// own address, which it prints, and starts and ends goroutines. With -leak it leaks a goroutine at that interval, and
// with -heap memory. It ends when its standard input closes, so that it does not outlive a killed test.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	_ "net/http/pprof" // leakrig reads the fleet through it
	"os"
	"runtime"
	"time"
)

func main() {
	leak := flag.Duration("leak", 0, "leak one goroutine so often")
	heap := flag.Duration("heap", 0, "leak 2 MiB so often")
	noise := flag.String("noise", "none", "none, bursts, wander or pool")
	tick := flag.Duration("tick", time.Second, "how fast the noise is")
	listen := flag.String("listen", "127.0.0.1:0", "where to serve")
	flag.Parse()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	start := time.Now()
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE http_requests_total counter\nhttp_requests_total %d\n", 10*time.Since(start)/(*tick))
	})
	switch *noise {
	case "bursts":
		go bursts(*tick)
	case "wander":
		go wander(*tick)
	case "pool":
		go pool(*tick)
	}
	if *leak > 0 {
		go leaks(*leak)
	}
	if *heap > 0 {
		go remembers(*heap, *tick)
	}
	fmt.Printf("http://%s\n", l.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(l, nil))
}

// leaks starts a goroutine at every interval that blocks forever.
func leaks(every time.Duration) {
	for range time.Tick(every) {
		go forgotten(make(chan int))
	}
}

func forgotten(answers chan int) { answers <- 42 }

// remembers keeps 2 MiB more at every interval. It drops as much memory in between as a busy service does, so that
// the heap is collected between two sweeps.
func remembers(every, tick time.Duration) {
	go func() {
		for range time.Tick(tick) {
			drop()
		}
	}()
	var kept [][]byte
	for range time.Tick(every) {
		kept = append(kept, remember())
	}
	runtime.KeepAlive(kept)
}

//go:noinline
func remember() []byte { return make([]byte, 2<<20) }

//go:noinline
func drop() []byte { return make([]byte, 8<<20) }

// bursts starts several goroutines at random times, which end after a while.
func bursts(tick time.Duration) {
	for {
		time.Sleep(tick + rand.N(3*tick))
		for range rand.N(9) {
			go burst(rand.N(2 * tick))
		}
	}
}

func burst(d time.Duration) {
	buffer := make([]byte, 256<<10)
	time.Sleep(d)
	runtime.KeepAlive(buffer)
}

// wander keeps between 2 and 12 workers, and adds or removes one at a time.
func wander(tick time.Duration) {
	stop := make(chan struct{})
	n := 6
	for range n {
		go worker(stop)
	}
	for {
		time.Sleep(rand.N(2 * tick))
		switch {
		case n < 12 && (n == 2 || rand.N(2) == 0):
			n++
			go worker(stop)
		default:
			n--
			stop <- struct{}{}
		}
	}
}

func worker(stop chan struct{}) { <-stop }

// pool starts ten members and keeps them.
func pool(tick time.Duration) {
	for range 10 {
		go member()
		time.Sleep(tick / 2)
	}
}

func member() { select {} }
