//go:build unix && !linux

package load

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the program, so that the rig decides when it ends.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
