// Package bisect finds the two neighbouring versions between which a leak appeared or disappeared. Every step builds a
// version and runs the scenario with it, as package session does.
//
// The search (search.go, run.go) runs and builds nothing itself: its input is a list of candidates and an oracle that
// measures one of them, its output is the boundary. The next step depends only on the steps so far, so an interrupted
// search resumes from its record.
package bisect
