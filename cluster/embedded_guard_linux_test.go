package cluster

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGuarded checks that a guarded process becomes the command with its arguments, and is killed with its parent.
func TestGuarded(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	link, err := guarded(t.TempDir(), sleep)
	if err != nil {
		t.Fatal(err)
	}
	rig := exec.Command("/bin/sh", "-c", `"$0" 120 & echo $!; wait`, link)
	out, err := rig.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rig.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 20)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	proc := "/proc/" + strings.TrimSpace(string(line[:n]))
	within(t, "become sleep", func() bool {
		words, err := os.ReadFile(proc + "/cmdline")
		exe, _ := os.Readlink(proc + "/exe")
		return err == nil && strings.HasSuffix(string(words), "\x00120\x00") && exe != "" && !strings.HasSuffix(exe, ".test")
	})
	if err := rig.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = rig.Wait()
	within(t, "die with the process that started it", func() bool {
		stat, err := os.ReadFile(proc + "/stat")
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || strings.Contains(string(stat), ") Z ")
	})
}

func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not %s", what)
		}
	}
}
