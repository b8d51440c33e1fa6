package nodeimage

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// runIsolated runs a command in namespaces of its own for mounts and processes. What it mounted is gone
// when it has ended, and the kernel kills what it started, also when it is killed itself, by an interrupt
// or because this process died. A Ctrl-C of the terminal does not reach it: the context decides.
func runIsolated(cmd *exec.Cmd) error {
	// The kernel takes the thread that started the command for its parent: it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS, // Go makes the mounts private as well
		Pdeathsig:    syscall.SIGKILL,
		Setpgid:      true,
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}
