package holders

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// A program with its own mux that knows nothing of heap dumps.
const ownMux = `package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + l.Addr().String() + "/debug/pprof")
	http.Serve(l, mux)
}
`

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestOverlay builds a program with the endpoint and dumps its heap.
func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/own\n\ngo 1.24\n", "main.go": ownMux} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goroot := goroot(t)
	overlay, err := Overlay(goroot, dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Overlay(goroot, dir); err != nil || again != overlay {
		t.Errorf("the second time: %s, %v", again, err)
	}
	build := exec.Command("go", "build", "-trimpath", "-overlay="+overlay, "-o", "own", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program := exec.CommandContext(t.Context(), filepath.Join(dir, "own"))
	stdout, err := program.StdoutPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Process.Kill(); _ = program.Wait() }()
	line := make([]byte, 200)
	n, err := stdout.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	target := leak.Target{Pprof: strings.TrimSpace(string(line[:n])), Program: program.Path, Transport: func() http.RoundTripper { return &http.Transport{} }}
	if runtime.GOOS == "linux" {
		baseline, err := Dump(t.Context(), target, nil)
		if err != nil {
			t.Fatal(err)
		}
		symbols := baseline.(processDump).binary
		target.Program = "" // the next dump does not read it again
		if dump, err := Dump(t.Context(), target, baseline); err != nil || symbols == nil || dump.(processDump).binary != symbols {
			t.Errorf("%v, %v", dump, err)
		}
	}
	// Everything else of net/http/pprof is as before.
	resp, err := http.Get(target.Pprof + "/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(string(text), "goroutine profile: total") {
		t.Errorf("%.60s, %v", text, err)
	}
}

// The lines of net/http/pprof stay where they are, and a file that is too different is refused.
func TestServeHeapDump(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(goroot(t), "src", pprofFile))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := serveHeapDump(source)
	if err != nil {
		t.Fatal(err)
	}
	if before, after := strings.Count(string(source), "\n"), strings.Count(string(changed), "\n"); before != after {
		t.Errorf("%d lines became %d", before, after)
	}
	for _, text := range []string{"", "package pprof", "package pprof\n\nfunc (h handler) ServeHTTP() {}\n"} {
		if _, err := serveHeapDump([]byte(text)); err == nil {
			t.Errorf("%q: changed", text)
		}
	}
}
