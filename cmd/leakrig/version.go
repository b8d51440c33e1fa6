package main

import (
	"cmp"
	"runtime/debug"
)

// release is the version of a released build, set by the linker (internal/release.sh).
var release string

// version returns the release, else the module's version or its commit from the build information.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(release, info)
}

func versionOf(release string, info *debug.BuildInfo) string {
	if release != "" {
		return release
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		if settings["vcs.modified"] == "true" {
			return "(devel) " + commit + " and changes"
		}
		return "(devel) " + commit
	}
	return cmp.Or(info.Main.Version, "(unknown)")
}
