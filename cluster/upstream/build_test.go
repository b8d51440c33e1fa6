package upstream

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
)

// Every pin names the version that its file name promises, and has its sums.
func TestPins(t *testing.T) {
	files, err := pins.ReadDir("pins")
	if err != nil {
		t.Fatal(err)
	}
	main := map[string]string{"kubernetes": "k8s.io/kubernetes", "etcd": "go.etcd.io/etcd/server/v3"}
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
		found := false
		for _, r := range parsed.Require {
			found = found || (r.Mod.Path == main[name] && r.Mod.Version == version)
		}
		if !found {
			t.Errorf("%s does not require %s %s", f.Name(), main[name], version)
		}
		if sum, err := pins.ReadFile("pins/" + base + ".sum"); err != nil || !strings.Contains(string(sum), main[name]+" "+version+" h1:") {
			t.Errorf("%s has no sum for %s %s: %v", base, main[name], version, err)
		}
	}
	if checked < 2 {
		t.Errorf("%d pins", checked)
	}
}

// Builds of other pins, or with other version stamps, never share a folder.
func TestFingerprint(t *testing.T) {
	seen := map[string]string{}
	for name, in := range map[string][3]string{
		"plain":          {"mod", "sum", "stamp"},
		"other mod":      {"mod2", "sum", "stamp"},
		"other sum":      {"mod", "sum2", "stamp"},
		"other stamp":    {"mod", "sum", "stamp2"},
		"moved boundary": {"mods", "um", "stamp"},
	} {
		f := fingerprint([]byte(in[0]), []byte(in[1]), []string{in[2]})
		if other := seen[f]; other != "" {
			t.Errorf("%s and %s share %s", name, other, f)
		}
		seen[f] = name
	}
}

// The second builder waits, is told so, and gives up with its context.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(context.Background(), path, func() { t.Error("waited for nobody") })
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
