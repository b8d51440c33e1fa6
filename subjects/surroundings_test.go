package subjects

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// plainLink is a link that leads nowhere else.
type plainLink struct {
	to     string
	closed bool
}

func (l *plainLink) Address() string { return l.to }
func (l *plainLink) Close() error    { l.closed = true; return nil }

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func surroundedLauncher(dir string, dependencies ...leak.Dependency) *Launcher {
	return &Launcher{
		Scratch: dir, Dependencies: dependencies,
		Spec: leak.SubjectSpec{
			Command: []string{os.Args[0]}, Args: []string{"-addr=:$(port)", "-backend=$(backend.addr)", "-port=$(backend.port)", "$(other)"},
			Env:   map[string]string{modeVar: "ready", "BACKEND": "http://$(backend.addr)/"},
			Pprof: "/debug/pprof", Ready: "/healthz", ReadyTimeout: leak.Duration(30 * time.Second),
		},
	}
}

func backend(mode string) leak.Dependency {
	return leak.Dependency{
		Name: "backend", Command: []string{os.Args[0]}, Args: []string{"-listen=$(port)"}, Env: map[string]string{modeVar: mode},
		ReadyTimeout: leak.Duration(30 * time.Second),
	}
}

// TestDependency follows a dependency from its start to its end: the subject knows its address, its log is in the run
// directory, a restart keeps its port, and it ends with the subject.
func TestDependency(t *testing.T) {
	dir := t.TempDir()
	l := surroundedLauncher(dir, backend("ready"))
	v := leak.Variant{Name: "leaky"}
	if err := l.CheckProgram([]leak.Variant{v}); err != nil {
		t.Fatal(err)
	}
	if err := l.Build(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), v, nil, logOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	target := s.Target()
	own := target.URL[strings.LastIndexByte(target.URL, ':')+1:]
	address := strings.TrimPrefix(target.Dependencies["backend"].URL, "http://")
	_, port, _ := net.SplitHostPort(address)
	if got, want := fetch(t, target.URL+"/args"), "-addr=:"+own+" -backend="+address+" -port="+port+" $(other)"; got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
	if got := fetch(t, target.URL+"/env"); !strings.Contains(got, "BACKEND=http://"+address+"/\n") {
		t.Errorf("environment: %s", got)
	}
	if got := fetch(t, "http://"+address+"/args"); got != "-listen="+port {
		t.Errorf("arguments of the dependency: %q", got)
	}
	before := fetch(t, "http://"+address+"/pid")
	up, err := target.Down(t.Context(), leak.Part{Name: "backend"})
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		conn.Close()
		t.Error("it listens while it is down")
	}
	if s.Target().Dependencies["backend"].Freeze != nil {
		t.Error("what is down can be frozen")
	}
	if err := up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := fetch(t, "http://"+address+"/pid"); after == before {
		t.Error("the same process after a restart")
	}
	select {
	case <-s.Done():
		t.Fatalf("a restart ended the subject: %v", s.Err())
	default:
	}
	http.DefaultClient.CloseIdleConnections()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		conn.Close()
		t.Error("the dependency outlives the subject")
	}
	log, err := os.ReadFile(filepath.Join(dir, "backend.log"))
	if err != nil || strings.Count(string(log), "listening") != 2 {
		t.Errorf("log %q, %v", log, err)
	}
	if _, err := target.Down(t.Context(), leak.Part{Name: "database"}); err == nil || leak.Hint(err) == "" {
		t.Errorf("an unknown part: %v", err)
	}
}

// TestDependencyDies checks that the death of a dependency ends the subject, with its name and its last words, and that a
// dependency that never starts leaves nothing behind.
func TestDependencyDies(t *testing.T) {
	dir := t.TempDir()
	l := surroundedLauncher(dir, backend("ready"))
	s, err := l.Start(t.Context(), leak.Variant{Name: "leaky"}, nil, logOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop(context.Background()) }()
	if resp, err := http.Get(s.Target().Dependencies["backend"].URL + "/die"); err == nil {
		resp.Body.Close()
	}
	select {
	case <-s.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "dependency backend died") || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("%v", err)
	}
	for mode, want := range map[string]string{"exits": "no such flag", "deaf": "connect: no answer"} {
		d := backend(mode)
		d.ReadyTimeout = leak.Duration(500 * time.Millisecond)
		if mode == "exits" {
			d.ReadyTimeout = leak.Duration(20 * time.Second)
		}
		_, err := surroundedLauncher(dir, backend("ready"), func() leak.Dependency { d.Name = "second"; return d }()).Start(t.Context(), leak.Variant{Name: "leaky"}, nil, logOf(dir))
		if err == nil || !strings.Contains(err.Error(), "dependency second") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// breakable is a cluster with an API server.
type breakable struct {
	fakeCluster
	down *[]leak.Part
}

func (b breakable) Down(_ context.Context, p leak.Part) (func(context.Context) error, error) {
	*b.down = append(*b.down, p)
	return func(context.Context) error { return nil }, nil
}
func (breakable) Server() string                         { return "127.0.0.1:6443" }
func (breakable) Through(address string) (string, error) { return "/run/through-" + address, nil }

// TestLinks checks where proxies are: in front of what a fault disturbs, and nowhere else.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	var opened []*plainLink
	l := surroundedLauncher(dir, backend("ready"), leak.Dependency{Name: "far", Address: leak.KubeAPIServer}, leak.Dependency{Name: "near", Address: "127.0.0.1:1"})
	l.Spec.Args = []string{"$(far.addr)", "$(near.addr)"}
	l.Linked = []string{leak.KubeAPIServer, "far"}
	l.Link = func(to string) (leak.Link, error) {
		opened = append(opened, &plainLink{to: "through " + to})
		return opened[len(opened)-1], nil
	}
	var down []leak.Part
	s, err := l.Start(t.Context(), leak.Variant{Name: "leaky"}, breakable{down: &down}, logOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	target := s.Target()
	if got := fetch(t, target.URL+"/args"); got != "through 127.0.0.1:6443 127.0.0.1:1" {
		t.Errorf("%q", got)
	}
	if got := fetch(t, target.URL+"/env"); !strings.Contains(got, "KUBECONFIG=/run/through-through 127.0.0.1:6443\n") {
		t.Errorf("%s", got)
	}
	if len(target.Links) != 2 || len(opened) != 2 || target.Links["backend"] != nil {
		t.Errorf("%v", target.Links)
	}
	if _, err := target.Down(t.Context(), leak.Part{Name: leak.KubeAPIServer}); err != nil || len(down) != 1 {
		t.Errorf("%v, %v", down, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, one := range opened {
		if !one.closed {
			t.Errorf("the proxy to %s is left", one.to)
		}
	}
	if _, err := l.Start(t.Context(), leak.Variant{Name: "leaky"}, fakeCluster{}, logOf(dir)); err == nil {
		t.Error("a proxy to an API server that cannot have one")
	}
}
