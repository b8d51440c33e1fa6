package subjects

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/httpclient"
)

// Credentials belong to scheme, host and port: another port of the same host, another scheme or another host gets none,
// neither by a redirect, which is refused, nor when it is asked.
func TestAttackCredentials(t *testing.T) {
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen = append(stolen, r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	asked := 0
	subject := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("Authorization") == "" {
			t.Errorf("%s: the subject was asked without credentials", r.URL)
		}
		http.Redirect(w, r, thief.URL+"/by-redirect?secret=x", http.StatusTemporaryRedirect)
	}))
	defer subject.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hunter2-hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	withPassword := strings.Replace(subject.URL, "https://", "https://me:hunter2-hunter2@", 1)
	for name, target := range map[string]func() (leak.Target, error){
		"a token": func() (leak.Target, error) {
			return Remote(subject.URL, "/debug/pprof", leak.Access{TokenFile: token, Insecure: true})
		},
		"a password": func() (leak.Target, error) { return Remote(withPassword, "/debug/pprof", leak.Access{Insecure: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			stolen, asked = nil, 0
			to, err := target()
			if err != nil {
				t.Fatal(err)
			}
			client := httpclient.New(to.Transport())
			defer client.CloseIdleConnections()
			_, err = httpclient.Get(t.Context(), client, to.Pprof+"/goroutine", nil)
			if err == nil || !strings.Contains(err.Error(), "redirected to "+thief.URL+"/by-redirect") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the redirect: %v", err)
			}
			if hint := leak.Hint(err); !strings.Contains(hint, thief.URL) {
				t.Errorf("hint %q", hint)
			}
			if asked != 1 || len(stolen) != 0 {
				t.Fatalf("asked %d times, the thief got %q", asked, stolen)
			}
			// The same host at another port, with another scheme, under another name.
			port := strings.TrimPrefix(thief.URL, "http://127.0.0.1")
			for _, address := range []string{thief.URL, "http://localhost" + port, "http://LOCALHOST" + port} {
				resp, err := httpclient.Get(t.Context(), client, address+"/asked", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			for _, s := range stolen {
				if s != "/asked " {
					t.Errorf("the thief got %q", s)
				}
			}
			if len(stolen) != 3 {
				t.Errorf("%d requests", len(stolen))
			}
		})
	}
}

// TestAttackOnlyTo checks that a transport with inseparable credentials sends no request to another host.
func TestAttackOnlyTo(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := httpclient.New(httpclient.OnlyTo(httpclient.OriginOf(u), http.DefaultTransport))
	for address, want := range map[string]bool{
		server.URL: true, strings.ToUpper(server.URL[:4]) + server.URL[4:]: true,
		strings.Replace(server.URL, "127.0.0.1", "localhost", 1): false, "http://127.0.0.1": false, "https" + server.URL[4:]: false,
	} {
		before := asked
		resp, err := httpclient.Get(t.Context(), client, address, nil)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != want || (asked > before) != want {
			t.Errorf("%s: %v, asked %v", address, err, asked > before)
		}
	}
}

// A subject that sends who asks whether it is ready elsewhere is not ready, and what it names is not asked.
func TestAttackReadyRedirect(t *testing.T) {
	_, err := start(t.Context(), "redirects", t.TempDir(), func(spec *leak.SubjectSpec) {
		spec.Ready, spec.ReadyTimeout = "/ready", leak.Duration(500*time.Millisecond)
	})
	if err == nil || !strings.Contains(err.Error(), "redirected to http://127.0.0.1:1/secret") || strings.Contains(err.Error(), "token=x") {
		t.Error(err)
	}
}

// The last words of a subject that dies are quoted: no CI system takes them for a command, no terminal for an escape.
func TestAttackLastWords(t *testing.T) {
	_, err := start(t.Context(), "commands", t.TempDir(), asIs)
	if err == nil {
		t.Fatal("started")
	}
	_, words, ok := strings.Cut(err.Error(), "its last words:\n")
	if !ok {
		t.Fatal(err)
	}
	for line := range strings.Lines(words) {
		if !strings.HasPrefix(line, "| ") || strings.ContainsAny(line, "\x1b\r") || strings.Contains(line, "##[") || strings.Contains(line, "##vso[") {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(words, "stop-commands::x") || !strings.Contains(words, "[error]gone") {
		t.Errorf("nothing is left of %q", words)
	}
}

// A subject may write for as long as it runs: its log keeps the beginning and the end, and no more than 64 MiB.
func TestAttackLog(t *testing.T) {
	s, log := mustStart(t, "talks", asIs) // it has written 200 MiB when it is ready
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 64<<20 || len(data) < 48<<20 {
		t.Errorf("%d bytes", len(data))
	}
	if !bytes.HasPrefix(data, []byte("the first line\nxxxx")) || !bytes.Contains(data[len(data)-10_000:], []byte("\nthe last line\n")) {
		t.Errorf("it begins with %.40q and ends with %q", data, data[max(0, len(data)-200):])
	}
	if n := bytes.Count(data, []byte("bytes of the log removed")); n != 1 {
		t.Errorf("%d marks", n)
	}
}
