//go:build e2e && !bench

package e2e

const timed = false
