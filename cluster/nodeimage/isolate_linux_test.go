package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInterruptedDebootstrapLeavesNothing checks that an interrupted debootstrap leaves neither mounts nor processes,
// even if it ignores signals.
func TestInterruptedDebootstrapLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as debootstrap does")
	}
	dir := t.TempDir()
	program, root := filepath.Join(dir, "debootstrap"), filepath.Join(dir, "root")
	seconds := fmt.Sprint(1000000 + os.Getpid()) // tells this test's process from another's
	err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(program, []byte(`#!/bin/sh
trap '' INT TERM
for root; do :; done
mount -t tmpfs leakrig-test "$root" || exit 1
touch "$root/mounted"
sleep `+seconds+` &
echo mounted
wait
`), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	b := &builder{Options: Options{Progress: silent{said}}, recipe: testRecipe()}
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-said:
		case <-time.After(20 * time.Second):
		}
		cancel(interrupted)
	}()
	if err := b.debootstrap(ctx, program, root); err == nil || !errors.Is(err, interrupted) {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "mounted")); err == nil {
		t.Error("the mount was seen outside")
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), root) {
		t.Errorf("something is mounted below %s: %v", root, err)
	}
	if left := processes(t, "sleep\x00"+seconds); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
}

// A debootstrap that fails is quoted.
func TestFailedDebootstrapIsQuoted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as debootstrap does")
	}
	program := filepath.Join(t.TempDir(), "debootstrap")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho 'E: no such suite' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := &builder{Options: Options{Progress: silent{}}, recipe: testRecipe()}
	if err := b.debootstrap(context.Background(), program, t.TempDir()); err == nil || !strings.Contains(err.Error(), "E: no such suite") {
		t.Errorf("%v", err)
	}
}

// processes returns the folders below /proc of those whose command line contains the words.
func processes(t *testing.T, words string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), words) {
			found = append(found, file)
		}
	}
	return found
}
