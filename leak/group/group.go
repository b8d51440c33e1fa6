//go:build unix

// Package group starts programs in separate process groups, so that all their processes can be killed together.
package group

import "syscall"

// Terminate asks a group to end. There may be none left, which is what was asked for.
func Terminate(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

// Kill kills the remaining processes of a group.
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// Freeze stops all processes of a group, or continues them.
func Freeze(pid int, stop bool) error {
	signal := syscall.SIGCONT
	if stop {
		signal = syscall.SIGSTOP
	}
	return syscall.Kill(-pid, signal)
}
