package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/cluster"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/load"
	"github.com/leakrig/leakrig/profiles"
	"github.com/leakrig/leakrig/scenarios"
)

// kinds is all that a scenario may name.
func kinds() leak.Kinds {
	k := leak.Kinds{Actions: load.Kinds(), Probes: profiles.Kinds(), Checks: checks.Kinds()}
	for _, p := range cluster.Kinds(cluster.Options{}) {
		k.Providers = append(k.Providers, p.Name)
	}
	return k
}

// open finds and loads a scenario by name or path, with values for its parameters.
func open(nameOrFile string, set map[string]string) (scenarios.Source, *leak.Scenario, error) {
	src, err := scenarios.Find(nameOrFile)
	if err != nil {
		return src, nil, &leak.UsageError{Err: err}
	}
	src.Set = set
	s, err := scenarios.Load(src, kinds())
	return src, s, err
}

// cacheDir is the folder for what is built once and used again.
func cacheDir() (string, error) {
	dir := os.Getenv("LEAKRIG_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", leak.WithHint(err, "LEAKRIG_CACHE names a folder for what is built once and used again")
		}
		dir = filepath.Join(user, "leakrig")
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", leak.WithHint(fmt.Errorf("cache: %w", err), "LEAKRIG_CACHE names another folder for what is built once and used again")
	}
	return dir, nil
}

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
