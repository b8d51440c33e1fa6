package upstream

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/leakrig/leakrig/leak"
)

// Every pin names the version that its file name promises, and has its sums.
func TestPins(t *testing.T) {
	files, err := pins.ReadDir("pins")
	if err != nil {
		t.Fatal(err)
	}
	main := map[string]string{
		"kubernetes": "k8s.io/kubernetes", "etcd": "go.etcd.io/etcd/server/v3", "coredns": "github.com/coredns/coredns",
		"containerd": "github.com/containerd/containerd", "crictl": "github.com/kubernetes-sigs/cri-tools",
	}
	checked := 0
	for _, f := range files {
		base, ok := strings.CutSuffix(f.Name(), ".mod")
		if !ok {
			continue
		}
		checked++
		name, version, _ := strings.Cut(base, "-")
		mod, err := pins.ReadFile("pins/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := modfile.Parse(f.Name(), mod, nil)
		if err != nil {
			t.Fatal(err)
		}
		if main[name] == "" && len(parsed.Require) == 0 {
			continue // a program of our own, with nothing to pin
		}
		if name == "containerd" {
			main[name] = ContainerdPath(version)
		}
		found := false
		for _, r := range parsed.Require {
			found = found || (r.Mod.Path == main[name] && r.Mod.Version == version)
		}
		if !found {
			t.Errorf("%s does not require %s %s", f.Name(), main[name], version)
		}
		summed := main[name]
		for _, r := range parsed.Replace {
			if r.Old.Path == main[name] {
				summed = r.New.Path
			}
		}
		if sum, err := pins.ReadFile("pins/" + base + ".sum"); err != nil || !strings.Contains(string(sum), summed+" "+version+" h1:") {
			t.Errorf("%s has no sum for %s %s: %v", base, summed, version, err)
		}
	}
	if checked < 2 {
		t.Errorf("%d pins", checked)
	}
}

// Builds of other pins, or with other version stamps, never share a folder.
func TestFingerprint(t *testing.T) {
	seen := map[string]string{}
	for name, in := range map[string][4]string{
		"plain":          {"mod", "sum", "stamp"},
		"other mod":      {"mod2", "sum", "stamp"},
		"other sum":      {"mod", "sum2", "stamp"},
		"other stamp":    {"mod", "sum", "stamp2"},
		"moved boundary": {"mods", "um", "stamp"},
		"with a main":    {"mod", "sum", "stamp", "main"},
		"other main":     {"mod", "sum", "stamp", "main2"},
	} {
		p := pin{mod: []byte(in[0]), sum: []byte(in[1])}
		if in[3] != "" {
			p.main = []byte(in[3])
		}
		f := fingerprint(p, []string{in[2]})
		if other := seen[f]; other != "" {
			t.Errorf("%s and %s share %s", name, other, f)
		}
		seen[f] = name
	}
}

// The modules that leakrig names are pinned, and stamped with the version that is pinned.
func TestModulesArePinned(t *testing.T) {
	for _, m := range []Module{Kubernetes("v1.34.4"), Etcd, Containerd("v1.6.36"), Containerd("v1.7.35"), Containerd("v2.2.9"), CoreDNS, Crictl, Pause} {
		f, err := m.Fingerprint()
		if err != nil || !strings.HasPrefix(f, m.name+"-"+m.Version()+"-") {
			t.Errorf("%s: %q, %v", m.name, f, err)
		}
		for _, flag := range m.stamp {
			if strings.Contains(strings.ToLower(flag), "version.version=") && !strings.HasSuffix(flag, "="+m.version) {
				t.Errorf("%s %s is stamped %s", m.name, m.version, flag)
			}
		}
	}
	if _, err := (Module{name: "nothing", version: "v1.0.0"}).Fingerprint(); err == nil {
		t.Error("a module without a pin, and without a way to make one, has a fingerprint")
	}
	seen := map[string]bool{}
	for _, m := range []Module{Containerd("v1.6.36"), Containerd("v1.6.35"), Containerd("v1.6.36").With(map[string]string{"github.com/containerd/ttrpc": "v1.0.2"})} {
		f, err := m.Fingerprint()
		if err != nil || seen[f] {
			t.Errorf("%s: %s again, or %v", m.version, f, err)
		}
		seen[f] = true
	}
}

// TestLock checks that the second builder waits, reports it, and returns when its context ends.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(context.Background(), path, func() { t.Error("waited for no other builder") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errors.New("interrupted"))
	defer cancel()
	waited := 0
	if _, err := Lock(ctx, path, func() { waited++ }); err == nil || err.Error() != "interrupted" || waited != 1 {
		t.Errorf("%v, told %d times", err, waited)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		unlock()
	}()
	again, err := Lock(context.Background(), path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// A compile error is not reported as a network problem.
func TestHintOfABuild(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.org/broken\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() { missing() }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := compilation{dir: dir, what: "broken"}
	if err := c.golang(t.Context(), func(string) {}, "build", "."); err == nil || !strings.Contains(leak.Hint(err), "do not compile with each other") {
		t.Errorf("%v, hint: %s", err, leak.Hint(err))
	}
	if err := c.golang(t.Context(), func(string) {}, "build", "-o", filepath.Join(dir, "nowhere", "x", "\x00"), "."); err == nil || strings.Contains(leak.Hint(err), "compile") {
		t.Errorf("%v, hint: %s", err, leak.Hint(err))
	}
}
