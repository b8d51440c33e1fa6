// Package serve is what a program needs to be a leakrig subject: it listens where the rig says,
// answers a readiness probe, and serves net/http/pprof beside the program's own operations.
//
// A subject of one's own looks like this:
//
//	func main() {
//		mux := http.NewServeMux()
//		mux.HandleFunc("POST /work", work) // one request is one operation
//		serve.Main(mux)
//	}
//
// A program that cannot use this package, which has no dependencies, meets the same contract by hand:
// listen on $LEAKRIG_LISTEN (host:port; $PORT is the port alone), answer 200 on /healthz once load can
// come, import _ "net/http/pprof", and end on SIGTERM. Paths can be changed in the scenario
// (subject.ready, subject.pprof). $KUBECONFIG names the cluster; where the scenario has none it is an
// empty file.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main serves mux, pprof and /healthz until SIGTERM or SIGINT, and exits the program with status 1 when
// it cannot listen.
func Main(mux *http.ServeMux) {
	if err := run(mux); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(mux *http.ServeMux) error {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", address())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func address() string {
	if a := os.Getenv("LEAKRIG_LISTEN"); a != "" {
		return a
	}
	if p := os.Getenv("PORT"); p != "" {
		return net.JoinHostPort("127.0.0.1", p)
	}
	return "127.0.0.1:8080"
}
