package group

import "syscall"

// Own returns the attributes of a program that gets its own process group. The terminal does not send Ctrl-C to the
// group, so leakrig decides when the program ends. The kernel kills the program if leakrig is killed.
func Own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
