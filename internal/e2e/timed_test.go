//go:build e2e && bench

package e2e

// timed is set for `make bench`: tests then repeat their measurements and fail if a limit is exceeded. Other tiers
// share the machine with compilers and other tests, so they only check results.
const timed = true
