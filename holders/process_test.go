package holders

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/leakrig/leakrig/holders/heapdump"
	"github.com/leakrig/leakrig/leak"
)

func TestEndpoints(t *testing.T) {
	for pprof, want := range map[string][]string{
		"http://host:6060/debug/pprof": {"http://host:6060/debug/leakrig/heapdump", "http://host:6060/debug/pprof/heap?leakrig-heapdump=1"},
		"https://host/api/v1/nodes/n/proxy/debug/pprof/": {
			"https://host/api/v1/nodes/n/proxy/debug/leakrig/heapdump", "https://host/api/v1/nodes/n/proxy/debug/pprof/heap?leakrig-heapdump=1",
		},
		"http://host/metrics/profiles": {"http://host/debug/leakrig/heapdump", "http://host/metrics/profiles/heap?leakrig-heapdump=1"},
	} {
		if got, err := endpoints(pprof); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", pprof, got, err, want)
		}
	}
}

// Programs that answer every path with their own page serve no heap dumps.
func TestNoEndpoint(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no such path":  http.NotFound,
		"a page":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"it is refused": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
	} {
		server := httptest.NewServer(handler)
		target := leak.Target{Pprof: server.URL + "/debug/pprof", Transport: func() http.RoundTripper { return &http.Transport{} }}
		dump, err := Dump(t.Context(), target, nil)
		server.Close()
		if dump != nil || err == nil || (name != "it is refused") != (err == ErrNoEndpoint) {
			t.Errorf("%s: %v, %v", name, dump, err)
		}
	}
}

func TestSince(t *testing.T) {
	made := []leak.Frame{{Func: "main.render", File: "main.go", Line: 52}}
	blocked := leak.Stack{State: "chan send", Frames: []leak.Frame{{Func: "lib.(*Watcher).receive"}}, Creator: &leak.Frame{Func: "lib.New"}}
	profiled := leak.Stack{State: "chan send", Frames: blocked.Frames}
	allocated := leak.Stack{Frames: made}
	stacks := map[string]leak.Stack{"dump": blocked, "profile": profiled, "site": allocated, "other": {State: "select", Frames: blocked.Frames, Creator: &leak.Frame{Func: "lib.Other"}}}
	receive := Holder{Kind: KindGoroutines, Name: "lib.(*Watcher).receive", Count: 40, Creator: "lib.New", Stack: []string{"runtime.gopark", "lib.(*Watcher).receive", "lib.New.gowrap1"}}
	site := func(bytes float64) Site {
		return Site{Frames: made, Holdings: []Holding{{Holders: []Holder{receive}, Bytes: bytes, Objects: bytes / 64, Sampled: int(bytes / 1024)}}}
	}
	before := processDump{Summary: &Summary{Sites: []Site{site(1 << 10)}}}
	after := processDump{Summary: &Summary{Sites: []Site{site(64 << 10)}, Roots: []Retained{{Holder: receive, Bytes: 40 << 10}}}}
	h := after.Since(before, stacks)
	if len(h.Growth) != 1 || h.Growth[0].Stack != "site" || h.Growth[0].Goroutines != "dump" || h.Growth[0].Holder != "40 goroutines at lib.(*Watcher).receive" || h.Growth[0].Bytes != 63<<10 {
		t.Errorf("growth %+v", h.Growth)
	}
	if len(h.Goroutines) != 1 || h.Goroutines[0].Stack != "dump" || h.Goroutines[0].Each() != 1024 {
		t.Errorf("goroutines %+v", h.Goroutines)
	}
	if h := after.Since(nil, stacks); h.Problem == "" {
		t.Error("growth without a baseline")
	}
}

// TestHeaders checks what the endpoint tells next to a dump.
func TestHeaders(t *testing.T) {
	server := httptest.NewServer(heapdump.Handler())
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, name := range []string{heapdump.PauseHeader, heapdump.RateHeader, heapdump.PIDHeader, "Content-Length"} {
		if resp.Header.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
	if !IsDump(resp.Body) {
		t.Error("not a heap dump")
	}
}
