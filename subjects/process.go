package subjects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/group"
	"github.com/leakrig/leakrig/leak/httpclient"
	"github.com/leakrig/leakrig/leak/procs"
	"github.com/leakrig/leakrig/rundir"
)

// stopGrace is how long a subject may take to end on SIGTERM.
const stopGrace = 5 * time.Second

// readyTimeout bounds one question whether the subject is ready.
const readyTimeout = 5 * time.Second

// maxIdle lets an action keep a connection for each of its concurrent operations.
const maxIdle = 10_000

// Process is a program to start on this machine.
type Process struct {
	leak.Launch
	// Kubeconfig is given as KUBECONFIG; "" hides the user's own behind an empty file.
	Kubeconfig string
}

// address is where the program listens.
func (p Process) address() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(p.Port))
}

// Start starts the program in a separate process group and waits until it is ready.
func (p Process) Start(ctx context.Context) (leak.Subject, error) {
	var err error
	if p.Port, err = choosePort(p.Port); err != nil {
		return nil, err
	}
	output, logged, err := logTo(p.Log)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, arg := range p.Args {
		args = append(args, p.Fill(arg, p.Port))
	}
	cmd := exec.Command(p.Program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	mark := newMark()
	cmd.Env = append(p.environ(), mark)
	cmd.SysProcAttr = group.Own()
	r := &running{
		process: p, cmd: cmd, mark: mark, done: make(chan struct{}), logged: logged, address: p.address(),
	}
	err = r.start()
	output.Close() // the subject has it: the log ends when the subject does
	if err != nil {
		return nil, leak.WithHint(fmt.Errorf("start %s: %w", filepath.Base(p.Program), err), "is the program there, and may it be run?")
	}
	err = r.waitReady(ctx)
	if err == nil {
		err = r.findListener()
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// logGrace is how long the last output of a subject that has ended is waited for.
const logGrace = time.Second

// logTo returns a file for the output of a subject, and a channel that is closed when the log has all of it. The caller
// closes the file after the start of the subject. The file is a pipe, because the size of the log could not be limited
// if the subject wrote to it directly.
func logTo(path string) (output *os.File, logged <-chan struct{}, err error) {
	log, err := rundir.OpenLog(path)
	if err != nil {
		return nil, nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer log.Close()
		defer from.Close()
		if _, err := io.Copy(log, from); err != nil { // the disk is full: the subject must not wait for it
			_, _ = io.Copy(io.Discard, from)
		}
	}()
	return to, done, nil
}

// Ports of subjects are below the range of outgoing connections: between the check that a port is free and the
// subject's listen, a connection of another subject could take it.
const (
	firstPort = 20000
	manyPorts = 12000
)

// choosePort returns fixed, or a free port if fixed is 0.
func choosePort(fixed int) (int, error) {
	for range 100 {
		if fixed != 0 {
			break
		}
		if port, err := free(firstPort + rand.IntN(manyPorts)); err == nil {
			return port, nil
		}
	}
	port, err := free(fixed)
	if err != nil {
		return 0, leak.WithHint(fmt.Errorf("port %d is unavailable: %w", fixed, err),
			"end what listens there, or leave subject.port out for a free one")
	}
	return port, nil
}

// free returns the port, or any free one for 0. It returns an error if the port is in use.
func free(port int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// environ is leakrig's own environment without what leads to a cluster, so that no subject ever reaches
// one that the scenario does not name: KUBECONFIG is always set, since client-go falls back to
// ~/.kube/config without it, and then to the cluster that leakrig itself may run in.
func (p Process) environ() []string {
	kubeconfig := cmp.Or(p.Kubeconfig, os.DevNull)
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KUBERNETES_SERVICE_") })
	env = append(env,
		"KUBECONFIG="+kubeconfig,
		"PORT="+strconv.Itoa(p.Port),
		"LEAKRIG_LISTEN="+p.address().String(),
		"GODEBUG="+leak.WithProfileRate(os.Getenv("GODEBUG")))
	for name, value := range p.Env {
		if name == "GODEBUG" {
			value = leak.WithProfileRate(value)
		}
		env = append(env, name+"="+p.Fill(value, p.Port))
	}
	return env
}

// running is a started process.
type running struct {
	process Process
	cmd     *exec.Cmd
	address netip.AddrPort
	// root is the started process, mark the variable that its descendants inherit, and listener the process that
	// serves: root itself, or a child of a script. A zero Process is unknown.
	root     procs.Process
	mark     string
	listener procs.Process
	// serving names the process that listens now, nil if this is unknown.
	serving func(context.Context) (string, error)
	stopped atomic.Bool
	done    chan struct{}
	left    error // set before done is closed: what could not be ended
	// logged is closed once all of its output is in the log.
	logged <-chan struct{}
}

// start starts the command on a thread that lives as long as the command: the kernel kills the child when the thread
// that created it ends (see ownGroup).
func (r *running) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		if err == nil {
			r.root, _ = procs.Find(r.cmd.Process.Pid)
		}
		started <- err
		if err != nil {
			return
		}
		_ = r.cmd.Wait() // Err tells from ProcessState how it ended
		// Kill everything that the program started, also after a crash.
		group.Kill(r.cmd.Process.Pid)
		r.left = procs.KillTree(r.root, r.mark)
		select {
		case <-r.logged:
		case <-time.After(logGrace): // something that it started holds the pipe still
		}
		close(r.done)
	}()
	return <-started
}

func (r *running) Target() leak.Target {
	base := "http://" + r.address.String()
	return leak.Target{
		URL:        base,
		Pprof:      base + strings.TrimSuffix(r.process.Pprof, "/"),
		Kubeconfig: r.process.Kubeconfig,
		Transport:  func() http.RoundTripper { return &http.Transport{MaxIdleConnsPerHost: maxIdle} },
		Proc:       procOf(r.listener),
		Process:    r.serving,
		Freeze:     r.freeze,
	}
}

// freeze stops or continues the processes of the program.
func (r *running) freeze(stop bool) error {
	select {
	case <-r.done:
		return errors.New("the subject has ended")
	default:
	}
	return group.Freeze(r.cmd.Process.Pid, stop)
}

func (r *running) Info() leak.SubjectInfo { return r.process.Info }

func (r *running) Done() <-chan struct{} { return r.done }

func (r *running) Err() error {
	select {
	case <-r.done:
	default:
		return nil
	}
	if r.stopped.Load() {
		return nil
	}
	hint := "see " + r.process.Log
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		hint = "leakrig did not kill it: the kernel kills processes when memory runs out, see `dmesg`; " + hint
	}
	return leak.WithHint(fmt.Errorf("%s died: %s%s", r.process.What(), r.cmd.ProcessState, rundir.LogTail(r.process.Log)), "%s", hint)
}

// waitReady polls until the subject answers 200, dies, or takes too long.
func (r *running) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.process.ReadyTimeout)
	defer cancel()
	target := r.Target()
	client := httpclient.New(target.Transport())
	client.Timeout = readyTimeout
	defer client.CloseIdleConnections()
	last := errors.New("no answer")
	if _, err := url.Parse(target.URL + r.process.Ready); err != nil {
		return err
	}
	for {
		if r.process.Ready == "" {
			conn, err := (&net.Dialer{Timeout: readyTimeout}).DialContext(ctx, "tcp", r.address.String())
			if err == nil {
				return conn.Close()
			}
		}
		resp, err := httpclient.Get(ctx, client, target.URL+r.process.Ready, nil)
		var redirect *httpclient.RedirectError
		switch {
		case errors.As(err, &redirect):
			last = redirect
		case err != nil: // it does not listen yet
		case resp.StatusCode == http.StatusOK:
			return resp.Body.Close()
		default:
			resp.Body.Close()
			last = fmt.Errorf("status %s", resp.Status)
		}
		select {
		case <-r.done:
			return r.Err()
		case <-ctx.Done():
			if ctx.Err() == context.Canceled {
				return context.Cause(ctx)
			}
			return r.process.NotReady(last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the whole process group: SIGTERM, then SIGKILL after a grace period or when ctx ends.
func (r *running) Stop(ctx context.Context) error {
	select {
	case <-r.done:
		return nil // by itself, which Err goes on telling
	default:
	}
	r.stopped.Store(true)
	group.Terminate(r.cmd.Process.Pid)
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-r.done:
		return r.left
	case <-ctx.Done():
	}
	group.Kill(r.cmd.Process.Pid)
	<-r.done
	return r.left
}
