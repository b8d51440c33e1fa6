// Command native is a service that never releases memory. Each operation keeps -size bytes, from C.malloc or, with -go,
// from the Go heap. It needs cgo.
package main

// #include <stdlib.h>
// #include <string.h>
// static void *volatile last; // or the compiler omits all of it
// static void keep(size_t n) { last = malloc(n); memset(last, 1, n); }
import "C"

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	_ "net/http/pprof" // leakrig reads the service through it
	"os"
	"strconv"
	"sync"
)

var (
	mu   sync.Mutex
	kept [][]byte
)

func main() {
	size := flag.Int("size", 4096, "bytes per operation")
	goHeap := flag.Bool("go", false, "keep memory of the Go heap")
	flag.Parse()
	http.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/work", func(_ http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("n"))
		for range max(n, 1) {
			if !*goHeap {
				C.keep(C.size_t(*size))
				continue
			}
			mu.Lock()
			kept = append(kept, bytes.Repeat([]byte{1}, *size))
			mu.Unlock()
		}
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("LEAKRIG_LISTEN"), nil))
}
