package bisect

import (
	"regexp"
	"slices"

	"golang.org/x/mod/semver"
)

// IsPre reports whether a version is a pre-release or a pseudo-version.
func IsPre(version string) bool { return semver.Prerelease(version) != "" }

// Line is the release line of a version: v0.21 for v0.21.3.
func Line(version string) string { return semver.MajorMinor(version) }

// Within reports whether a version is between two others, or one of them. Their order does not matter.
func Within(version, one, other string) bool {
	if semver.Compare(one, other) > 0 {
		one, other = other, one
	}
	return semver.Compare(one, version) <= 0 && semver.Compare(version, other) <= 0
}

// Sort sorts versions, oldest first, and removes duplicates.
func Sort(versions []string) []string {
	sorted := slices.Clone(versions)
	semver.Sort(sorted)
	return slices.Compact(sorted)
}

// between reports whether a version is strictly between two others.
func between(version, lo, hi string) bool {
	return version != lo && version != hi && semver.IsValid(version) && semver.IsValid(lo) && Within(version, lo, hi)
}

// majorOf is the major version at the end of a module's path.
var majorOf = regexp.MustCompile(`/v[0-9]+$`)

// pseudoVersion is the end of a version that names a commit.
var pseudoVersion = regexp.MustCompile(`[.-][0-9]{14}-[0-9a-f]{12}$`)

// pseudo reports whether a version names a commit instead of a tag.
func pseudo(version string) bool { return pseudoVersion.MatchString(version) }
