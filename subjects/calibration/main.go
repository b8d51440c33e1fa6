// Command calibration grows in ways of known size, so that the rig can be held against the truth. It is
// the one subject whose leak is its own: an instrument is calibrated on a known weight.
//
// Which way is chosen by -plant. Every POST to /work is one operation, and does some honest work, too.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
)

// plants are the ways to grow, by name; each returns what an operation does.
var plants = map[string]func() func(){
	"nothing":   nothing,
	"goroutine": goroutine,
	"heap":      heap,
	"lazy":      lazy,
	"pool":      pool,
	"ticker":    ticker,
}

func main() {
	plant := flag.String("plant", "nothing", "the way to grow")
	flag.Parse()
	start, ok := plants[*plant]
	if !ok {
		log.Fatalf("calibration: unknown -plant %q", *plant)
	}
	operate := start()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /work", func(w http.ResponseWriter, _ *http.Request) {
		garbage := make([]byte, 32<<10)
		operate()
		fmt.Fprintln(w, len(garbage))
	})
	serve.Main(mux)
}

func nothing() func() { return func() {} }

// goroutine leaks one goroutine an operation, blocked in chan send.
func goroutine() func() {
	return func() {
		unread := make(chan int)
		go leakySend(unread)
	}
}

func leakySend(c chan<- int) { c <- 1 }

// heap leaks 16 KiB an operation.
func heap() func() {
	var mu sync.Mutex
	var kept [][]byte
	return func() {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, bytes.Repeat([]byte{1}, 16<<10)) // written to, so that it is resident
	}
}

// lazy makes 8 MiB and 20 goroutines once, in the middle of the measured rounds.
func lazy() func() {
	var mu sync.Mutex
	var block []byte
	operations := 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if operations++; operations != 90 {
			return
		}
		block = make([]byte, 8<<20)
		for range 20 {
			go func() { select {} }()
		}
		_ = block
	}
}

// pool has workers that are started as they are needed, up to a cap that the second round reaches.
func pool() func() {
	const limit = 50
	jobs := make(chan func())
	var mu sync.Mutex
	workers := 0
	return func() {
		mu.Lock()
		if workers < limit {
			workers++
			buffer := make([]byte, 64<<10)
			go func() {
				for job := range jobs {
					clear(buffer)
					job()
				}
			}()
		}
		mu.Unlock()
		done := make(chan struct{})
		jobs <- func() { close(done) }
		<-done
	}
}

// ticker works in the background all the time: short-lived goroutines and garbage, whatever the load.
func ticker() func() {
	go func() {
		for range time.Tick(30 * time.Millisecond) {
			for range 3 {
				go func() {
					garbage := make([]byte, 256<<10)
					time.Sleep(20 * time.Millisecond)
					_ = garbage
				}()
			}
		}
	}()
	return func() {}
}
