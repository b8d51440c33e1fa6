// Package bisect finds the two neighbouring versions between which a leak came or went. It holds the search,
// its record and its reports: candidates in, an oracle that measures one of them, the boundary out.
//
// It runs and builds nothing itself. What comes next is computed from the steps that were taken, and from
// nothing else, so that a search that was interrupted goes on from its record.
package bisect
