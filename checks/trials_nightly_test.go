//go:build nightly

package checks

const share = 1
