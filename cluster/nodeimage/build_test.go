package nodeimage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/leak"
)

// silent is a progress that only writes to a channel.
type silent struct{ status chan string }

func (silent) Log(string, ...any) {}
func (s silent) Status(format string, args ...any) {
	select {
	case s.status <- fmt.Sprintf(format, args...):
	default:
	}
}

// fakeEngine is an engine that answers `images` with a line, and fails at everything else.
func fakeEngine(t *testing.T, answer string) engine.Engine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n[ \"$1\" = images ] || { echo broken >&2; exit 1; }\n"+answer+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return engine.Engine(file)
}

// An image that the engine has is not built: neither root nor the cache is touched.
func TestBuildReturnsThePresentImage(t *testing.T) {
	o := Options{Kubernetes: version, Engine: fakeEngine(t, "echo 123456"), Cache: "/nowhere"}
	want, err := Tag(o)
	if err != nil {
		t.Fatal(err)
	}
	if ref, err := Build(context.Background(), o); err != nil || ref != want {
		t.Errorf("%q, %v", ref, err)
	}
}

func TestPresent(t *testing.T) {
	for name, c := range map[string]struct {
		engine  engine.Engine
		present bool
		err     string
	}{
		"there":     {engine: fakeEngine(t, "echo 123456"), present: true},
		"not there": {engine: fakeEngine(t, "")},
		// If the daemon is down, the image is not reported as missing.
		"engine down": {engine: fakeEngine(t, "echo Cannot connect >&2; exit 1"), err: "Cannot connect"},
		"no engine":   {engine: "leakrig-no-such-engine", err: "not on the PATH"},
	} {
		present, err := Present(context.Background(), Options{Kubernetes: version, Engine: c.engine})
		if present != c.present || (err == nil) != (c.err == "") {
			t.Errorf("%s: %v, %v", name, present, err)
		}
		if err != nil && (!strings.Contains(err.Error(), c.err) || leak.Hint(err) == "") {
			t.Errorf("%s: %v, hint %q", name, err, leak.Hint(err))
		}
	}
}

// TestRemoveOthers checks that the next builder removes the leftovers of a killed one, and a replaced rootfs. The
// lock and files in use stay.
func TestRemoveOthers(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "node-image")
	for _, name := range []string{"tmp-rootfs-1/etc", "rootfs-old.tar", "rootfs-new.tar"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, unlock, err := newBuilder(context.Background(), Options{Kubernetes: version, Cache: cache, Progress: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	b.removeOthers("rootfs-*.tar", filepath.Join(dir, "rootfs-new.tar"))
	left, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "rootfs-new.tar" {
		t.Errorf("left: %v, %v", left, err)
	}
}
