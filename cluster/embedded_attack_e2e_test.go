//go:build e2e

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// TestAttackEtcd checks that etcd requires the certificate of the API server, which is in a folder of the run's user.
// Its ports are open to every user of the machine, and write access to etcd is full control of the cluster.
func TestAttackEtcd(t *testing.T) {
	scratch := t.TempDir()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	c, err := (&Embedded{Cache: cacheDir(t)}).Boot(t.Context(), leak.BootOptions{Run: "attack", Scratch: scratch, Logs: t.TempDir(), Progress: testProgress{t}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("MET kube-apiserver")
	defer func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, line := range processesWith(scratch) {
		for arg := range strings.FieldsSeq(line) {
			if name, url, ok := strings.Cut(arg, "="); ok && (name == "--listen-client-urls" || name == "--listen-peer-urls") {
				urls = append(urls, url)
			}
		}
	}
	if len(urls) != 2 {
		t.Fatalf("etcd listens at %q", urls)
	}
	const put = `{"key": "YQ==", "value": "YQ=="}`
	for _, url := range urls {
		for _, url := range []string{url, strings.Replace(url, "https://", "http://", 1)} {
			for _, path := range []string{"/v3/kv/put", "/version", "/members", "/raft"} {
				if status, err := ask(url+path, put, tls.Certificate{}); err == nil && status != http.StatusBadRequest { // which is what TLS says to plain HTTP
					t.Errorf("POST %s%s without a certificate: status %d", url, path, status)
				}
			}
		}
	}
	// The very same request, by one who may read the run's files.
	found, err := filepath.Glob(filepath.Join(scratch, "plane-*", "etcd-tls", "etcd.crt"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	dir := filepath.Dir(found[0])
	pair, err := tls.LoadX509KeyPair(found[0], filepath.Join(dir, "etcd.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range urls {
		path := "/v3/kv/put"
		if status, err := ask(url+path, put, pair); err == nil && status == http.StatusOK {
			urls = nil
		}
	}
	if urls != nil {
		t.Error("with the certificate the same request fails, so that nothing was shown")
	}
	for _, name := range []string{dir, filepath.Join(dir, "etcd.key")} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	// Another user of the machine can read neither.
	if nobody, err := exec.LookPath("setpriv"); err == nil && os.Getuid() == 0 {
		if out, err := exec.Command(nobody, "--reuid=65534", "--clear-groups", "cat", filepath.Join(dir, "etcd.key")).CombinedOutput(); err == nil {
			t.Errorf("nobody reads %s", out)
		}
	}
	// No key of anything lies outside the run's own folder.
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("in the folder for temporary files: %v %v", left, err)
	}
}

func ask(url, body string, pair tls.Certificate) (int, error) {
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // an attacker takes any
	if pair.Certificate != nil {
		config = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: x509.NewCertPool(), InsecureSkipVerify: true} //nolint:gosec // the same request
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := client.Post(url, "application/json", bytes.NewBufferString(body))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
