package serve

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain turns the test binary into a subject if an address is set.
func TestMain(m *testing.M) {
	if os.Getenv("SERVE_TEST") == "" {
		os.Exit(m.Run())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /work", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") })
	Main(mux)
}

func subject(t *testing.T, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{"SERVE_TEST=1"}, env...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &output
}

// free returns a free address.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func request(method, url string) (int, string, error) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// TestMainServes checks the contract in the package's doc: the address, the paths, and the exit.
func TestMainServes(t *testing.T) {
	for _, c := range []struct {
		name string
		env  func(address string) []string
		end  syscall.Signal
	}{
		{"by address", func(a string) []string { return []string{"LEAKRIG_LISTEN=" + a, "PORT=1"} }, syscall.SIGTERM},
		{"by port", func(a string) []string { return []string{"PORT=" + a[strings.LastIndexByte(a, ':')+1:]} }, syscall.SIGINT},
	} {
		address := free(t)
		cmd, output := subject(t, c.env(address)...)
		base := "http://" + address
		deadline := time.Now().Add(20 * time.Second)
		for {
			if status, _, err := request("GET", base+"/healthz"); err == nil && status == 200 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: not ready", c.name)
			}
			time.Sleep(5 * time.Millisecond)
		}
		for _, r := range []struct{ method, path, want string }{
			{"POST", "/work", "done"},
			{"GET", "/debug/pprof/goroutine?debug=2", "serve.Main("},
			{"GET", "/debug/pprof/heap?gc=1&debug=1", "# HeapAlloc = "},
			{"GET", "/debug/pprof/cmdline", os.Args[0]},
		} {
			if status, body, err := request(r.method, base+r.path); err != nil || status != 200 || !strings.Contains(body, r.want) {
				t.Errorf("%s: %s: status %d, %v, without %q", c.name, r.path, status, err, r.want)
			}
		}
		// Open connections, kept alive by this client, do not delay the end.
		if err := cmd.Process.Signal(c.end); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || output.Len() > 0 {
			t.Errorf("%s: ended with %v: %s", c.name, err, output)
		}
	}
}

func TestMainCannotListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd, output := subject(t, "LEAKRIG_LISTEN="+l.Addr().String())
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(output.String(), "serve: listen tcp") {
		t.Errorf("%v: %s", err, output)
	}
}
