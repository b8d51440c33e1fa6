package cluster

import "syscall"

// childGroup makes a process group that can be killed whole, and has the kernel kill the child should
// the rig itself be killed.
func childGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
