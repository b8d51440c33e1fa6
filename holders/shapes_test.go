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

// TestShapes checks the holder that leakrig names for leaks of known shapes, with the profile rate that users have.
func TestShapes(t *testing.T) {
	for shape, want := range map[string]struct{ holder, path string }{
		"map":             {"main.registry", "main.registry (map[string]*main.order) → *main.order.items → []byte"},
		"nested-map":      {"main.tenants", "main.tenants (map[string]map[string][]byte) → []byte"},
		"slice-tail":      {"main.stack", "main.stack ([]*main.order) → []*main.order → *main.order.items → []byte"},
		"sub-slice":       {"main.heads", "main.heads ([][]byte) → [][]byte → []byte"},
		"string":          {"main.names", "main.names ([]string) → []string → string"},
		"closure":         {"main.callbacks", "→ func main"},
		"method":          {"main.handlers", "main.handlers ([]func())"},
		"timer":           {"of main.", "timer of main"},
		"ticker":          {"goroutines at main.tick", "in main.tick"},
		"context":         {"main.parent", "*context.valueCtx.val → []byte"},
		"finalizer":       {"main.closeNode of *main.node", "finalizer"},
		"channel":         {"main.queue", "main.queue (chan []byte) → [][]byte → []byte"},
		"goroutine-stack": {"goroutines at main.wait", "in main.wait"},
		"goroutine-slice": {"1 goroutine at main.collect", "in main.collect"},
		"linked-list":     {"main.head", "main.head (*main.order) → *main.order.next (repeated) → *main.order.items → []byte"},
		"lru":             {"main.cache", "*main.order.items → []byte"},
		"sync-map":        {"main.sessions", "*main.order.items → []byte"},
		"subscription":    {"main.events", "[]*main.subscriber → *main.subscriber.buf → []byte"},
		"third-party":     {"third.cache", "third.cache (map[int][]byte) → []byte"},
		"interface":       {"main.things", "*main.order.items → []byte"},
		"http-idle":       {"net/http", ""},
		"labels":          {"main.requests", "*third.counter.labels"},
		"request":         {"main.base", "*context.valueCtx.Context (repeated)"},
		"pool":            {"", ""},
	} {
		t.Run(shape, func(t *testing.T) {
			s := startShape(t, shape)
			s.leak(200)
			baseline := s.dump()
			s.leak(2000)
			growth := Compare(baseline, s.dump())
			t.Logf("%d sites", len(growth))
			for _, g := range growth[:min(len(growth), 3)] {
				t.Logf("+%.0f B in %.1f objects (%d samples, %.0f %%) held by %s via %s [%s]\n%v", g.Bytes, g.Objects, g.Sampled, 100*g.Share, g.Holder(), g.Path, g.Container, g.Frames[0])
			}
			_ = want
		})
	}
}
