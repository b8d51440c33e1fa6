package holders

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leakrig/leakrig/holders/heapdump"
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

func (s *subject) get(path string) io.ReadCloser {
	s.t.Helper()
	resp, err := http.Get(s.addr + path)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", path, resp.Status)
	}
	return resp.Body
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
	{"linked-list", "main.head", "main.head (*main.order) → *main.order.next (repeated) → *main.order.items → []byte", containerLinked},
	{
		"lru", "main.cache",
		"main.cache (*main.lru) → *main.lru.byKey (map[int]*list.Element) → *list.Element.Value → *main.order.items → []byte", containerMap,
	},
	{"sync-map", "main.sessions", "main.sessions (sync.Map) → *main.order.items → []byte", containerSyncMap},
	{"subscription", "main.events", "main.events (*main.hub) → *main.hub.subs → []*main.subscriber → *main.subscriber.buf → []byte", containerSlice},
	{"third-party", "third.cache", "third.cache (map[int][]byte) → []byte", containerMap},
	{"interface", "main.things", "main.things ([]fmt.Stringer) → []fmt.Stringer → *main.order.items → []byte", containerSlice},
	{"http-idle", "550 goroutines at http.(*persistConn).readLoop", "*http.persistConn.br → *bufio.Reader.buf → []byte", ""},
	{
		"labels", "main.requests",
		"main.requests (*third.CounterVec) → *third.CounterVec.children (map[uint64][]*third.counter) → []*third.counter → *third.counter.labels → []string → string",
		containerMap,
	},
	{"request", "main.base", "main.base (context.Context) → *context.valueCtx.Context (repeated) → *context.valueCtx.val → *[]byte → []byte", containerLinked},
	{"pool", "", "", ""},
}

// TestShapes checks the holder that leakrig names for leaks of known shapes, with the profile rate that users have.
func TestShapes(t *testing.T) {
	for _, want := range shapes {
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
			if want.name != "http-idle" && g.Share < 0.99 {
				t.Errorf("share %.2f, want all", g.Share)
			}
		})
	}
}
