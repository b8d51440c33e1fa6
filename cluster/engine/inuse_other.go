//go:build !linux

package engine

func announce(string) (quiet func()) { return func() {} }

func announced(string) bool { return false }
