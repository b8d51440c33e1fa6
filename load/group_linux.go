package load

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the program, so that the rig decides when it ends, and has
// the kernel kill it should the rig itself be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
