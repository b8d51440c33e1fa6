// Command faulty is a subject that goes wrong in the way that its argument names.
package main

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	fault := os.Args[1]
	if fault == "exits-at-start" {
		fmt.Println("cannot open the database")
		os.Exit(7)
	}
	mux := http.NewServeMux()
	if fault != "never-ready" {
		mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	}
	switch fault {
	case "no-pprof":
	case "garbage-pprof":
		mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "<html><script>alert(1)</script>\x1b[31mnot a profile</html>")
		})
	default:
		mux.HandleFunc("/debug/pprof/", pprof.Index)
	}
	var operations atomic.Int64
	if fault == "freezes" {
		time.AfterFunc(time.Second, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
	}
	mux.HandleFunc("/work", func(w http.ResponseWriter, r *http.Request) {
		switch n := operations.Add(1); {
		case fault == "dies-in-round-2" && n == 15: // 5 of warm-up, 5 of round 1, the last of round 2
			fmt.Println("\x1b[31mpanic: out of cheese")
			os.Exit(2)
		case fault == "tells" && n == 15: // secrets, and dies
			fmt.Println("panic: the token is", os.Getenv("API_TOKEN"), "and the header", r.Header.Get("Authorization"))
			os.Exit(2)
		case fault == "fails":
			http.Error(w, "no such table", http.StatusInternalServerError)
		case fault == "slow":
			time.Sleep(300 * time.Millisecond)
		case fault == "hangs" && n > 10: // from round 2 on
			<-r.Context().Done()
		case fault == "leaks":
			go func() { select {} }()
		}
	})
	if err := http.ListenAndServe(os.Getenv("LEAKRIG_LISTEN"), mux); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
