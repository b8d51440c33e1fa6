package subjects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// stopGrace is how long a subject may take to end on SIGTERM.
const stopGrace = 5 * time.Second

// profileRate is how many bytes are allocated between two heap samples of a subject that the rig
// starts: an eighth of Go's default, so that a leak of some hundred KiB is attributed.
const profileRate = 64 << 10

// Process says how to start a program on this machine.
type Process struct {
	// Name is the variant's, for messages.
	Name string
	// Command is the program and its arguments.
	Command []string
	Env     map[string]string
	// Port is where it shall listen on loopback, 0 for a free one.
	Port         int
	Pprof, Ready string
	ReadyTimeout time.Duration
	// Kubeconfig is given as KUBECONFIG; "" hides the user's own behind an empty file.
	Kubeconfig string
	// Log is the file for its output.
	Log string
	// Info is kept for the record.
	Info leak.SubjectInfo
}

// Start starts the program in a process group of its own and waits until it is ready.
func (p Process) Start(ctx context.Context) (leak.Subject, error) {
	port, err := choosePort(p.Port)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = p.environ(port)
	cmd.SysProcAttr = ownGroup()
	r := &running{process: p, cmd: cmd, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), done: make(chan struct{})}
	if err := r.start(); err != nil {
		return nil, leak.WithHint(fmt.Errorf("start %s: %w", filepath.Base(p.Command[0]), err), "is the program there, and may it be run?")
	}
	if err := r.waitReady(ctx); err != nil {
		return nil, errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

func choosePort(fixed int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(fixed)))
	if err != nil {
		return 0, leak.WithHint(fmt.Errorf("port %d cannot be had: %w", fixed, err),
			"end what listens there, or leave subject.port out for a free one")
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// environ is the rig's own environment without what leads to a cluster, so that no subject ever reaches
// one that the scenario does not name: KUBECONFIG is always set, since client-go falls back to
// ~/.kube/config without it, and then to the cluster that the rig itself may run in.
func (p Process) environ(port int) []string {
	kubeconfig := cmp.Or(p.Kubeconfig, os.DevNull)
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KUBERNETES_SERVICE_") })
	env = append(env,
		"KUBECONFIG="+kubeconfig,
		"PORT="+strconv.Itoa(port),
		"LEAKRIG_LISTEN="+net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		"GODEBUG="+withProfileRate(os.Getenv("GODEBUG")))
	for name, value := range p.Env {
		if name == "GODEBUG" {
			value = withProfileRate(value)
		}
		env = append(env, name+"="+value)
	}
	return env
}

func withProfileRate(godebug string) string {
	if strings.Contains(godebug, "memprofilerate=") {
		return godebug
	}
	return strings.TrimPrefix(godebug+",memprofilerate="+strconv.Itoa(profileRate), ",")
}

// running is a started process.
type running struct {
	process Process
	cmd     *exec.Cmd
	address string
	stopped atomic.Bool
	done    chan struct{}
}

// start starts the command on a thread that lives as long as it does: the kernel kills the child when
// the thread that made it ends (see ownGroup).
func (r *running) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = r.cmd.Wait() // Err tells from ProcessState how it ended
		// Whatever the program started goes with it, however it ended.
		killGroup(r.cmd.Process.Pid)
		close(r.done)
	}()
	return <-started
}

func (r *running) Target() leak.Target {
	base := "http://" + r.address
	return leak.Target{
		URL:       base,
		Pprof:     base + strings.TrimSuffix(r.process.Pprof, "/"),
		Transport: func() *http.Transport { return &http.Transport{} },
		Proc:      r.proc(),
	}
}

func (r *running) proc() fs.FS {
	dir := filepath.Join("/proc", strconv.Itoa(r.cmd.Process.Pid))
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	return os.DirFS(dir)
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
	return leak.WithHint(fmt.Errorf("subject %s died: %s%s", r.process.Name, r.cmd.ProcessState, r.lastWords()), "see %s", r.process.Log)
}

// lastWords are the last lines of the log, for the error message.
func (r *running) lastWords() string {
	f, err := os.Open(r.process.Log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-2048), io.SeekStart)
	}
	data, _ := io.ReadAll(io.LimitReader(f, 2048))
	if last := strings.TrimSpace(lastLines(string(data), 4)); last != "" {
		return "\nits last words:\n" + last
	}
	return ""
}

// waitReady polls until the subject answers 200, dies, or takes too long.
func (r *running) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.process.ReadyTimeout)
	defer cancel()
	target := r.Target()
	transport := target.Transport()
	transport.DisableKeepAlives = true
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	last := "no answer"
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.URL+r.process.Ready, nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			last = "status " + resp.Status
		}
		select {
		case <-r.done:
			return r.Err()
		case <-ctx.Done():
			if ctx.Err() == context.Canceled {
				return context.Cause(ctx)
			}
			return leak.WithHint(
				fmt.Errorf("subject %s did not become ready in %s: GET %s: %s", r.process.Name, r.process.ReadyTimeout, r.process.Ready, last),
				"see %s; subject.ready and subject.readyTimeout change what is waited for", r.process.Log)
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
	terminateGroup(r.cmd.Process.Pid)
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
	}
	killGroup(r.cmd.Process.Pid)
	<-r.done
	return nil
}
