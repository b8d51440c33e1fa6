//go:build unix && !linux

package subjects

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the subject, so that the rig decides when it ends.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
