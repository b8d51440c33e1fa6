// Command phoenix is a subject that leaks a goroutine with every request to /work and restarts after every twelve:
// phoenix exit exits, for a loop around it, and phoenix exec executes itself in the same process. phoenix daemon leaves
// a child in another session without a parent; its number is in the file daemon.pid. phoenix tame does not restart.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "daemon":
		start(false, "fork")
	case "fork": // the first child, which ends, so that the second has no parent
		child := start(true, "sleep")
		mustNot(os.WriteFile("daemon.pid", []byte(strconv.Itoa(child.Pid)), 0o600))
		return
	case "sleep":
		time.Sleep(10 * time.Minute)
		return
	}
	address := os.Getenv("LEAKRIG_LISTEN")
	if len(os.Args) > 2 {
		address = os.Args[2]
	}
	listener, err := listen(address)
	mustNot(err)
	var operations atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	mux.HandleFunc("/work", func(http.ResponseWriter, *http.Request) {
		if os.Args[1] != "tame" {
			go func() { select {} }()
		}
		if operations.Add(1) != 12 {
			return
		}
		switch os.Args[1] {
		case "exit":
			time.AfterFunc(20*time.Millisecond, func() { os.Exit(0) })
		case "exec":
			time.AfterFunc(20*time.Millisecond, func() { mustNot(syscall.Exec("/proc/self/exe", os.Args, os.Environ())) })
		}
	})
	mustNot(http.Serve(listener, mux))
}

// listen waits for an address that the one before may still have.
func listen(address string) (l net.Listener, err error) {
	for range 100 {
		if l, err = net.Listen("tcp", address); err == nil {
			return l, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, err
}

func start(session bool, mode string) *os.Process {
	child := exec.Command("/proc/self/exe", mode)
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	mustNot(child.Start())
	if !session {
		mustNot(child.Wait())
	}
	return child.Process
}

func mustNot(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
