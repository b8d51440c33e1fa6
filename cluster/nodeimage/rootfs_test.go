package nodeimage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leakrig/leakrig/cluster/tarfile"
)

// The node gets Debian's files without what belongs to this machine or to the installation.
func TestDebianEntries(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"etc/passwd", "etc/passwd-", "etc/resolv.conf", "dev/null", "proc/1/exe", "var/log/dpkg.log", "var/cache/apt/pkgcache.bin",
		"usr/share/doc/bash/README", "usr/bin/bash", "etc/systemd/system/getty.target.wants/a.service",
		"usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
		"usr/lib/systemd/system/sysinit.target.wants/systemd-sysctl.service",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := bookworm.entries(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Mode.IsRegular() {
			got = append(got, e.Name)
		}
		if e.UID != os.Getuid() {
			t.Errorf("%s: owner %d", e.Name, e.UID)
		}
	}
	want := []string{"etc/passwd", "usr/bin/bash", "usr/lib/systemd/system/sysinit.target.wants/systemd-sysctl.service"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, dir := range []string{"dev", "proc", "var/log", "usr/share/doc"} {
		if !slices.ContainsFunc(entries, func(e tarfile.Entry) bool { return e.Name == dir && e.Mode.IsDir() }) {
			t.Errorf("the folder %s is gone with what was in it", dir)
		}
	}
}

// TestDebianEntriesRefuseAPipe checks that an entry other than a file, folder or link is an error.
func TestDebianEntriesRefuseAPipe(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := bookworm.entries(root); err == nil || !strings.Contains(err.Error(), "pipe") {
		t.Errorf("%v", err)
	}
}
