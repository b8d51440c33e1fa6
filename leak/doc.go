// Package leak is leakrig's vocabulary: the types and small interfaces that all other packages use. It defines
// scenarios (Scenario), records of runs (Record), verdicts (Verdict), and the plug points Action, Probe, Check and
// Provider.
//
// It imports only the standard library. It reads, writes and names these values: package scenarios loads YAML,
// package runner measures, and package checks decides.
package leak
