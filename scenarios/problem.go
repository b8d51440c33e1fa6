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

// Problem is one thing that is wrong with a scenario file, and where.
type Problem struct {
	File string
	// Line and Column count from 1; the column counts characters.
	Line, Column int
	// Path is like spec.checks[0].growth.maxPerOp, "" where the file as a whole is meant.
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

// Problems is everything that is wrong with a file, in the order of the file.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems limits a report. Readers stop earlier, and a hostile file must not fill a disk.
const maxProblems = 100

// report collects problems, and knows where each path stands in the file.
type report struct {
	file     string
	places   map[string]place
	problems Problems
	// reported are the paths with a problem. Consequences of it are not reported again.
	reported []string
}

// place is the position of a path: problems of a value are reported at the value, missing parts at its key. text is
// that of a plain value, as written.
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

// locate remembers where path stands. The first occurrence counts.
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

// add reports a problem with the value at path; where the file does not give path, it points to what
// path should be inside of. A problem at or inside a path with an earlier problem is dropped.
func (r *report) add(path, hint, format string, args ...any) {
	if r.isFull() || r.isReported(path) {
		return
	}
	r.forgive(path)
	r.addAt(r.position(path), path, hint, format, args...)
}

// addAt reports a problem with a key, or with the file as a whole.
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

// forgive marks path as one whose problem is known under another path.
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

// child returns the path of key inside path. It quotes unusual keys and cuts long ones, so that a path is one short
// line for any file.
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

// quote is %q, cut to what fits on a line.
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

// oneLine makes the text of a kind's own message fit the format of one line a problem.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, cut(s, maxMessage))
}
