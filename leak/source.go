package leak

import (
	"path"
	"strconv"
	"strings"
)

// SourceKey names the source line of a frame of this program, "" if its origin is unknown.
func (s SubjectInfo) SourceKey(f Frame) string {
	if file, ok := s.Own(f); ok {
		return "./" + file + ":" + strconv.Itoa(f.Line)
	}
	module, version, file, ok := s.Origin(f)
	if !ok {
		return ""
	}
	return module + "@" + version + "/" + file + ":" + strconv.Itoa(f.Line)
}

// Origin tells the module, its version and the file within it that a frame of this program was compiled
// from, replace lines applied: a binary that was built with -trimpath states the replaced module. The
// module of the standard library is "std". ok is false where a frame does not say, or was compiled from a
// local folder.
func (s SubjectInfo) Origin(f Frame) (module, version, file string, ok bool) {
	name := path.Clean(f.File)
	if f.File == "" || path.IsAbs(name) || strings.HasPrefix(name, "..") {
		return "", "", "", false
	}
	module, rest, found := strings.Cut(name, "@")
	if !found {
		first, _, _ := strings.Cut(name, "/")
		std := !strings.Contains(first, ".") && strings.Contains(name, "/") && strings.HasPrefix(s.GoVersion, "go1.")
		return "std", s.GoVersion, name, std
	}
	version, file, found = strings.Cut(rest, "/")
	if !found || module == "" || version == "" {
		return "", "", "", false
	}
	for _, m := range s.Modules {
		if m.Path != module || m.Version != version || m.Replace == "" {
			continue
		}
		if module, version, found = strings.Cut(m.Replace, " "); !found || version == "" {
			return "", "", "", false // a local folder
		}
		break
	}
	return module, version, file, true
}

// Own tells the file of a frame of the program's own module, relative to that module's folder. ok is false for
// frames of other modules, and where the program was built at a version or does not say.
func (s SubjectInfo) Own(f Frame) (file string, ok bool) {
	name := path.Clean(f.File)
	file, found := strings.CutPrefix(name, s.Main+"/")
	if !found || s.Main == "" || strings.Contains(name, "@") {
		return "", false
	}
	for _, m := range s.Modules { // one within it that a local folder stands in for
		if len(m.Path) > len(s.Main) && strings.HasPrefix(name, m.Path+"/") {
			return "", false
		}
	}
	return file, true
}

// Position returns the position of the frame: "main.go:17" for the program's own module, and else as in the frame.
func (s SubjectInfo) Position(f Frame) string {
	if file, ok := s.Own(f); ok {
		f.File = file
	}
	return f.Position()
}
