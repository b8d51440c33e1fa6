package profiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

// subject is a server on loopback that counts its open connections.
type subject struct {
	leak.Target
	open atomic.Int64
}

func serve(t *testing.T, h http.Handler) *subject {
	t.Helper()
	s := &subject{}
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s.Target = leak.Target{
		URL: server.URL, Pprof: server.URL + "/debug/pprof",
		Transport: func() http.RoundTripper { return &http.Transport{} },
	}
	return s
}

// itself serves the real net/http/pprof of this test process.
func itself() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	return mux
}

// allClosed waits until the probe's connections are gone from the server.
func (s *subject) allClosed(t *testing.T) {
	t.Helper()
	eventually(t, func() string {
		if n := s.open.Load(); n != 0 {
			return fmt.Sprintf("%d connections were left behind", n)
		}
		return ""
	})
}

func TestGoroutineSample(t *testing.T) {
	s := serve(t, itself())
	want := plants(t)
	probe := goroutineKind.New().(*Goroutine)
	var reading leak.Reading
	eventually(t, func() string {
		var err error
		if reading, err = probe.Sample(t.Context(), s.Target); err != nil {
			t.Fatal(err)
		}
		for source, groups := range reading.Sample.Groups {
			found := map[string]int64{}
			for _, g := range groups {
				stack, ok := reading.Stacks[g.Stack]
				if !ok {
					t.Fatalf("%s: the stack of %+v is missing", source, g)
				}
				if own(stack) {
					found[stack.State] += g.Count
				}
				if strings.Contains(fmt.Sprint(stack.Frames), "net/http/pprof") {
					t.Fatalf("%s: leakrig's own request is in the sample: %v", source, stack)
				}
			}
			if !maps.Equal(found, want) {
				return fmt.Sprintf("%s: found %v, planted %v", source, found, want)
			}
		}
		return ""
	})
	var total int64
	for _, g := range reading.Sample.Groups[SourceDump] {
		total += g.Count
	}
	if got := reading.Sample.Values["count"]; got != float64(total) || total < 20 {
		t.Errorf("count %v, in the groups %d", got, total)
	}
	// The raw files are what was served: the profile opens, and the dump reads the same once more.
	if len(reading.Files) != 2 || reading.Files[0].Name != "goroutine.pb.gz" || reading.Files[1].Name != "goroutine.txt.gz" {
		t.Fatalf("files %v", reading.Files)
	}
	if _, err := parsePprof(reading.Files[0].Data); err != nil {
		t.Error(err)
	}
	text, err := gunzip(reading.Files[1].Data, maxBody)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parseDump(text); err != nil || again.total != total {
		t.Errorf("the dump on disk: %v", err)
	}
	s.allClosed(t)
}

func TestGoroutinePoll(t *testing.T) {
	s := serve(t, itself())
	want := plants(t)
	probe := goroutineKind.New().(leak.Poller)
	eventually(t, func() string {
		poll, err := probe.Poll(t.Context(), s.Target, leak.Poll{})
		if err != nil {
			t.Fatal(err)
		}
		var total int64
		found := map[string]int64{}
		for _, g := range poll.Groups {
			total += g.Count
			if stack := poll.Stacks[g.Stack]; own(stack) {
				found[stack.State] += g.Count
			}
		}
		if poll.Source != SourceDump || poll.Total != total {
			t.Fatalf("source %s, total %d, in the groups %d", poll.Source, poll.Total, total)
		}
		if !maps.Equal(found, want) {
			return fmt.Sprintf("found %v, planted %v", found, want)
		}
		return ""
	})
	s.allClosed(t)
}

// After the first poll, each poll stops the subject once.
func TestPollReadsOneSource(t *testing.T) {
	for _, c := range []struct {
		limit           int
		profiles, dumps int64
	}{{20_000, 1, 4}, {1, 4, 0}} {
		var profiles, dumps atomic.Int64
		real := itself()
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("debug") == "2" {
				dumps.Add(1)
			} else {
				profiles.Add(1)
			}
			real.ServeHTTP(w, r)
		}))
		probe, poll := &Goroutine{DumpLimit: c.limit}, leak.Poll{}
		for range 4 {
			var err error
			if poll, err = probe.Poll(t.Context(), s.Target, poll); err != nil || poll.Total == 0 || len(poll.Groups) == 0 {
				t.Fatalf("%+v, %v", poll, err)
			}
		}
		if profiles.Load() != c.profiles || dumps.Load() != c.dumps {
			t.Errorf("limit %d: %d profiles and %d dumps were read", c.limit, profiles.Load(), dumps.Load())
		}
	}
}

// Without a whole text dump the profile is what counts, and the two are never mixed.
func TestWithoutDump(t *testing.T) {
	real := itself()
	var dumps atomic.Int64
	dumpIs := func(h http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("debug") != "2" {
				real.ServeHTTP(w, r)
				return
			}
			dumps.Add(1)
			h(w, r)
		})
	}
	block := []byte("goroutine 1 [select]:\nmain.f()\n\t/m.go:1 +0x1\n\n")
	for _, c := range []struct {
		name  string
		limit int
		dump  http.HandlerFunc
		asked int64
	}{
		// A dump stops the subject, the longer the more goroutines there are.
		{"more goroutines than dumpLimit", 1, real.ServeHTTP, 0},
		{"no dumps wanted", 0, real.ServeHTTP, 0},
		{"no dump served", 20_000, http.NotFound, 2},
		// The runtime gives up at 64 MiB and serves what it has: counts from it would be too low.
		{"a dump cut off by the runtime", 20_000, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat(block, dumpEnd/len(block)+1)[:dumpEnd])
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dumps.Store(0)
			s := serve(t, dumpIs(c.dump))
			probe := &Goroutine{DumpLimit: c.limit}
			reading, err := probe.Sample(t.Context(), s.Target)
			if err != nil {
				t.Fatal(err)
			}
			if len(reading.Sample.Groups) != 1 || len(reading.Sample.Groups[SourceProfile]) == 0 || len(reading.Files) != 1 {
				t.Errorf("groups of %v, %d files", reading.Sample.Groups, len(reading.Files))
			}
			var total int64
			for _, g := range reading.Sample.Groups[SourceProfile] {
				total += g.Count
			}
			if reading.Sample.Values["count"] != float64(total) || total == 0 {
				t.Errorf("count %v, in the profile %d", reading.Sample.Values["count"], total)
			}
			if c.asked != 1 { // 64 MiB once are enough
				poll, err := probe.Poll(t.Context(), s.Target, leak.Poll{})
				if err != nil || poll.Source != SourceProfile {
					t.Errorf("poll: %s, %v", poll.Source, err)
				}
			}
			if got := dumps.Load(); got != c.asked {
				t.Errorf("%d dumps were asked for, want %d", got, c.asked)
			}
			s.allClosed(t)
		})
	}
	if err := (&Goroutine{DumpLimit: -1}).Validate(); err == nil {
		t.Error("a negative dumpLimit is accepted")
	}
	if err := (&Goroutine{}).Validate(); err != nil {
		t.Errorf("no dumps at all: %v", err)
	}
}

// answer serves the same bytes everywhere.
func answer(status int, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	z, err := compress(data)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// profileOf is a real profile of this process.
func profileOf(t testing.TB, name string) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	itself().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/"+name, nil))
	return w.Body.Bytes()
}

// TestProbesRefuse checks that invalid data of a subject is an error that names the URL or has a hint, and leaves no
// connection.
func TestProbesRefuse(t *testing.T) {
	goroutine, heap := profileOf(t, "goroutine"), profileOf(t, "heap")
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		want  string
	}{
		{"not there", http.NotFound, "not served (404)"},
		{"an error of the subject", answer(500, []byte("oops")), "status 500"},
		{"a redirect to elsewhere", answer(302, nil), "status 302"},
		{"nothing", answer(200, nil), "not a"},
		{"garbage", answer(200, []byte("garbage")), "not a"},
		{"a page", answer(200, []byte("<!DOCTYPE html>")), "not a"},
		{"gzipped garbage", answer(200, zip(t, []byte("garbage"))), "not a"},
		{"a gzip header alone", answer(200, goroutine[:5]), "not a"},
		{"half a profile", answer(200, goroutine[:len(goroutine)/2]), "not a"},
		{"half a response", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(heap)
		}, "unexpected EOF"},
		{"a hang-up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		s := serve(t, c.serve)
		for name, probe := range map[string]leak.Probe{"goroutine": &Goroutine{DumpLimit: 9}, "heap": &Heap{}} {
			reading, err := probe.Sample(t.Context(), s.Target)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), s.Pprof) {
				t.Errorf("%s: %s: %v, %v", c.name, name, reading.Sample, err)
			}
		}
		s.allClosed(t)
	}
	// A real profile, but of something else.
	s := serve(t, answer(200, heap))
	if _, err := (&Goroutine{}).Sample(t.Context(), s.Target); err == nil || !strings.Contains(err.Error(), `no "goroutine" values`) {
		t.Errorf("a heap profile as goroutines: %v", err)
	}
	// Nothing listens there.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s.Target.Pprof = "http://" + l.Addr().String()
	if _, err := (&Heap{}).Sample(t.Context(), s.Target); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
}

// A deadlocked subject does not hang leakrig: the probe ends with the context.
func TestProbeOfHangingSubject(t *testing.T) {
	for _, first := range []string{"", "the start of an answer"} {
		asked, release := make(chan struct{}, 1), make(chan struct{})
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, first)
			_ = http.NewResponseController(w).Flush()
			asked <- struct{}{}
			<-release
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		_, err := (&Goroutine{}).Poll(ctx, s.Target, leak.Poll{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %q: %v", first, err)
		}
		close(release)
		s.allClosed(t)
	}
}

const (
	blockSize = 8 << 20 // far above the sampling rate, so that the profile has every one
	blocks    = 4
)

//go:noinline
func plantHeap() [][]byte {
	kept := make([][]byte, blocks)
	for i := range kept {
		kept[i] = make([]byte, blockSize)
	}
	return kept
}

func TestHeapSample(t *testing.T) {
	s := serve(t, itself())
	sample := func() leak.Reading {
		t.Helper()
		reading, err := (&Heap{}).Sample(t.Context(), s.Target)
		if err != nil {
			t.Fatal(err)
		}
		return reading
	}
	planted := func(r leak.Reading) (g leak.Group) {
		for _, group := range r.Sample.Groups[SourceHeap] {
			if r.Stacks[group.Stack].Top().Short() == "profiles.plantHeap" {
				g = group
			}
		}
		return g
	}
	before := sample()
	kept := plantHeap()
	during := sample()
	runtime.KeepAlive(kept)
	after := sample()

	const want = blocks * blockSize
	alloc := func(r leak.Reading) float64 { return r.Sample.Values["alloc"] }
	// Exact but for what the test process itself and its server keep.
	if grew := alloc(during) - alloc(before); grew < want-1<<20 || grew > want+4<<20 {
		t.Errorf("planted %d bytes, alloc grew by %.0f", want, grew)
	}
	if fell := alloc(during) - alloc(after); fell < want-4<<20 {
		t.Errorf("released %d bytes, alloc fell by %.0f", want, fell)
	}
	if g := planted(during); g.Count != blocks || g.Bytes < want || g.Bytes > want+want/100 {
		t.Errorf("planted %d blocks, %d bytes; the profile has %+v", blocks, want, g)
	}
	if b, a := planted(before), planted(after); !reflect.DeepEqual(a, b) || b.Count != 0 {
		t.Errorf("before %+v, after %+v", b, a)
	}
	if v := during.Sample.Values; v["objects"] < blocks || v["stack"] < 32<<10 || len(v) != 3 {
		t.Errorf("values %v", v)
	}
	if p, err := parsePprof(during.Files[0].Data); err != nil || during.Files[0].Name != "heap.pb.gz" || len(p.SampleType) != 4 {
		t.Errorf("file %s: %v", during.Files[0].Name, err)
	}
	s.allClosed(t)
}

// TestHeapSampleStacks checks the separate metric of goroutine stacks.
func TestHeapSampleStacks(t *testing.T) {
	s := serve(t, itself())
	stack := func() float64 {
		t.Helper()
		r, err := (&Heap{}).Sample(t.Context(), s.Target)
		if err != nil {
			t.Fatal(err)
		}
		return r.Sample.Values["stack"]
	}
	before := stack()
	end := make(chan struct{})
	var wg sync.WaitGroup
	const n = 1000
	for range n {
		wg.Go(func() { <-end })
	}
	after := stack()
	close(end)
	wg.Wait()
	if grew := after - before; grew < n*1<<10 {
		t.Errorf("%d goroutines, stack grew by %.0f bytes", n, grew)
	}
}

func TestProcessSample(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	sample := func() map[string]float64 {
		t.Helper()
		r, err := (&Process{}).Sample(t.Context(), leak.Target{Proc: os.DirFS("/proc/self")})
		if err != nil {
			t.Fatal(err)
		}
		return r.Sample.Values
	}
	debug.FreeOSMemory() // what earlier tests have freed is not to be touched again for free
	before := sample()
	const files = 10
	for range files {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	touched := bytes.Repeat([]byte{1}, 64<<20)
	after := sample()
	runtime.KeepAlive(touched)
	// Connections of earlier tests may close meanwhile.
	if grew := after["descriptors"] - before["descriptors"]; grew < 1 || grew > files {
		t.Errorf("opened %d files, descriptors grew by %v", files, grew)
	}
	if grew := after["rss"] - before["rss"]; grew < 16<<20 {
		t.Errorf("touched 64 MiB, rss grew by %v", grew)
	}
	if grew := after["files"] - before["files"]; grew < 1 || grew > files {
		t.Errorf("opened %d files, files grew by %v", files, grew)
	}
	if sum := after["sockets"] + after["files"] + after["pipes"] + after["eventfds"] + after["others"]; sum > after["descriptors"] || sum < after["descriptors"]-2 {
		t.Errorf("%v of %v descriptors have a kind", sum, after["descriptors"])
	}
	if _, native := after["native"]; after["threads"] < 2 || len(after) != 8 || native {
		t.Errorf("values %v", after)
	}
}

// TestNative checks that memory of the Go heap is not native, and that mapped memory is.
func TestNative(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	s := serve(t, itself())
	s.Target.Proc = os.DirFS("/proc/self")
	native := func() float64 {
		t.Helper()
		r, err := (&Process{}).Sample(t.Context(), s.Target)
		if err != nil {
			t.Fatal(err)
		}
		return r.Sample.Values["native"]
	}
	const size = 64 << 20
	debug.FreeOSMemory()
	before := native()
	touched := bytes.Repeat([]byte{1}, size)
	if grew := native() - before; grew > 4<<20 {
		t.Errorf("the Go heap grew, and native memory by %.0f", grew)
	}
	runtime.KeepAlive(touched)
	mapped, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mapped) }()
	for i := 0; i < size; i += 4096 {
		mapped[i] = 1
	}
	if grew := native() - before; grew < size/2 {
		t.Errorf("mapped %d bytes, native memory grew by %.0f", size, grew)
	}
	s.allClosed(t)
}

func TestDescriptorKinds(t *testing.T) {
	for link, want := range map[string]string{
		"socket:[123]": "sockets", "pipe:[4]": "pipes", "anon_inode:[eventfd]": "eventfds", "anon_inode:[eventpoll]": "others",
		"/dev/null": "files", "/tmp/x (deleted)": "files", "/memfd:x (deleted)": "others", "anon_inode:inotify": "others",
	} {
		if got := descriptorKind(link); got != want {
			t.Errorf("%s: %s, want %s", link, got, want)
		}
	}
}

func TestProcessSampleRefuses(t *testing.T) {
	whole := "Name:\tx\nVmRSS:\t     123 kB\nThreads:\t7\n"
	fd := &fstest.MapFile{Mode: os.ModeDir}
	for _, c := range []struct {
		name string
		proc fstest.MapFS
		want string
	}{
		{"no such process", fstest.MapFS{}, "not exist"},
		{"a zombie has no memory", fstest.MapFS{"status": {Data: []byte("State:\tZ\nThreads:\t1\n")}, "fd": fd}, "no VmRSS"},
		{"another user's process", fstest.MapFS{"status": {Data: []byte(whole)}}, "fd"},
		{"not a number", fstest.MapFS{"status": {Data: []byte("VmRSS: NaN kB\nThreads: 1\n")}, "fd": fd}, "invalid syntax"},
		{"negative", fstest.MapFS{"status": {Data: []byte("VmRSS: 1 kB\nThreads: -1\n")}, "fd": fd}, "invalid syntax"},
	} {
		r, err := (&Process{}).Sample(t.Context(), leak.Target{Proc: c.proc})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", c.name, r.Sample.Values, err)
		}
	}
	if _, err := (&Process{}).Sample(t.Context(), leak.Target{}); err == nil || leak.Hint(err) == "" {
		t.Errorf("without /proc: %v", err)
	}
	r, err := (&Process{}).Sample(t.Context(), leak.Target{Proc: fstest.MapFS{"status": {Data: []byte(whole)}, "fd/0": {Mode: os.ModeSymlink, Data: []byte("/dev/null")}, "fd/1": {Mode: os.ModeSymlink, Data: []byte("socket:[7]")}}})
	if want := map[string]float64{"rss": 123 << 10, "threads": 7, "descriptors": 2, "files": 1, "sockets": 1, "pipes": 0, "eventfds": 0, "others": 0}; err != nil || !maps.Equal(r.Sample.Values, want) {
		t.Errorf("%v, %v", r.Sample.Values, err)
	}
}

func FuzzStatus(f *testing.F) {
	if own, err := os.ReadFile("/proc/self/status"); err == nil {
		f.Add(string(own))
	}
	f.Add("VmRSS:\t     123 kB\nThreads:\t7\n")
	f.Add("VmRSS:kB\nThreads:")
	f.Fuzz(func(t *testing.T, status string) {
		for _, name := range []string{"VmRSS", "Threads"} {
			// NaN and infinity could not be written to the record.
			if v, err := statusField(status, name); err == nil && !(v >= 0 && v <= 1<<53) {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
}

// bomb is limit+1 zero bytes in some thousandth of that.
func bomb(t *testing.T, limit int) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	megabyte := make([]byte, 1<<20)
	for range limit >> 20 {
		if _, err := z.Write(megabyte); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = z.Write([]byte{0})
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGzipBomb(t *testing.T) {
	small := bomb(t, maxProfile)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := gunzip(small, 1<<20)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("within 1 MiB: %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("refusing it took %d MiB", used>>20)
	}
	if _, err := parsePprof(small); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("a profile: %v", err)
	}
}

func TestReadBounded(t *testing.T) {
	for _, c := range []struct {
		size int
		ok   bool
	}{
		{0, true}, {1 << 20, true}, // as much as the bound
		{1<<20 + 1, false}, {5 << 20, false},
	} {
		data, err := rundir.ReadBounded(bytes.NewReader(make([]byte, c.size)), 1<<20)
		if (err == nil) != c.ok || (c.ok && len(data) != c.size) {
			t.Errorf("%d bytes: %d, %v", c.size, len(data), err)
		}
	}
	if _, err := rundir.ReadBounded(io.MultiReader(strings.NewReader("x"), broken{}), 9); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("an error on the way: %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// Every kind has what `leakrig kinds` prints and what the judgement looks up.
func TestKinds(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name == "" || k.Doc == "" || len(k.Metrics) == 0 || k.New() == nil || k.New() == k.New() && k.Name == "goroutine" {
			t.Errorf("kind %+v", k)
		}
	}
}
