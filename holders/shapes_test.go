package holders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leakrig/leakrig/holders/heapdump"
	"github.com/leakrig/leakrig/leak"
)

var buildShapes = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "leakrig-shapes-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "shapes")
	out, err := exec.Command("go", "build", "-o", path, "./testdata/shapes").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := buildShapes(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// subject is a running program of testdata/shapes.
type subject struct {
	t    testing.TB
	addr string
	bin  *Binary
}

func startShape(t testing.TB, shape string) *subject {
	t.Helper()
	path, err := buildShapes()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, path, shape)
}

func startProgram(t testing.TB, path, shape string) *subject {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	bin, err := OpenBinary(f)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, shape)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &subject{t: t, addr: "http://" + strings.TrimSpace(addr), bin: bin}
}

func (s *subject) get(path string) io.ReadCloser { return s.response(path).Body }

func (s *subject) response(path string) *http.Response {
	s.t.Helper()
	resp, err := http.Get(s.addr + path)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", path, resp.Status)
	}
	return resp
}

func (s *subject) leak(n int) {
	s.t.Helper()
	s.get(fmt.Sprintf("/leak?n=%d", n)).Close()
}

func (s *subject) dump() *Summary {
	s.t.Helper()
	body := s.get(heapdump.Path)
	defer body.Close()
	summary, err := Read(body, s.bin, Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return summary
}

// shapes has the holder and the path that leakrig must name for each shape. A healthy shape has neither.
var shapes = []struct{ name, holder, path, container string }{
	{"map", "main.registry", "main.registry (map[string]*main.order) → *main.order.items → []byte", containerMap},
	{"nested-map", "main.tenants", "main.tenants (map[string]map[string][]byte) → []byte", containerMap},
	{"slice-tail", "main.stack", "main.stack ([]*main.order) → []*main.order → *main.order.items → []byte", containerSlice},
	{"sub-slice", "main.heads", "main.heads ([][]byte) → [][]byte → []byte", containerSlice},
	{"string", "main.names", "main.names ([]string) → []string → string", containerSlice},
	{"closure", "main.callbacks", "main.callbacks ([]func() int) → []func() int → func main.init.func6.1.p → []byte", containerSlice},
	{"method", "main.handlers", "main.handlers ([]func()) → []func() → func main.(*order).run-fm → *main.order.items → []byte", containerSlice},
	{"timer", "2200 timers of main.init.func8.1", "timer of main.init.func8.1 → func main.init.func8.1.p → []byte", ""},
	{"ticker", "2200 goroutines at main.tick", "p ([]byte) in main.tick → []byte", ""},
	{
		"context", "main.parent",
		"main.parent (context.Context) → *context.cancelCtx.children (map[context.canceler]struct {}) → *context.cancelCtx.Context → *context.valueCtx.val → *[]byte → []byte",
		containerMap,
	},
	{"finalizer", "2200 finalizers main.closeNode of *main.node", "finalizer of *main.node.data → []byte", ""},
	{"channel", "main.queue", "main.queue (chan []byte) → [][]byte → []byte", containerChan},
	{"goroutine-stack", "2200 goroutines at main.wait", "p ([]byte) in main.wait → []byte", ""},
	{"goroutine-slice", "1 goroutine at main.collect", "items ([][]byte) in main.collect → [][]byte → []byte", containerSlice},
	{"stack-struct", "1 goroutine at main.gather", "b.items ([][]byte) in main.gather → [][]byte → []byte", containerSlice},
	{"linked-list", "main.head", "main.head (*main.order) → *main.order.next (repeated) → *main.order.items → []byte", containerLinked},
	{
		"lru", "main.cache",
		"main.cache (*main.lru) → *main.lru.byKey (map[int]*list.Element) → *list.Element.Value → *main.order.items → []byte", containerMap,
	},
	{"sync-map", "main.sessions", "main.sessions (sync.Map) → *main.order.items → []byte", containerSyncMap},
	{"subscription", "main.events", "main.events (*main.hub) → *main.hub.subs → []*main.subscriber → *main.subscriber.buf → []byte", containerSlice},
	{"third-party", "third.cache", "third.cache (map[int][]byte) → []byte", containerMap},
	{"interface", "main.things", "main.things ([]fmt.Stringer) → []fmt.Stringer → *main.order.items → []byte", containerSlice},
	{"http-idle", "550 goroutines at http.(*persistConn).readLoop", "→ []byte", ""},
	{
		"labels", "main.requests",
		"main.requests (*third.CounterVec) → *third.CounterVec.children (map[uint64][]*third.counter) → []*third.counter → *third.counter.labels → []string → string",
		containerMap,
	},
	{"request", "main.base", "main.base (context.Context) → *context.valueCtx.Context (repeated) → *context.valueCtx.val → *[]byte → []byte", containerLinked},
	{"pool", "", "", ""},
}

// quickShapes are the shapes of a test without the build tag slow: one for each kind of holder.
var quickShapes = []string{"map", "sync-map", "timer", "finalizer", "goroutine-stack", "stack-struct", "method"}

// TestShapes checks the holder that leakrig names for leaks of known shapes, with the profile rate that users have.
func TestShapes(t *testing.T) {
	for _, want := range shapes {
		if !allShapes && !slices.Contains(quickShapes, want.name) {
			continue
		}
		t.Run(want.name, func(t *testing.T) {
			s := startShape(t, want.name)
			s.leak(200)
			baseline := s.dump()
			s.leak(2000)
			growth := Compare(baseline, s.dump())
			for _, g := range growth[:min(len(growth), 3)] {
				t.Logf("+%.0f B (%d samples, %.0f %%) held by %s via %s [%s]\n%v", g.Bytes, g.Sampled, 100*g.Share, g.Holder(), g.Path, g.Container, g.Frames[0])
			}
			if want.holder == "" {
				if len(growth) > 0 && growth[0].Bytes > 2<<20 {
					t.Errorf("%s holds %.0f bytes in a healthy program", growth[0].Holder(), growth[0].Bytes)
				}
				return
			}
			if len(growth) == 0 || growth[0].Bytes < 16<<20 {
				t.Fatal("no growth of 16 MiB")
			}
			g := growth[0]
			if !strings.Contains(g.Holder(), want.holder) {
				t.Errorf("held by %s, want %s", g.Holder(), want.holder)
			}
			if !strings.HasSuffix(g.Path, want.path) {
				t.Errorf("path %s,\nwant %s", g.Path, want.path)
			}
			if g.Container != want.container {
				t.Errorf("container %q, want %q", g.Container, want.container)
			}
			if want.name != "http-idle" && g.Share < 0.95 {
				t.Errorf("share %.2f, want all", g.Share)
			}
		})
	}
}

// TestSecrets checks that nothing of a program's contents is in a summary.
func TestSecrets(t *testing.T) {
	s := startShape(t, "secrets")
	s.leak(1000)
	summary := s.dump()
	data, err := json.Marshal(summary)
	if err != nil {
		t.Fatal(err)
	}
	if len(summary.Sites) == 0 || len(summary.Roots) == 0 {
		t.Error("an empty summary")
	}
	if bytes.Contains(data, []byte("hunter2")) {
		t.Errorf("a secret is in %s", data)
	}
}

// TestProfileJoins checks that the stack of a heap profile, with its inlined functions, leads to the site in a dump.
func TestProfileJoins(t *testing.T) {
	s := startShape(t, "inlined")
	s.leak(2000)
	summary := s.dump()
	body := s.get("/debug/pprof/heap?debug=1")
	defer body.Close()
	var stack leak.Stack
	for lines := bufio.NewScanner(body); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // #	0x66f6bb	main.made+0x9b	/path/main.go:95
		if len(fields) != 4 || fields[0] != "#" {
			if len(stack.Frames) > 0 && stack.Frames[0].Func == "main.made" {
				break
			}
			stack = leak.Stack{}
			continue
		}
		name, _, _ := strings.Cut(fields[2], "+0x")
		file, line, _ := strings.Cut(fields[3], ":")
		number, _ := strconv.Atoi(line)
		stack.Frames = append(stack.Frames, leak.Frame{Func: name, File: file, Line: number})
	}
	if len(stack.Frames) < 3 || stack.Frames[1].Func != "main.keep" {
		t.Fatalf("the profile has %v, want main.made inlined in main.keep", stack.Frames)
	}
	site := summary.Site(stack)
	if site == nil {
		t.Fatalf("no site for %v", stack.Frames)
	}
	if got := site.Holdings[0].Holder(); got != "main.registry" {
		t.Errorf("held by %s, want main.registry", got)
	}
}

// TestWithoutSymbols checks that a binary without DWARF, or without symbols, has the right holder or none, and no type.
func TestWithoutSymbols(t *testing.T) {
	for flags, want := range map[string]string{"-w": "main.registry", "-s": "an unnamed global variable"} {
		path := filepath.Join(t.TempDir(), "shapes")
		if out, err := exec.Command("go", "build", "-ldflags="+flags, "-o", path, "./testdata/shapes").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s := startProgram(t, path, "map")
		s.leak(2000)
		site := s.dump().Sites[0]
		if got := site.Holdings[0].Holder(); got != want {
			t.Errorf("%s: held by %s, want %s", flags, got, want)
		}
		if path := site.Holdings[0].Path; !strings.Contains(path, "type unknown") || strings.Contains(path, "order") {
			t.Errorf("%s: path %s, want unknown types", flags, path)
		}
	}
}
