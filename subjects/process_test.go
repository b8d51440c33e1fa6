package subjects

import (
	"bufio"
	"context"
	"errors"
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
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

func asIs(*leak.SubjectSpec) {}

// mustStart starts a subject and stops it with the test.
func mustStart(t *testing.T, mode string, change func(*leak.SubjectSpec)) (s leak.Subject, log string) {
	t.Helper()
	dir := t.TempDir()
	s, err := start(t.Context(), mode, dir, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = s.Stop(ctx)
	})
	return s, logOf(dir)
}

func get(t *testing.T, s leak.Subject, path string) string {
	t.Helper()
	client := &http.Client{Transport: s.Target().Transport(), Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(s.Target().URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func pid(t *testing.T, s leak.Subject, path string) int {
	t.Helper()
	n, err := strconv.Atoi(get(t, s, path))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gone waits until the process is there no more; a zombie that waits for its parent counts as gone.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func ended(t *testing.T, s leak.Subject) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the subject has not ended")
	}
}

func alive(s leak.Subject) bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

func TestStartAndStop(t *testing.T) {
	s, log := mustStart(t, "ready", func(spec *leak.SubjectSpec) { spec.Args = []string{"-plant", "nothing"} })
	id := pid(t, s, "/pid")
	target := s.Target()
	if got := get(t, s, "/args"); got != "-plant nothing" {
		t.Errorf("arguments %q", got)
	}
	if !strings.HasPrefix(target.URL, "http://127.0.0.1:") || target.Pprof != target.URL+"/debug/pprof" {
		t.Errorf("target %+v", target)
	}
	if got := get(t, s, "/debug/pprof/goroutine?debug=1"); !strings.HasPrefix(got, "goroutine profile: total") {
		t.Errorf("pprof says %q", got)
	}
	info := s.Info()
	if want := []string{filepath.Base(os.Args[0]), "-plant", "nothing"}; !slices.Equal(info.Command, want) || info.Placement != "process" || info.GoVersion != runtime.Version() {
		t.Errorf("info %+v", info)
	}
	if runtime.GOOS == "linux" {
		if status, err := fs.ReadFile(target.Proc, "status"); err != nil || !strings.Contains(string(status), "VmRSS:") {
			t.Errorf("/proc of the subject: %q, %v", status, err)
		}
	}
	if !alive(s) || s.Err() != nil {
		t.Errorf("it runs, and Err says %v", s.Err())
	}
	// Once is enough, twice does no harm; a stopped subject did not die.
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if alive(s) || s.Err() != nil {
		t.Errorf("after the stop: runs %v, Err %v", alive(s), s.Err())
	}
	gone(t, id)
	if data, err := os.ReadFile(log); err != nil || !strings.Contains(string(data), "listening") {
		t.Errorf("log %q, %v", data, err)
	}
}

// A subject that cannot be used is an error that says why and where to look, and no process is left.
func TestStartFails(t *testing.T) {
	short := func(spec *leak.SubjectSpec) { spec.ReadyTimeout = leak.Duration(300 * time.Millisecond) }
	for _, c := range []struct {
		name, mode string
		change     func(*leak.SubjectSpec)
		want       []string
	}{
		{"answers that it is not ready", "unready", short, []string{"leaky did not become ready in 300ms", "status 503"}},
		{"answers nothing at all", "deaf", short, []string{"leaky did not become ready in 300ms", "no answer"}},
		{"exits", "exits", asIs, []string{"leaky died: exit status 3", "last words:\n| reading the configuration\n| more\n| and more\n| fatal: no such flag"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // "deaf" has to be killed after its grace
			dir := t.TempDir()
			s, err := start(t.Context(), c.mode, dir, c.change)
			if err == nil || s != nil {
				t.Fatalf("started %v", s)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error %q", want, err)
				}
			}
			if !strings.Contains(leak.Hint(err), logOf(dir)) {
				t.Errorf("the hint %q does not name the log", leak.Hint(err))
			}
			if strings.Contains(err.Error(), "starting\n") {
				t.Errorf("too many last words: %v", err)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*leak.SubjectSpec)
		want   string
	}{
		{"the port is taken", func(s *leak.SubjectSpec) { s.Port = busy.Addr().(*net.TCPAddr).Port }, "is unavailable"},
		{"no such program", func(s *leak.SubjectSpec) { s.Command = []string{"leakrig-no-such-program"} }, "subject.command"},
		{"not a program", func(s *leak.SubjectSpec) { s.Command = []string{text} }, "exec format error"},
	} {
		s, err := start(t.Context(), "ready", t.TempDir(), c.change)
		if err == nil || !strings.Contains(err.Error(), c.want) || leak.Hint(err) == "" {
			t.Errorf("%s: %v, %v (hint %q)", c.name, s, err, leak.Hint(err))
		}
	}
}

func TestStartInterrupted(t *testing.T) {
	reason := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	dir := t.TempDir()
	go func() {
		for { // once it runs
			if data, _ := os.ReadFile(logOf(dir)); len(data) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel(reason)
	}()
	if s, err := start(ctx, "unready", dir, asIs); !errors.Is(err, reason) || s != nil {
		t.Errorf("%v, %v", s, err)
	}
}

func TestDeath(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(*testing.T, leak.Subject)
		want []string
		hint string
	}{
		{"by itself", func(t *testing.T, s leak.Subject) {
			if resp, err := http.Get(s.Target().URL + "/die"); err == nil {
				resp.Body.Close()
			}
		}, []string{"subject leaky died: exit status 7", "fatal: out of cheese"}, ""},
		{"out of memory", func(t *testing.T, s leak.Subject) {
			if err := syscall.Kill(pid(t, s, "/pid"), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}, []string{"subject leaky died: signal: killed"}, "leakrig did not kill it: the kernel kills processes when memory runs out, see `dmesg`; "},
	} {
		s, log := mustStart(t, "ready", asIs)
		c.kill(t, s)
		ended(t, s)
		for _, when := range []string{"at once", "after a stop that came too late"} {
			err := s.Err()
			if err == nil || leak.Hint(err) != c.hint+"see "+log {
				t.Errorf("%s, %s: %v (hint %q)", c.name, when, err, leak.Hint(err))
				continue
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s: %q is not in %q", c.name, when, want, err)
				}
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A subject that does not end on SIGTERM is killed; the end of the context shortens its grace.
func TestStopStubborn(t *testing.T) {
	s, _ := mustStart(t, "stubborn", asIs)
	id := pid(t, s, "/pid")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); err != nil || s.Err() != nil {
		t.Errorf("%v, %v", err, s.Err())
	}
	gone(t, id)
}

// TestGrandchildren checks that processes started by the subject end with it, whether it is stopped or dies.
func TestGrandchildren(t *testing.T) {
	for name, end := range map[string]func(s leak.Subject, id int) error{
		"stopped": func(s leak.Subject, _ int) error { return s.Stop(context.Background()) },
		"killed":  func(_ leak.Subject, id int) error { return syscall.Kill(id, syscall.SIGKILL) },
	} {
		s, _ := mustStart(t, "parent", asIs)
		id, child := pid(t, s, "/pid"), pid(t, s, "/child")
		if err := end(s, id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ended(t, s)
		gone(t, id)
		gone(t, child)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/me/.kube/production")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	t.Setenv("GODEBUG", "madvdontneed=1")
	environ := func(s leak.Subject) map[string]string {
		env := map[string]string{}
		for line := range strings.Lines(get(t, s, "/env")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			env[name] = value
		}
		return env
	}
	s, _ := mustStart(t, "ready", func(spec *leak.SubjectSpec) { spec.Env["COLOUR"] = "blue" })
	env := environ(s)
	for name, want := range map[string]string{
		// An empty file: without KUBECONFIG, client-go would take ~/.kube/config.
		"KUBECONFIG":              os.DevNull,
		"KUBERNETES_SERVICE_HOST": "",
		"KUBERNETES_SERVICE_PORT": "",
		"GODEBUG":                 "madvdontneed=1,memprofilerate=65536",
		"COLOUR":                  "blue",
		"LEAKRIG_LISTEN":          strings.TrimPrefix(s.Target().URL, "http://"),
		"PORT":                    s.Target().URL[strings.LastIndexByte(s.Target().URL, ':')+1:],
		"PATH":                    os.Getenv("PATH"),
	} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	// The rate reaches the runtime, so that the profile says so.
	if got := get(t, s, "/debug/pprof/heap?debug=1"); !strings.Contains(got, "@ heap/131072\n") {
		line, _, _ := strings.Cut(got, "\n")
		t.Errorf("heap profile: %s", line)
	}

	// With a cluster, and a rate of the scenario's own.
	dir := t.TempDir()
	l := &Launcher{Spec: leak.SubjectSpec{
		Command: []string{os.Args[0], "first"}, Args: []string{"second"}, Pprof: "/debug/pprof", Ready: "/healthz", ReadyTimeout: leak.Duration(30 * time.Second),
		Env: map[string]string{modeVar: "ready", "COLOUR": "blue", "SHAPE": "round"},
	}}
	v := leak.Variant{Name: "fixed", Args: []string{"third"}, Env: map[string]string{"COLOUR": "red", "GODEBUG": "memprofilerate=1"}}
	with, err := l.Start(t.Context(), v, fakeCluster{}, logOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer with.Stop(context.Background())
	env = environ(with)
	for name, want := range map[string]string{
		"KUBECONFIG": "/run/kubeconfig", "GODEBUG": "memprofilerate=1", "COLOUR": "red", "SHAPE": "round",
	} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	if got := get(t, with, "/args"); got != "first second third" {
		t.Errorf("arguments %q", got)
	}
	if l.Spec.Env["COLOUR"] != "blue" {
		t.Error("the variant's environment has changed the scenario's")
	}
}

// stateOf returns the state of a process, T if it is stopped.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

// TestFreeze checks that a freeze stops all processes of a subject, that its undo continues them, and that a frozen
// subject ends with a stop.
func TestFreeze(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	s, _ := mustStart(t, "parent", asIs)
	id, child := pid(t, s, "/pid"), pid(t, s, "/child")
	for _, frozen := range []bool{true, false, true} {
		if err := s.Target().Freeze(frozen); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(20 * time.Second)
		for (stateOf(t, id) == "T") != frozen || (stateOf(t, child) == "T") != frozen {
			if time.Now().After(deadline) {
				t.Fatalf("frozen %v: the states are %s and %s", frozen, stateOf(t, id), stateOf(t, child))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !frozen {
			pid(t, s, "/pid") // it answers again
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	gone(t, id)
	gone(t, child)
	if err := s.Target().Freeze(true); err == nil {
		t.Error("a subject that has ended was frozen")
	}
}

// a killed leakrig can stop nothing: the kernel takes the subject along, also a frozen one.
func TestRigKilled(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		rigKilled(t, frozen)
	}
}

func rigKilled(t *testing.T, frozen bool) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux notifies children of their parent's death")
	}
	rig := exec.Command(os.Args[0])
	rig.Env = append(os.Environ(), modeVar+"=rig", "LEAKRIG_TEST_DIR="+t.TempDir())
	out, err := rig.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rig.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = rig.Process.Kill(), rig.Wait() }()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "http://") {
		t.Fatalf("leakrig says %q, %v", url, err)
	}
	get := func() (string, error) {
		resp, err := http.Get(strings.TrimSpace(url) + "/pid")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	text, err := get()
	if err != nil {
		t.Fatalf("the subject does not outlive the goroutine that started it: %v", err)
	}
	id, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if frozen {
		if err := syscall.Kill(id, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := rig.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, id)
}
