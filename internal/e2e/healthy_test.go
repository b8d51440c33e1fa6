//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leakrig/leakrig/catalogue"
	"github.com/leakrig/leakrig/leak"
)

// server is a program of the module proxy that serves pprof. In args, config and operation, WEB and PPROF are addresses,
// and DIR is an empty folder, which has the config in the file "config".
type server struct {
	pkg, version string
	args         string
	config       string
	// ready answers 200 at WEB once the server is up.
	ready string
	// operation is a path at WEB with the load, and body its body for a POST.
	operation, body string
	// separate is set if pprof has an address of its own.
	separate bool
}

// healthy are servers that do not leak under this load.
var healthy = []server{
	{
		pkg: "github.com/nats-io/nats-server/v2", version: "v2.15.2",
		args: "-c DIR/config", config: "host: 127.0.0.1\nport: -1\nhttp: WEB\nprof_port: PPROF_PORT\n",
		ready: "/healthz", operation: "/connz", separate: true,
	},
	{
		pkg: "github.com/prometheus/statsd_exporter", version: "v0.28.0",
		args:  "--web.listen-address=WEB --statsd.listen-udp=127.0.0.1:0 --statsd.listen-tcp=127.0.0.1:0",
		ready: "/-/healthy", operation: "/metrics",
	},
	{
		pkg: "github.com/prometheus/pushgateway", version: "v1.11.1",
		args: "--web.listen-address=WEB", ready: "/-/healthy", operation: "/metrics/job/backup", body: "duration 1\n",
	},
	{
		pkg: "github.com/prometheus/blackbox_exporter", version: "v0.27.0",
		args: "--web.listen-address=WEB --config.file=DIR/config", config: "modules: {http: {prober: http}}\n",
		ready: "/-/healthy", operation: "/probe?module=http&target=http://WEB/-/healthy",
	},
	{
		pkg: "github.com/prometheus/node_exporter", version: "v1.9.1",
		args: "--web.listen-address=WEB", ready: "/", operation: "/metrics",
	},
	{
		pkg: "github.com/prometheus/alertmanager/cmd/alertmanager", version: "v0.28.1",
		args:   "--web.listen-address=WEB --cluster.listen-address= --config.file=DIR/config --storage.path=DIR",
		config: "route: {receiver: none}\nreceivers: [{name: none}]\n",
		ready:  "/-/healthy", operation: "/api/v2/alerts", body: `[{"labels": {"alertname": "Full"}}]`,
	},
	{
		pkg: "go.etcd.io/etcd/server/v3", version: "v3.6.16",
		args:  "--enable-pprof --listen-client-urls http://WEB --advertise-client-urls http://WEB --listen-peer-urls http://127.0.0.1:0 --data-dir DIR/data",
		ready: "/health", operation: "/v3/kv/put", body: `{"key": "b3JkZXI=", "value": "MQ=="}`,
	},
	{
		pkg: "github.com/distribution/distribution/v3/cmd/registry", version: "v3.0.0",
		args:   "serve DIR/config",
		config: "version: 0.1\nstorage: {filesystem: {rootdirectory: DIR}}\nhttp: {addr: 'WEB', debug: {addr: 'PPROF'}}\n",
		ready:  "/v2/", operation: "/v2/_catalog", separate: true,
	},
	{
		pkg: "github.com/fatedier/frp/cmd/frps", version: "v0.62.1",
		args: "-c DIR/config.toml", config: "bindAddr = '127.0.0.1'\nbindPort = PPROF_PORT\nwebServer = {addr = '127.0.0.1', port = WEB_PORT, pprofEnable = true}\n",
		ready: "/healthz", operation: "/api/serverinfo",
	},
	{
		pkg: "github.com/caddyserver/caddy/v2/cmd/caddy", version: "v2.11.9",
		args:   "run --adapter caddyfile --config DIR/config",
		config: "{\nadmin PPROF\nauto_https off\n}\nhttp://WEB {\nreverse_proxy /work PPROF {\nrewrite /config/\nheader_up Host PPROF\n}\nrespond 200\n}\n",
		ready:  "/", operation: "/work", separate: true,
	},
}

// TestNightlyHealthyServers explains the goroutines and the heap of servers under load. A healthy server has no known
// leak, and no pattern that stands out.
func TestNightlyHealthyServers(t *testing.T) {
	for _, s := range healthy {
		t.Run(strings.ReplaceAll(s.pkg, "/", "_"), func(t *testing.T) {
			pprof := s.start(t, fromProxy(t, s.pkg, s.version))
			got := run(t, "explain", "http://"+pprof, "--format", "json")
			var all []catalogue.Explanation
			if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || got.code != leak.ExitMet || len(all) != 2 {
				t.Fatalf("%v\n%v", err, got)
			}
			for _, x := range all {
				t.Logf("%d %s, %d matches", x.Total, x.Unit, len(x.Matches))
				for _, m := range x.Matches {
					if m.Status == catalogue.KnownLeak || m.Status == catalogue.StandsOut {
						t.Errorf("%s: %s, %d of %d %s at %s", m.Status, m.ID, m.N, x.Total, x.Unit, m.Stack.Top().Func)
					}
				}
			}
			met("module proxy")
		})
	}
}

// fromProxy builds a program at a version.
func fromProxy(t *testing.T, pkg, version string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/healthy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"get", pkg + "@" + version}, {"build", "-trimpath", "-ldflags=-s -w", "-o", "program", pkg}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, "program")
}

// start starts the program, loads it, and returns the address of pprof. The connections of the load stay open.
func (s server) start(t *testing.T, program string) (pprof string) {
	t.Helper()
	dir, web := t.TempDir(), freeAddress(t)
	other := freeAddress(t)
	_, webPort, _ := net.SplitHostPort(web)
	_, otherPort, _ := net.SplitHostPort(other)
	fill := strings.NewReplacer("WEB_PORT", webPort, "PPROF_PORT", otherPort, "WEB", web, "PPROF", other, "DIR", dir).Replace
	for _, name := range []string{"config", "config.toml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill(s.config)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	service := exec.Command(program, strings.Fields(fill(s.args))...)
	service.Dir = dir
	service.Env = append(os.Environ(), "HOME="+dir, "OTEL_TRACES_EXPORTER=none")
	service.Stdout, service.Stderr = &log, &log
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait()
		if t.Failed() {
			t.Logf("%.4000s", log.String())
		}
	})
	waitFor(t, func() bool { return s.request(http.DefaultClient, "http://"+web+s.ready, "") == nil })
	s.load(t, "http://"+web+fill(s.operation))
	if s.separate {
		return other
	}
	return web
}

// load sends 2,000 requests on 40 connections.
func (s server) load(t *testing.T, url string) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 40}
	t.Cleanup(transport.CloseIdleConnections)
	var clients sync.WaitGroup
	for range 40 {
		clients.Go(func() {
			for range 50 {
				if err := s.request(&http.Client{Transport: transport}, url, s.body); err != nil {
					t.Errorf("%s: %v", url, err)
					return
				}
			}
		})
	}
	clients.Wait()
}

// request sends a GET, or a POST if there is a body.
func (s server) request(client *http.Client, url, body string) error {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status)
	}
	return nil
}
