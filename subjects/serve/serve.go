// Package serve turns a program into a leakrig subject: it listens at the address from leakrig, answers a readiness
// probe, and serves net/http/pprof in addition to the program's operations.
//
// A subject looks like this:
//
//	func main() {
//		mux := http.NewServeMux()
//		mux.HandleFunc("POST /work", work) // one request is one operation
//		serve.Main(mux)
//	}
//
// A program that cannot use this package, which has no dependencies, implements the same contract: listen on
// $LEAKRIG_LISTEN (host:port; $PORT is only the port), answer 200 on /healthz when ready for load, import _
// "net/http/pprof", and exit on SIGTERM. A scenario can change the paths (subject.ready, subject.pprof). $KUBECONFIG
// is the kubeconfig of the cluster, or an empty file if the scenario has none.
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
