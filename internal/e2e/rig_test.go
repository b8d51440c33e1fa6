//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

var (
	root    string // the checkout
	leakrig string // the binary under test
)

func TestMain(m *testing.M) {
	cluster.Child() // the kind provider starts this binary as a child process
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "leakrig-e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	wd, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	root, leakrig = filepath.Join(wd, "..", ".."), filepath.Join(dir, "leakrig")
	if out, err := exec.Command("go", "build", "-o", leakrig, "../../cmd/leakrig").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// built compiles a package below dir as a static binary, and returns its path.
func built(t *testing.T, dir, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", path, pkg)
	build.Dir = filepath.Join(root, dir)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// serving starts a service on loopback in a separate process without a supervisor, and returns its URL.
func serving(t *testing.T, program string, args ...string) string {
	t.Helper()
	address := freeAddress(t)
	service := exec.Command(program, args...)
	service.Env = append(os.Environ(), "LEAKRIG_LISTEN="+address)
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait()
	})
	waitFor(t, func() bool {
		resp, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	http.DefaultClient.CloseIdleConnections()
	return "http://" + address
}

// freeAddress returns a free address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// met prints the real part that a test has met, which `make test` counts.
func met(part string) { fmt.Printf("MET %s\n", part) }

// result is how a command ended.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n--- stderr\n%s--- stdout\n%s", r.code, r.stderr, r.stdout)
}

// rig is a leakrig process in a separate process group, as in a terminal.
type rig struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	lines          chan string // standard error, line by line
}

func start(t *testing.T, args ...string) *rig {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith starts leakrig with additional environment variables.
func startWith(t *testing.T, env []string, args ...string) *rig {
	t.Helper()
	r := &rig{cmd: exec.Command(leakrig, args...), lines: make(chan string, 1000)}
	r.cmd.Dir = root
	r.cmd.Env = append(environ(t), env...)
	r.cmd.Stdout = &r.stdout
	r.cmd.Stderr = &lineWriter{keep: &r.stderr, lines: r.lines}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

func (r *rig) wait(t *testing.T) result {
	t.Helper()
	var exit *exec.ExitError
	if err := r.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{r.stdout.String(), r.stderr.String(), r.cmd.ProcessState.ExitCode()}
}

// until waits for a line of standard error that matches. It gives up after twenty minutes without a line: on a new machine
// the first test compiles a control plane.
func (r *rig) until(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		select {
		case line := <-r.lines:
			if re.MatchString(line) {
				return
			}
		case <-time.After(20 * time.Minute):
			t.Fatalf("no line matches %s in\n%s", pattern, r.stderr.String())
		}
	}
}

func run(t *testing.T, args ...string) result {
	t.Helper()
	return start(t, args...).wait(t)
}

// lineWriter keeps all output and passes on complete lines.
type lineWriter struct {
	keep  *bytes.Buffer
	lines chan<- string
	rest  string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.keep.Write(p)
	w.rest += string(p)
	for {
		line, rest, ok := strings.Cut(w.rest, "\n")
		if !ok {
			return len(p), nil
		}
		w.rest = rest
		select {
		case w.lines <- line:
		default: // the buffer is full, and no test reads it
		}
	}
}

// runDir finds the only run directory below runs.
func runDir(t *testing.T, runs string) rundir.Dir {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(runs, "*", "2*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("run directories: %v %v", dirs, err)
	}
	return rundir.Dir(dirs[0])
}

func readVerdict(t *testing.T, d rundir.Dir) *leak.Verdict {
	t.Helper()
	v, err := d.ReadVerdict()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readRecord(t *testing.T, d rundir.Dir) *leak.Record {
	t.Helper()
	r, err := d.ReadRecord()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func variantVerdict(t *testing.T, v *leak.Verdict, name string) leak.VariantVerdict {
	t.Helper()
	for _, vv := range v.Variants {
		if vv.Variant == name {
			return vv
		}
	}
	t.Fatalf("no verdict on %s", name)
	return leak.VariantVerdict{}
}

func findingOf(t *testing.T, vv leak.VariantVerdict, check string) leak.Finding {
	t.Helper()
	for _, f := range vv.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("%s has no finding %s", vv.Variant, check)
	return leak.Finding{}
}

// writeJSON replaces a file of a run directory.
func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// started lists the running processes that leakrig started with this temporary folder. All of them have the folder in
// their arguments or their environment.
func started(t *testing.T, tmp string) []int {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, p := range procs {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(p), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		if bytes.Contains(args, []byte(tmp)) || bytes.Contains(env, []byte(tmp)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// variables holds the variables set by setenv, by test name.
var variables = struct {
	sync.Mutex
	of map[string][]string
}{of: map[string][]string{}}

// setenv sets a variable for the commands that a test and its subtests start. The test process keeps its own
// environment, so that tests can run in parallel.
func setenv(t *testing.T, key, value string) {
	t.Helper()
	variables.Lock()
	defer variables.Unlock()
	name := t.Name()
	before := variables.of[name]
	variables.of[name] = append(slices.Clone(before), key+"="+value)
	t.Cleanup(func() {
		variables.Lock()
		defer variables.Unlock()
		variables.of[name] = before
	})
}

// environ returns the environment for commands of a test: that of this process, then the variables set by its parents
// and itself.
func environ(t *testing.T) []string {
	t.Helper()
	variables.Lock()
	defer variables.Unlock()
	env, name := os.Environ(), ""
	for part := range strings.SplitSeq(t.Name(), "/") {
		name = strings.TrimPrefix(name+"/"+part, "/")
		env = append(env, variables.of[name]...)
	}
	return env
}

// privateTmp gives a test a temporary folder. When the test ends, it checks that leakrig left no process and no file.
func privateTmp(t *testing.T) string {
	t.Helper()
	tmp := t.TempDir()
	setenv(t, "TMPDIR", tmp)
	t.Cleanup(func() {
		if pids := started(t, tmp); len(pids) > 0 {
			t.Errorf("still running: %v", pids)
		}
		if left, _ := filepath.Glob(filepath.Join(tmp, "leakrig-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return tmp
}

// cache returns the folder of leakrig's cache, which tests share.
func cache(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("LEAKRIG_CACHE"); dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(user, "leakrig")
}

// boot boots a cluster without a run, and closes it at the end of the test.
func boot(t *testing.T, provider, run string) leak.Cluster {
	t.Helper()
	for _, k := range cluster.Kinds(cluster.Options{Cache: cache(t)}) {
		if k.Name != provider {
			continue
		}
		c, err := k.New().Boot(t.Context(), leak.BootOptions{
			Run: run, Pods: provider == "kind", Scratch: t.TempDir(), Logs: t.TempDir(), Progress: logs{t},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	t.Fatalf("no provider %s", provider)
	panic("not reached")
}

// logs passes progress on to the test's log.
type logs struct{ t *testing.T }

func (l logs) Log(format string, args ...any) { l.t.Logf(format, args...) }
func (logs) Status(string, ...any)            {}
