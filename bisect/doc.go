// Package bisect finds the two neighbouring versions between which a leak appeared or disappeared. It contains the
// search, its record and its reports: the input is a list of candidates and an oracle that measures one of them, the
// output is the boundary.
//
// It runs and builds nothing itself. The next step depends only on the steps so far, so an interrupted search resumes
// from its record.
package bisect
