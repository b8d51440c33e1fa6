//go:build !race && !nightly

package checks

const share = 3
