package main

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	info := func(version string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	for _, c := range []struct {
		name, release, want string
		info                *debug.BuildInfo
	}{
		{"a release overrides the rest", "v1.2.3", "v1.2.3", info("v0.9.0")},
		{"go install of a version", "", "v0.9.0", info("v0.9.0")},
		{"a checkout", "", "(devel) abc", info("(devel)", "vcs.revision", "abc", "vcs.modified", "false")},
		{"a checkout with changes", "", "(devel) abc and changes", info("", "vcs.revision", "abc", "vcs.modified", "true")},
		{"a checkout without history", "", "(devel)", info("(devel)")},
		{"nothing", "", "(unknown)", info("")},
	} {
		if got := versionOf(c.release, c.info); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
