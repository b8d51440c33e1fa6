package leak

import (
	"debug/buildinfo"
	"io"
	"runtime/debug"
	"strings"
)

// ReadBinary returns the build information in a Go binary (go version -m) without its name, or nothing if there is
// none.
func ReadBinary(r io.ReaderAt) SubjectInfo {
	b, err := buildinfo.Read(r)
	if err != nil {
		return SubjectInfo{} // not a Go program, or one stripped of it
	}
	info := SubjectInfo{GoVersion: b.GoVersion}
	deps := b.Deps
	if v := b.Main.Version; v != "" && v != "(devel)" { // a release, built in its own module
		deps = append([]*debug.Module{&b.Main}, deps...)
	} else {
		info.Main = b.Main.Path
	}
	dirty := ""
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			info.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if info.Revision != "" {
		info.Revision += dirty
	}
	for _, m := range deps {
		module := Module{Path: m.Path, Version: m.Version}
		if m.Replace != nil {
			module.Replace = strings.TrimSpace(m.Replace.Path + " " + m.Replace.Version)
		}
		info.Modules = append(info.Modules, module)
	}
	return info
}
