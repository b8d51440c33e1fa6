package leak

import (
	"debug/buildinfo"
	"io"
	"strings"
)

// ReadBinary returns what a Go binary says of itself (go version -m), apart from its name; nothing for
// one that says nothing.
func ReadBinary(r io.ReaderAt) SubjectInfo {
	b, err := buildinfo.Read(r)
	if err != nil {
		return SubjectInfo{} // not a Go program, or one stripped of it
	}
	info := SubjectInfo{GoVersion: b.GoVersion}
	for _, m := range b.Deps {
		module := Module{Path: m.Path, Version: m.Version}
		if m.Replace != nil {
			module.Replace = strings.TrimSpace(m.Replace.Path + " " + m.Replace.Version)
		}
		info.Modules = append(info.Modules, module)
	}
	return info
}
