package subjects

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// modeVar makes the test binary play a part: the tests start it again, as a subject that behaves in
// one of many ways, or as a rig.
const modeVar = "LEAKRIG_TEST_MODE"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(modeVar); mode {
	case "":
		os.Exit(m.Run())
	case "rig":
		playRig()
	default:
		playSubject(mode)
	}
}

// playSubject is a program under observation.
func playSubject(mode string) {
	status := http.StatusOK
	mux := http.NewServeMux()
	switch mode {
	case "exits":
		fmt.Println("starting\nreading the configuration\nmore\nand more\nfatal: no such flag")
		os.Exit(3)
	case "commands":
		fmt.Print("::stop-commands::x\n  ::set-output name=a::b\n\x1b[2J##[error]gone\n##vso[task.complete]")
		os.Exit(3)
	case "talks":
		fmt.Println("the first line")
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 200 << 10 {
			_, _ = os.Stdout.Write(line)
		}
		fmt.Println("the last line")
	case "redirects":
		mux.Handle("/ready", http.RedirectHandler("http://127.0.0.1:1/secret?token=x", http.StatusFound))
	case "deaf": // listens nowhere, and does not mind SIGTERM
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour) // select {} would be a deadlock to Go
	case "unready":
		status = http.StatusServiceUnavailable
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "parent":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), modeVar+"=deaf")
		if err := child.Start(); err != nil {
			panic(err)
		}
		mux.HandleFunc("/child", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, child.Process.Pid) })
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	mux.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	mux.HandleFunc("/args", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Join(os.Args[1:], " ")) })
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Join(os.Environ(), "\n")) })
	mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
		fmt.Println("fatal: out of cheese")
		os.Exit(7)
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	fmt.Println("listening")
	fmt.Println(http.ListenAndServe(os.Getenv("LEAKRIG_LISTEN"), mux))
}

// playRig starts a subject, says where its process is, and waits to be killed.
func playRig() {
	dir := os.Getenv("LEAKRIG_TEST_DIR")
	s, err := start(context.Background(), "ready", dir, func(*leak.SubjectSpec) {})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// Other goroutines come and go; none of their threads may take the subject along.
	for range 20 {
		go func() { time.Sleep(time.Millisecond) }()
	}
	fmt.Println(s.Target().URL)
	select {}
}

// start starts this test binary in mode through the launcher; the log is in dir.
func start(ctx context.Context, mode, dir string, change func(*leak.SubjectSpec)) (leak.Subject, error) {
	spec := leak.SubjectSpec{
		Command: []string{os.Args[0]}, Env: map[string]string{modeVar: mode},
		Pprof: "/debug/pprof", Ready: "/healthz", ReadyTimeout: leak.Duration(30 * time.Second),
	}
	change(&spec)
	l := &Launcher{Spec: spec, Scratch: dir}
	v := leak.Variant{Name: "leaky"}
	if err := l.Build(ctx, v); err != nil {
		return nil, err
	}
	return l.Start(ctx, v, nil, logOf(dir))
}

func logOf(dir string) string { return filepath.Join(dir, "subject.log") }

// fakeCluster is a cluster as far as a process sees it: a kubeconfig.
type fakeCluster struct{ leak.Cluster }

func (fakeCluster) Kubeconfig() string { return "/run/kubeconfig" }
