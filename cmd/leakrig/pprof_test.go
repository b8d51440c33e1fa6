package main

import (
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// TestServePprof checks that leakrig serves pprof only on loopback, and that its child processes do not.
func TestServePprof(t *testing.T) {
	for _, address := range []string{"127.0.0.1", ":6061", "0.0.0.0:6061", "192.0.2.1:6061", "example.org:80", "127.0.0.1:nonsense"} {
		if err := servePprof(address); err == nil || leak.Hint(err) == "" {
			t.Errorf("%s: %v", address, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := servePprof(address); err == nil {
		t.Error("an address that is taken was taken")
	}
	l.Close()
	t.Setenv(pprofVariable, address)
	if err := servePprof(address); err != nil {
		t.Fatal(err)
	}
	if _, ok := os.LookupEnv(pprofVariable); ok {
		t.Error("it would be inherited")
	}
	resp, err := http.Get("http://" + address + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}
