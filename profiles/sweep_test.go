package profiles

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"runtime"
	runtimepprof "runtime/pprof"
	"strings"
	"sync"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func sweptBlocked(wg *sync.WaitGroup, stop chan struct{}) {
	defer wg.Done()
	<-stop
}

// A sweep reads what the goroutine probe reads, without a text dump, and refuses what is too large.
func TestSweep(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.String())
		mu.Unlock()
		pprof.Index(w, r)
	})
	mux.HandleFunc("/large/goroutine", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, sweepProfile+1)) })
	mux.HandleFunc("/bomb/goroutine", func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(make([]byte, sweepProfile+1))
		_ = z.Close()
		_, _ = w.Write(b.Bytes())
	})
	mux.HandleFunc("/text/goroutine", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	server := httptest.NewServer(mux)
	defer server.Close()
	at := func(path string) leak.Target {
		return leak.Target{Pprof: server.URL + path, Transport: func() http.RoundTripper { return &http.Transport{} }}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for range 17 {
		wg.Add(1)
		go sweptBlocked(&wg, stop)
	}
	release := make(chan struct{})
	defer close(release)
	for _, n := range []string{"41", "1007", "12", "-3", "Inf", "many"} {
		labelled := make(chan struct{})
		go runtimepprof.Do(t.Context(), runtimepprof.Labels("op", n), func(context.Context) {
			close(labelled)
			<-release
		})
		<-labelled
	}
	s := NewSweep("op")
	poll, err := s.Poll(t.Context(), at("/debug/pprof"), leak.Poll{})
	if err != nil {
		t.Fatal(err)
	}
	found, sum := int64(0), int64(0)
	for _, g := range poll.Groups {
		sum += g.Count
		if strings.Contains(poll.Stacks[g.Stack].Top().Func, "sweptBlocked") {
			found += g.Count
		}
	}
	if found != 17 || sum != poll.Total || poll.Source != SourceProfile {
		t.Errorf("%d of 17, %d of %d, from %s", found, sum, poll.Total, poll.Source)
	}
	if poll.Count != 1007 {
		t.Errorf("the largest label is %g", poll.Count)
	}
	if len(asked) != 1 || asked[0] != "/debug/pprof/goroutine" {
		t.Errorf("asked for %q", asked)
	}
	for path, want := range map[string]string{"/large": "larger than 4 MiB", "/bomb": "larger than 4 MiB", "/text": "not a pprof profile", "/nosuch": "404"} {
		if _, err := s.Poll(t.Context(), at(path), leak.Poll{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Poll(ctx, at("/debug/pprof"), leak.Poll{}); err == nil {
		t.Error("read after the end")
	}
}

// TestSweepHeap checks that a sweep reads allocation sites in KiB.
func TestSweepHeap(t *testing.T) {
	s := serve(t, itself())
	kept := plantHeap()
	runtime.GC() // twice: the profile has the heap after the last collection
	runtime.GC()
	poll, err := NewSweep("").Heap().Poll(t.Context(), s.Target, leak.Poll{})
	runtime.KeepAlive(kept)
	if err != nil {
		t.Fatal(err)
	}
	const want = blocks * blockSize >> 10
	for _, g := range poll.Groups {
		if poll.Stacks[g.Stack].Top().Short() == "profiles.plantHeap" {
			if g.Count < want || g.Count > want+want/50 || poll.Total < g.Count {
				t.Errorf("%d KiB of %d, planted %d", g.Count, poll.Total, want)
			}
			return
		}
	}
	t.Error("the planted memory is on no site")
}
