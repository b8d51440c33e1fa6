// Package leak is leakrig's vocabulary: the types and small interfaces that every other package
// speaks in. It holds what a scenario says (Scenario), what a run wrote (Record), and what was
// concluded from it (Verdict), together with the plug points: Action, Probe, Check and Provider.
//
// It imports nothing but the standard library and does no work of its own beyond reading, writing and
// naming these values: loading YAML is package scenarios, measuring is package runner, deciding is
// package checks.
package leak
