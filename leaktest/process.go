package leaktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// counter numbers the calls of Run in each test.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

var calls = counter{n: map[string]int{}}

func (c *counter) next(test string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[test]++
	return c.n[test]
}

// perform serves operations until the parent closes standard input, or ends, and then ends the test. Other calls of
// Run return at once.
func (k *task) perform(t *testing.T, call int, op Operation, c config) {
	if k.Test != t.Name() || k.Call != call {
		return
	}
	stop, err := serve(&performer{t: t, op: op, timeout: c.timeout}, k.Socket)
	if err != nil {
		t.Fatalf("leaktest: %v", err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
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
	for {
		select {
		case <-l.process.done:
			return nil, cmp.Or(l.process.Err(), errors.New("the process of the operations ended before the operation was reached"))
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), l.process.Stop(context.WithoutCancel(ctx)))
		case <-time.After(5 * time.Millisecond):
		}
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return l.process, nil
		}
	}
}

// args are those of the child: this test alone, and the flags of the test itself. It omits flags of package
// testing, which write files or choose tests.
func (l *launcher) args() []string {
	var pattern []string
	for _, part := range strings.Split(l.t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	args := []string{"-test.run=" + strings.Join(pattern, "/"), "-test.count=1", "-test.v", "-test.paniconexit0"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	rest := slices.Clone(os.Args[1:])
	return append(args, slices.DeleteFunc(rest, func(arg string) bool { return strings.HasPrefix(arg, "-test.") })...)
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
var framework = regexp.MustCompile(`(?m)^\s*(=== (RUN|PAUSE|CONT|NAME) .*|--- (SKIP|PASS): .*|PASS)\n`)

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

// stopGrace is how long the cleanups of a test may take in the child.
const stopGrace = 10 * time.Second

// Target is where operations and profiles are asked for.
func (p *process) Target() leak.Target { return p.target }

// Info is the test's.
func (p *process) Info() leak.SubjectInfo { return leak.SubjectInfo{} }

// Done is closed when the process has ended.
func (p *process) Done() <-chan struct{} { return p.done }

// Err returns why the process ended before Stop.
func (p *process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.stopped.Load() {
		return nil
	}
	return fmt.Errorf("the process of the operations ended: %s", p.cmd.ProcessState)
}

// Stop lets the cleanups of the test run, and ends the process.
func (p *process) Stop(context.Context) error {
	p.stopped.Store(true)
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the cleanups of the test did not end within %s in the process of the operations", stopGrace)
	}
	return nil
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
