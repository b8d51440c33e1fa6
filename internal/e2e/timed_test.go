//go:build e2e && bench

package e2e

// timed makes tests repeat what they time and fail over their limits, as `make bench` wants it. Other tiers share
// the machine with compilers and other tests, so they only check results.
const timed = true
