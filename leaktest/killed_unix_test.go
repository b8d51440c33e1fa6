//go:build unix

package leaktest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestKilledParent checks that a test binary which is killed leaves no process behind, whatever its child does.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "outcomes.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "./testdata/outcomes").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "pid")
	command := exec.Command(binary, "-test.run=^TestLateHang$", "-own="+file)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	await(t, "the child", func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(text))
		return pid > 0
	})
	_ = command.Process.Kill()
	_ = command.Wait()
	await(t, "the end of the child", func() bool { return syscall.Kill(pid, 0) != nil })
}

// await waits for an event.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
