// Package heapdump serves heap dumps for leakrig, which reads from them who holds memory. It imports the standard
// library only. To use it, import it for its side effect, as with net/http/pprof:
//
//	import _ "github.com/leakrig/leakrig/holders/heapdump"
//
// It registers /debug/leakrig/heapdump on http.DefaultServeMux. Programs with another mux register Handler.
//
// A dump has the memory of the process, with its secrets. Do not serve it on an address that others can reach. The
// process stops while it writes a dump, for about one second per 500 MiB of heap. It writes to memory, not to disk, so
// it needs as much free memory as the heap has while the dump is sent.
package heapdump

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

// Path is where the package registers Handler on http.DefaultServeMux.
const Path = "/debug/leakrig/heapdump"

// Parameter asks for a heap dump instead of a profile, in programs that leakrig built: /debug/pprof/heap?leakrig-heapdump=1.
const Parameter = "leakrig-heapdump"

// Headers of a response.
const (
	PauseHeader = "Leakrig-Heapdump-Pause"        // how long the process stopped: "132.5ms"
	RateHeader  = "Leakrig-Heapdump-Profile-Rate" // runtime.MemProfileRate: bytes per allocation sample
	PIDHeader   = "Leakrig-Heapdump-Pid"
)

// ErrLeakProfile is the error of Write after a goroutine leak profile has found leaked goroutines. The runtime's heap dump
// ends a process that has such goroutines, at least up to Go 1.26.
var ErrLeakProfile = errors.New("the runtime cannot dump a heap with goroutines that a goroutine leak profile has found")

// ErrBusy is the error of Write while another dump is written or sent.
var ErrBusy = errors.New("another heap dump is in progress")

var busy sync.Mutex

func init() { http.Handle("GET "+Path, Handler()) }

// Handler returns a handler that runs two garbage collections, dumps the heap and sends the dump.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	if !busy.TryLock() {
		http.Error(w, ErrBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	defer busy.Unlock()
	file, pause, err := dump()
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotImplemented)
		return
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Cache-Control", "no-store")
	h.Set(PauseHeader, pause.String())
	h.Set(RateHeader, strconv.Itoa(runtime.MemProfileRate))
	h.Set(PIDHeader, strconv.Itoa(os.Getpid()))
	_, _ = io.Copy(w, file) // the client sees a short body
}

// Write dumps the heap to w and returns how long the process stopped.
func Write(w io.Writer) (pause time.Duration, err error) {
	if !busy.TryLock() {
		return 0, ErrBusy
	}
	defer busy.Unlock()
	file, pause, err := dump()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	_, err = io.Copy(w, file)
	return pause, err
}

// dump writes the heap to a file in memory. Writing to a pipe or socket whose reader is this process would never end,
// because the process stops while WriteHeapDump writes.
func dump() (file *os.File, pause time.Duration, err error) {
	if leaks := pprof.Lookup("goroutineleak"); leaks != nil && leaks.Count() > 0 {
		return nil, 0, ErrLeakProfile
	}
	fd, err := memfd("leakrig-heapdump")
	if err != nil {
		return nil, 0, fmt.Errorf("create a file in memory: %w", err)
	}
	file = os.NewFile(fd, "heapdump")
	// The first collection moves the contents of each sync.Pool aside and runs finalizers, the second frees them.
	runtime.GC()
	runtime.GC()
	// The linker turns allocation samples off in programs that never call MemProfile.
	runtime.MemProfile(nil, false)
	start := time.Now()
	debug.WriteHeapDump(file.Fd())
	return file, time.Since(start), nil
}
