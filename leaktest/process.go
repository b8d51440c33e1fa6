package leaktest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
	"github.com/leakrig/leakrig/rundir"
)

// The test binary starts itself again in the folder and with the environment that it was itself started with: the
// child makes the same changes to both as the test has made.
var (
	startFolder, _ = os.Getwd()
	startEnviron   = os.Environ()
)

// taskVariable has the task of a child process.
const taskVariable = "LEAKRIG_LEAKTEST"

// task is what a child process is for: the n-th call of Run in one test.
type task struct {
	Test   string
	Call   int
	Socket string
}

// assigned returns the task of this process, nil where it is not a child.
var assigned = sync.OnceValue(func() *task {
	text, ok := os.LookupEnv(taskVariable)
	if !ok {
		return nil
	}
	os.Unsetenv(taskVariable) // programs that the test starts may be test binaries, too
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		panic(fmt.Sprintf("leaktest: %s: %v", taskVariable, err))
	}
	return &t
})

// counter numbers the calls of Run in each test. With -count or -cpu, a test of the same name starts again from 1.
type counter struct {
	mu sync.Mutex
	n  map[*testing.T]int
}

var calls = counter{n: map[*testing.T]int{}}

func (c *counter) next(t *testing.T) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[t] == 0 {
		t.Cleanup(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.n, t)
		})
	}
	c.n[t]++
	return c.n[t]
}

// parentEnded is closed in a child when the parent closes its standard input or ends. A child that then hangs prints its
// goroutines and ends itself. Nobody would end it if the parent was killed.
var parentEnded = func() <-chan struct{} {
	ended := make(chan struct{})
	if assigned() != nil {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(ended)
			time.Sleep(stopGrace)
			_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 2)
			os.Exit(2)
		}()
	}
	return ended
}()

// perform serves operations until the parent wants no more, and then ends the test. Other calls of Run return at once.
func (k *task) perform(t *testing.T, call int, op Operation, c config) {
	if k.Test != t.Name() || k.Call != call {
		return
	}
	stop, err := serve(&performer{t: t, op: op, timeout: c.timeout}, k.Socket)
	if err != nil {
		t.Fatalf("leaktest: %v", err)
	}
	<-parentEnded
	stop()
	t.SkipNow() // what follows Run belongs to the parent
}

// serve performs operations on requests to a socket until stop.
func serve(p *performer, socket string) (stop func(), err error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	return func() { server.Close() }, nil
}

// launcher starts the process with the operation.
type launcher struct {
	t       *testing.T
	call    int
	op      Operation
	config  config
	folder  string
	process *process
	// failure is why the operation cannot be measured, nil if it can.
	failure error
}

// Build has nothing to do: the test binary is there.
func (l *launcher) Build(context.Context, leak.Variant) error { return nil }

// Start starts the process and waits until it serves operations.
func (l *launcher) Start(ctx context.Context, _ leak.Variant, _ leak.Cluster, log string) (leak.Subject, error) {
	var err error
	if l.folder, err = os.MkdirTemp("", "leaktest"); err != nil { // short, as the path of a socket must be
		return nil, err
	}
	socket := filepath.Join(l.folder, "socket")
	if l.config.inProcess {
		stop, err := serve(&performer{t: l.t, op: l.op, timeout: l.config.timeout}, socket)
		if err != nil {
			return nil, err
		}
		return &own{target: targetAt(socket), stop: stop, done: make(chan struct{})}, nil
	}
	l.process = &process{target: targetAt(socket), log: log, done: make(chan struct{})}
	if err := l.process.start(l.args(), task{Test: l.t.Name(), Call: l.call, Socket: socket}); err != nil {
		return nil, err
	}
	limit := startTime + 2*time.Since(began) // this process has got there, with other tests before
	late := time.After(limit)
	for {
		select {
		case <-l.process.done:
			l.failure = fmt.Errorf("the process of the operations did not reach this line: %s\nleaktest.InProcess does without that process", l.process.cmd.ProcessState)
			return nil, l.failure
		case <-late:
			l.failure = fmt.Errorf("the process of the operations did not reach this line within %s\nleaktest.InProcess does without that process", limit.Round(time.Second))
			_ = l.process.Stop(ctx)
			return nil, l.failure
		case <-ctx.Done():
			_ = l.process.Stop(ctx)
			return nil, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return l.process, nil
		}
	}
}

// args are those of the child: this test alone, and the flags of the test itself. Of package testing's, which write
// files or choose tests, it gets those that it shares with this process.
func (l *launcher) args() []string {
	var pattern []string
	for _, part := range strings.Split(l.t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	args := []string{"-test.run=" + strings.Join(pattern, "/"), "-test.count=1", "-test.v", "-test.paniconexit0"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	if dir := testFlag("gocoverdir"); dir != "" { // go test merges what all processes write there
		args = append(args, "-test.gocoverdir="+dir)
	}
	return append(args, withoutTestFlags(os.Args[1:])...)
}

// testFlag returns the value of a flag of package testing, "" without it.
func testFlag(name string) string {
	if f := flag.Lookup("test." + name); f != nil {
		return f.Value.String()
	}
	return ""
}

// withoutTestFlags returns the arguments without flags of package testing, and their values.
func withoutTestFlags(args []string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, assigned := strings.Cut(args[i], "=")
		name = strings.TrimPrefix(strings.TrimPrefix(name, "-"), "-")
		if name == "" || !strings.HasPrefix(args[i], "-") {
			return append(kept, args[i:]...) // flags end here
		}
		last := i
		if f := flag.Lookup(name); f != nil && !assigned {
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); !ok || !b.IsBoolFlag() {
				last = min(i+1, len(args)-1) // its value
			}
		}
		if !strings.HasPrefix(name, "test.") {
			kept = append(kept, args[i:last+1]...)
		}
		i = last
	}
	return kept
}

// maxOutput bounds how much of what the process has printed is shown.
const maxOutput = 16 << 10

// output is what the process has printed: its start and its end where it is long.
func (l *launcher) output() string {
	if l.process == nil {
		return ""
	}
	text, err := os.ReadFile(l.process.log) // bounded by rundir.OpenLog
	if err != nil {
		return ""
	}
	if len(text) > maxOutput {
		text = slices.Concat(text[:maxOutput/2], []byte("\n…\n"), text[len(text)-maxOutput/2:])
	}
	return strings.Trim(display.Printable(string(framework.ReplaceAll(text, nil))), "\n")
}

// framework matches what package testing prints about tests that do not fail.
var framework = regexp.MustCompile(`(?m)^\s*(=== (RUN|PAUSE|CONT|NAME) .*|--- (SKIP|PASS): .*|PASS|coverage: .* of statements.*)\n`)

// testFailed reports whether the test failed in the process with that output: for a cleanup, or the race detector. Tests
// around it may fail there, as they run without their other subtests.
func testFailed(output, test string) bool {
	return regexp.MustCompile(`(?m)^\s*--- FAIL: ` + regexp.QuoteMeta(test) + ` \(`).MatchString(output)
}

func (l *launcher) cleanUp() {
	if l.folder != "" {
		os.RemoveAll(l.folder)
	}
}

// process is a child process with the operation.
type process struct {
	target  leak.Target
	log     string
	cmd     *exec.Cmd
	stdin   io.Closer
	stopped atomic.Bool
	done    chan struct{}
	err     error // set before done is closed
}

// profileRate is how many bytes are allocated between two samples: tests allocate little.
const profileRate = 8 << 10

func (p *process) start(args []string, k task) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	log, err := rundir.OpenLog(p.log)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = startFolder, log, log, stopGrace
	godebug := strings.TrimPrefix(os.Getenv("GODEBUG")+",memprofilerate="+strconv.Itoa(profileRate), ",")
	p.cmd.Env = append(slices.Clone(startEnviron), taskVariable+"="+string(text), "GODEBUG="+godebug)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return errors.Join(err, log.Close())
	}
	if err := p.cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	if pid := p.cmd.Process.Pid; readsProc {
		p.target.Proc = os.DirFS(filepath.Join("/proc", strconv.Itoa(pid)))
		p.target.Process = func(context.Context) (string, error) { return "process " + strconv.Itoa(pid), nil }
	}
	go func() {
		p.err = p.cmd.Wait()
		log.Close()
		close(p.done)
	}()
	return nil
}

// stopGrace is how long the cleanups of a test may take in the child. startTime is how long the child may take to the
// call of Run, beyond what the parent took. dumpTime is how long a child that hangs may take to print its goroutines.
const (
	stopGrace = 5 * time.Second
	startTime = 30 * time.Second
	dumpTime  = 2 * time.Second
)

// began is when this process started.
var began = time.Now()

// Target is where operations and profiles are asked for.
func (p *process) Target() leak.Target { return p.target }

// Info is the test's.
func (p *process) Info() leak.SubjectInfo { return leak.SubjectInfo{} }

// Done is closed when the process has ended.
func (p *process) Done() <-chan struct{} { return p.done }

// Err returns why the process ended before Stop.
func (p *process) Err() error {
	if p.stopped.Load() {
		return nil
	}
	return p.ended()
}

// ended returns why the process ended as it should not have, nil if it runs or has ended well.
func (p *process) ended() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	switch code := p.cmd.ProcessState.ExitCode(); {
	case !p.stopped.Load():
		return fmt.Errorf("the process of the operations ended: %s", p.cmd.ProcessState)
	case code == 0 || code == 1: // 1: the test failed, see testFailed
		return nil
	default:
		return fmt.Errorf("the cleanups of the test did not end within %s in the process of the operations, or failed: %s", stopGrace, p.cmd.ProcessState)
	}
}

// Stop lets the cleanups of the test run, and ends the process.
func (p *process) Stop(context.Context) error {
	p.stopped.CompareAndSwap(false, p.running())
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(stopGrace + dumpTime):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return p.ended()
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// own is the process of the test itself.
type own struct {
	target leak.Target
	stop   func()
	done   chan struct{}
}

// Target is where operations and profiles are asked for.
func (o *own) Target() leak.Target { return o.target }

// Info is the test's.
func (o *own) Info() leak.SubjectInfo { return leak.SubjectInfo{} }

// Done is never closed.
func (o *own) Done() <-chan struct{} { return o.done }

// Err is always nil: if this process ended, nothing would be left to call it.
func (o *own) Err() error { return nil }

// Stop stops serving operations.
func (o *own) Stop(context.Context) error {
	o.stop()
	return nil
}

func targetAt(socket string) leak.Target {
	return leak.Target{
		URL: "http://localhost", Pprof: "http://localhost/debug/pprof",
		Transport: func() http.RoundTripper {
			return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}}
		},
	}
}
