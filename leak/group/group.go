//go:build unix

// Package group starts programs in process groups of their own, so that they can be ended whole.
package group

import "syscall"

// Terminate asks a group to end. There may be none left, which is what was asked for.
func Terminate(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

// Kill ends whatever is left of a group.
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
