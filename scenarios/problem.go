package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Problem is one mistake in a scenario file, with its position.
type Problem struct {
	File string
	// Line and Column count from 1; the column counts characters.
	Line, Column int
	// Path is a path such as spec.checks[0].growth.maxPerOp, or "" for the whole file.
	Path, Message, Hint string
}

// String returns "file:line:column: path: message", with the hint on a separate indented line.
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Path != "" {
		s += p.Path + ": "
	}
	s += p.Message
	if p.Hint != "" {
		s += "\n  hint: " + p.Hint
	}
	return s
}

// Problems are all problems of a file, in the order of the file.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems limits a report. People stop reading earlier, and a hostile file must not fill the disk.
const maxProblems = 100

// report collects problems and the position of each path in the file.
type report struct {
	file     string
	places   map[string]place
	problems Problems
	// reported are the paths with a problem. Further problems at or inside them are dropped.
	reported []string
}

// place is the position of a path. Problems with a value are reported at the value, and missing parts at the key.
// text is the value as written, if it is a scalar.
type place struct {
	key, value mark
	text       string
}

type mark struct{ line, column int }

func newReport(file string) *report {
	start := mark{1, 1}
	return &report{file: file, places: map[string]place{"": {key: start, value: start}}}
}

func at(n *yaml.Node) mark { return mark{n.Line, n.Column} }

// locate records the position of path. The first occurrence counts.
func (r *report) locate(path string, key, value *yaml.Node) {
	if !r.has(path) {
		r.places[path] = place{at(key), at(value), resolve(value).Value}
	}
}

// has reports whether the file has path.
func (r *report) has(path string) bool {
	_, ok := r.places[path]
	return ok
}

// add reports a problem with the value at path. If the file does not have path, the problem is at the closest
// enclosing path. Problems at or inside a path with an earlier problem are dropped.
func (r *report) add(path, hint, format string, args ...any) {
	if r.isFull() || r.isReported(path) {
		return
	}
	r.forgive(path)
	r.addAt(r.position(path), path, hint, format, args...)
}

// addAt reports a problem with a key or with the whole file.
func (r *report) addAt(m mark, path, hint, format string, args ...any) {
	if r.isFull() {
		return
	}
	r.problems = append(r.problems, Problem{
		File: r.file, Line: m.line, Column: m.column,
		Path: oneLine(path), Message: oneLine(fmt.Sprintf(format, args...)), Hint: oneLine(hint),
	})
}

func (r *report) isFull() bool { return len(r.problems) >= maxProblems }

// forgive suppresses problems at path, because its cause is already reported under another path.
func (r *report) forgive(path string) { r.reported = append(r.reported, path) }

func (r *report) isReported(path string) bool {
	return slices.ContainsFunc(r.reported, func(p string) bool {
		rest, ok := strings.CutPrefix(path, p)
		return ok && (rest == "" || p == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// isDoubtful reports whether path, or anything below it, has a problem.
func (r *report) isDoubtful(path string) bool {
	return slices.ContainsFunc(r.reported, func(p string) bool {
		rest, ok := strings.CutPrefix(p, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (r *report) position(path string) mark {
	if p, ok := r.places[path]; ok {
		return p.value
	}
	for path != "" {
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
		if p, ok := r.places[path]; ok {
			return p.key
		}
	}
	return mark{1, 1}
}

func (r *report) sorted() Problems {
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.problems
}

// child returns the path of key inside path. It quotes unusual keys and shortens long ones, so that a path always
// fits on one line.
func child(path, key string) string {
	odd := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' }
	switch {
	case key == "" || len(key) > maxQuoted || strings.ContainsFunc(key, odd):
		return path + "[" + quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

const (
	maxQuoted  = 60
	maxMessage = 500
)

// quote is strconv.Quote, shortened to fit on a line.
func quote(s string) string { return strconv.Quote(cut(s, maxQuoted)) }

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// oneLine puts the message of a kind on one line, as the format of problems requires.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, cut(s, maxMessage))
}
