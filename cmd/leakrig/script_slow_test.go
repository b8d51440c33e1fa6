//go:build slow

package main

import "testing"

// Scripts that build dozens of programs, or wait: `make test` has them, `make quick` has not.
func TestSlowScripts(t *testing.T) { runScripts(t, "testdata/slow") }
