//go:build unix && !linux

package cluster

import "syscall"

// childGroup makes a process group that can be killed whole.
func childGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
