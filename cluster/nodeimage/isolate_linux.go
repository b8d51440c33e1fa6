package nodeimage

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// runIsolated runs a command in separate mount and PID namespaces. Its mounts disappear when it ends. The kernel
// kills its children, also if the command is killed by an interrupt or because this process died. It does not receive
// Ctrl-C from the terminal; the context decides.
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
