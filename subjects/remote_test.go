package subjects

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// Pods of a cluster may reach a program that runs already where its address leads there from anywhere, and where
// nothing proves who asks: that stays with leakrig.
func TestReachableFromPods(t *testing.T) {
	for _, row := range []struct {
		comment, address string
		access           leak.Access
		want             string
	}{
		{"another machine", "http://10.0.0.1:8080/", leak.Access{}, "http://10.0.0.1:8080"},
		{"a service", "https://web.default.svc/admin", leak.Access{}, "https://web.default.svc/admin"},
		{"this machine", "http://127.0.0.1:8080", leak.Access{}, ""},
		{"this machine by name", "http://localhost:8080", leak.Access{}, ""},
		{"this machine, IPv6", "http://[::1]:8080", leak.Access{}, ""},
		{"all of this machine's", "http://0.0.0.0:8080", leak.Access{}, ""},
		{"a socket", "unix:///run/app.sock", leak.Access{}, ""},
		{"any certificate", "https://10.0.0.1", leak.Access{Insecure: true}, ""},
	} {
		r, err := reach(leak.SubjectSpec{Access: row.access}, row.address, "")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if r.target.InCluster != nil {
			if got, err = r.target.InCluster(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.comment, got, row.want)
		}
	}
}

// TestNameAndPassword checks that credentials go with every request to the given host, to no other host, and into no
// address.
func TestNameAndPassword(t *testing.T) {
	var asked []string
	note := func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		asked = append(asked, r.URL.Path+" "+user+":"+password)
		if r.URL.Path == "/debug/pprof/away" {
			_, port, _ := net.SplitHostPort(r.Host)
			http.Redirect(w, r, "http://localhost:"+port+"/elsewhere", http.StatusFound)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(note))
	defer server.Close()
	target, err := Remote(strings.Replace(server.URL, "http://", "http://me:hunter2@", 1), "/debug/pprof", leak.Access{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", target); strings.Contains(text, "hunter2") || target.Pprof != server.URL+"/debug/pprof" {
		t.Error(text)
	}
	client := &http.Client{Transport: target.Transport()}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/heap", "/away"} {
		resp, err := client.Get(target.Pprof + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if want := []string{"/debug/pprof/heap me:hunter2", "/debug/pprof/away me:hunter2", "/elsewhere :"}; !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
}
