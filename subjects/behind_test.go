package subjects

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// The process behind an address of this machine is found by its socket, and no other is taken for it.
func TestBehind(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	server := httptest.NewServer(mux)
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "app.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	unix := &http.Server{Handler: mux}
	go func() { _ = unix.Serve(l) }()
	defer unix.Close()
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another\x00program")) }))
	defer liar.Close()
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	proxied := httptest.NewServer(httputil.NewSingleHostReverseProxy(at))
	defer proxied.Close()

	for _, tt := range []struct {
		name, address string
		pid           int
		want          string // of the error; "" is found
	}{
		{"by its port", server.URL, 0, ""},
		{"localhost", "http://localhost:" + at.Port(), 0, ""},
		{"a socket", "unix://" + socket, 0, ""},
		{"by its number", server.URL, os.Getpid(), ""},
		{"another process", server.URL, os.Getppid(), "is another one"},
		{"one that does not exist", server.URL, 1 << 30, "no such"},
		{"pprof of another program", liar.URL, 0, "is another one"},
		{"no pprof", nothing.URL, 0, "404"},
		{"another machine", "http://192.0.2.1:6060", 0, "another machine"},
		{"nobody listens", "http://127.0.0.1:1", 0, "no process listens"},
	} {
		p, err := Behind(t.Context(), tt.address, "/debug/pprof", leak.Access{}, tt.pid)
		switch {
		case tt.want == "" && (err != nil || p.PID != os.Getpid()):
			t.Errorf("%s: %s: %v", tt.name, p, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %s: %v, want %q", tt.name, p, err, tt.want)
		}
	}
}
