package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// pprofVariable names the address at which leakrig itself can be read.
const pprofVariable = "LEAKRIG_PPROF"

// servePprof serves leakrig's own net/http/pprof at an address on loopback, so that leakrig can observe leakrig; ""
// serves nothing. Child processes do not inherit the variable.
func servePprof(address string) error {
	if address == "" {
		return nil
	}
	os.Unsetenv(pprofVariable)
	bad := func(err error) error {
		return &leak.UsageError{Err: leak.WithHint(fmt.Errorf("%s=%s: %w", pprofVariable, address, err), "an address on this machine, as in 127.0.0.1:6061; everyone who can read pprof can read leakrig's memory")}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return bad(err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return bad(errors.New("not an address on loopback"))
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return bad(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	return nil
}
