//go:build e2e

package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestNightlyPyroscope judges a week of 12 services that a real Pyroscope server has stored. The server is built from
// its module (internal/tools/pyroscope), or LEAKRIG_PYROSCOPE names it.
func TestNightlyPyroscope(t *testing.T) {
	url := startPyroscope(t)
	from := time.Now().Add(-(week + 1) * time.Hour).Truncate(time.Millisecond)
	all, leaky := services(12)
	for _, s := range all {
		for hour := 0.75; hour < week; hour += 1.5 { // two in each bucket, which Pyroscope adds up
			pod, age := s.at(hour)
			at := from.Add(time.Duration(hour * float64(time.Hour)))
			for name, heap := range map[string]bool{"goroutines": false, "memory": true} {
				var b bytes.Buffer
				if err := s.profileOf(heap, hour, age, at).Write(&b); err != nil {
					t.Fatal(err)
				}
				push(t, url, map[string]string{"__name__": name, "service_name": s.name, "pod": pod}, b.Bytes())
			}
		}
	}
	judgeWeek(t, url, all, leaky, from)
	fmt.Println("MET pyroscope")
}

// push stores a profile.
func push(t *testing.T, url string, labels map[string]string, data []byte) {
	t.Helper()
	var list []map[string]string
	for name, value := range labels {
		list = append(list, map[string]string{"name": name, "value": value})
	}
	body, err := json.Marshal(map[string]any{"series": []any{map[string]any{"labels": list, "samples": []any{map[string]any{"rawProfile": data}}}}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/push.v1.PusherService/Push", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%v: %s: %s", labels, resp.Status, answer)
	}
}

// startPyroscope starts a server on the loopback interface that reports nothing to anybody, and returns its URL once it
// is ready.
func startPyroscope(t *testing.T) string {
	t.Helper()
	program := os.Getenv("LEAKRIG_PYROSCOPE")
	if program == "" {
		program = filepath.Join(t.TempDir(), "pyroscope")
		build := exec.Command("go", "build", "-o", program, "github.com/grafana/pyroscope/cmd/pyroscope")
		build.Dir, build.Env = "../internal/tools/pyroscope", append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build Pyroscope: %v\n%s", err, out)
		}
	}
	dir := t.TempDir()
	port := freePorts(t, 3)
	args := []string{
		"-target=all", "-usage-stats.enabled=false", "-self-profiling.disable-push", "-log.level=error", "-validation.reject-older-than=0",
		"-pyroscopedb.data-path=" + dir + "/data", "-storage.backend=filesystem", "-storage.filesystem.dir=" + dir + "/shared",
		"-server.http-listen-address=127.0.0.1", fmt.Sprintf("-server.http-listen-port=%d", port[0]),
		"-server.grpc-listen-address=127.0.0.1", fmt.Sprintf("-server.grpc-listen-port=%d", port[1]),
		"-memberlist.bind-addr=127.0.0.1", "-memberlist.advertise-addr=127.0.0.1", fmt.Sprintf("-memberlist.bind-port=%d", port[2]),
	}
	for _, part := range []string{
		"compactor.ring.instance-addr", "distributor.ring.instance-addr", "ingester.lifecycler.addr", "overrides-exporter.ring.instance-addr",
		"query-frontend.instance-addr", "query-scheduler.ring.instance-addr", "store-gateway.sharding-ring.instance-addr",
	} {
		args = append(args, "-"+part+"=127.0.0.1")
	}
	var log bytes.Buffer
	server := exec.Command(program, args...)
	server.Dir, server.Stdout, server.Stderr = dir, &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("Pyroscope:\n%s", log.Bytes()[max(0, log.Len()-4000):])
		}
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port[0])
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		resp, err := http.Get(url + "/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("Pyroscope is not ready: %v", err)
		}
	}
}

// freePorts returns n ports that nobody listens on.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
