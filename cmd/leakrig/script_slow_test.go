//go:build slow

package main

import "testing"

// Scripts that build dozens of programs, or wait: the tier embedded runs them.
func TestSlowScripts(t *testing.T) { runScripts(t, "testdata/slow") }
