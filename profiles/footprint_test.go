package profiles

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestOwnFootprint checks that the groups contain no goroutine of leakrig's request, neither the handler nor
// net/http's background reader. Handlers of the subject that serve other requests stay.
func TestOwnFootprint(t *testing.T) {
	const inFlight = 3
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/debug/pprof/", itself())
	arrived := make(chan struct{}, inFlight)
	mux.HandleFunc("/hang", func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
	s := serve(t, mux)
	defer close(release)
	base := strings.TrimSuffix(s.Pprof, "/debug/pprof")
	for range inFlight {
		go func() {
			if resp, err := http.Get(base + "/hang"); err == nil {
				resp.Body.Close()
			}
		}()
		<-arrived
	}
	eventually(t, func() string {
		r, err := (&Goroutine{DumpLimit: 1000}).read(t.Context(), s.Target)
		if err != nil {
			t.Fatal(err)
		}
		for name, g := range map[string]*groups{"dump": r.dump, "profile": r.profile} {
			handlers, watchers := int64(0), int64(0)
			for id, stack := range g.stacks {
				for _, f := range stack.Frames {
					if strings.Contains(f.Func, "TestOwnFootprint") && strings.HasSuffix(f.Func, "func1") {
						handlers += g.count[id].Count
					}
				}
				if watchesConnection(stack) {
					watchers += g.count[id].Count
				}
				if servesProfile(stack) {
					return fmt.Sprintf("%s: the handler is left in: %v", name, stack)
				}
			}
			if handlers != inFlight || watchers != inFlight {
				return fmt.Sprintf("%s: %d handlers in flight, %d watch their connections", name, handlers, watchers)
			}
		}
		return ""
	})
}

// busySubject is how many goroutines the subject of BenchmarkSnapshot has, and the variable that makes this binary
// one.
const (
	busyGoroutines = 2000
	busySubject    = "LEAKRIG_TEST_BUSY_SUBJECT"
)

// A snapshot of a process with 2,000 goroutines may cost leakrig 50 ms of processor: every probe's requests, parsing,
// grouping and compressing. The subject's own part of it is not counted.
func BenchmarkSnapshot(b *testing.B) {
	subject := exec.Command(os.Args[0], "-test.run=^TestBusySubject$")
	subject.Env = append(os.Environ(), busySubject+"=1")
	subject.Stderr = os.Stderr
	end, err1 := subject.StdinPipe()
	out, err2 := subject.StdoutPipe()
	if err := errors.Join(err1, err2, subject.Start()); err != nil {
		b.Fatal(err)
	}
	defer func() {
		end.Close()
		_ = subject.Wait()
	}()
	var url string
	if _, err := fmt.Fscanln(out, &url); err != nil {
		b.Fatal(err)
	}
	target := leak.Target{
		URL: url, Pprof: url + "/debug/pprof", Proc: os.DirFS(fmt.Sprintf("/proc/%d", subject.Process.Pid)),
		Transport: func() http.RoundTripper { return &http.Transport{} },
	}
	probes := []leak.Probe{goroutineKind.New(), heapKind.New(), processKind.New()}
	before := processorTime(b)
	for b.Loop() {
		for _, probe := range probes {
			r, err := probe.Sample(b.Context(), target)
			if err != nil {
				b.Fatal(err)
			}
			if count, ok := r.Sample.Values["count"]; ok && count < busyGoroutines {
				b.Fatalf("%g goroutines", count)
			}
		}
	}
	perSnapshot := (processorTime(b) - before) / time.Duration(b.N)
	b.ReportMetric(float64(perSnapshot.Microseconds())/1000, "cpu-ms/op")
	if b.N > 1 && perSnapshot > 50*time.Millisecond {
		b.Errorf("%v of processor a snapshot", perSnapshot)
	}
}

// processorTime is what this process has taken.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestBusySubject is the subject of BenchmarkSnapshot in a separate process. It runs until its input ends.
func TestBusySubject(t *testing.T) {
	if os.Getenv(busySubject) == "" {
		return
	}
	end := make(chan struct{})
	for range busyGoroutines {
		go func() { <-end }()
	}
	fmt.Println(serve(t, itself()).URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A few KiB may decompress to 64 MiB that decode to several GiB. They are refused before that.
func TestDecodingBomb(t *testing.T) {
	for name, message := range map[string][]byte{
		"empty samples":            {0x12, 0},
		"empty locations":          {0x22, 0},
		"empty strings":            {0x32, 0},
		"samples of many frames":   append([]byte{0x12, 0x80, 0x08, 0x0a, 0xfd, 0x07}, bytes.Repeat([]byte{1}, 1021)...),
		"locations of empty lines": append([]byte{0x22, 0x80, 0x08}, bytes.Repeat([]byte{0x22, 0}, 512)...),
	} {
		var small bytes.Buffer
		z, _ := gzip.NewWriterLevel(&small, gzip.BestSpeed)
		_, _ = z.Write(bytes.Repeat(message, maxProfile/len(message)-1))
		z.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(small.Bytes())
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("would take more than %d MiB", maxDecoded>>20)) {
			t.Errorf("%s: %v", name, err)
		}
		// Reading 64 MiB doubles a buffer on the way.
		if used := after.TotalAlloc - before.TotalAlloc; used > 512<<20 {
			t.Errorf("%s: refusing %d KiB took %d MiB", name, small.Len()>>10, used>>20)
		}
	}
	// As text: 64 MiB of goroutines that are all different.
	text, w := io.Pipe()
	go func() {
		for i := range maxStacks + 1 {
			fmt.Fprintf(w, "goroutine %d [state%d]:\n\n", i+1, i)
		}
		w.Close()
	}()
	data, _ := io.ReadAll(text)
	if _, err := Parse(data); err == nil || !strings.Contains(err.Error(), "different stacks") {
		t.Errorf("text: %v", err)
	}
	// Real profiles pass: the profile of this process, and a thousand times its samples.
	p, err := parsePprof(profileOf(t, "goroutine"))
	if err != nil {
		t.Fatal(err)
	}
	p.Sample = slices.Repeat(p.Sample, 1000)
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(b.Bytes()); err != nil {
		t.Errorf("real: %v", err)
	}
}
