package group

import "syscall"

// Own is for a program that is to have a group of its own. It keeps the terminal's Ctrl-C from it, so that the rig
// decides when it ends, and has the kernel kill it should the rig itself be killed.
func Own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
