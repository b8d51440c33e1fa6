package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// parse reads the one document of a file, or reports why it cannot.
func (r *report) parse(data []byte) (root *yaml.Node, ok bool) {
	if len(data) > maxSize {
		r.add("", "keep request bodies in separate files", "larger than %d MiB", maxSize>>20)
		return nil, false
	}
	if offset := unreadable(data); offset >= 0 {
		r.addAt(markOf(data, offset), "", "a scenario is UTF-8 text", "not text: a control character or invalid UTF-8")
		return nil, false
	}
	docs := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err := next(docs, &first)
	if err != nil && !errors.Is(err, io.EOF) {
		r.syntax(data, err)
		return nil, false
	}
	if err != nil || isNull(first.Content[0]) {
		r.add("", "the README shows a scenario to start from", "the file is empty")
		return nil, false
	}
	root = first.Content[0]
	if err := next(docs, &second); !errors.Is(err, io.EOF) {
		r.second(data, root.Line, err)
		return nil, false
	}
	return root, true
}

// second reports what follows the document that starts on line: another one, whether it parses or not.
func (r *report) second(data []byte, line int, err error) {
	lines := bytes.Split(data, []byte("\n"))
	for i := line; i < len(lines); i++ {
		if bytes.HasPrefix(lines[i], []byte("---")) {
			r.addAt(mark{i + 1, 1}, "", "put each scenario in a separate file", "several documents in one file")
			return
		}
	}
	r.syntax(data, err)
}

// next decodes one document. yaml.v3 is a guest: input that trips it up is a problem of that input,
// not the end of the program.
func next(docs *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return docs.Decode(n)
}

var (
	lineError   = regexp.MustCompile(`^line (\d+): (.*)$`)
	anchorError = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	// parserError tells the errors of yaml.v3's parser from those of its scanner: only the latter count
	// lines from 1.
	parserError = regexp.MustCompile(`^did not find expected (key|'-' indicator|',' or '[\]}]'|node content|<document start>)|^found undefined tag handle|^found duplicate %`)
)

// syntax turns yaml.v3's "yaml: line N: message" into a problem.
func (r *report) syntax(data []byte, err error) {
	if err == nil {
		err = errors.New("text after the end of the document")
	}
	m, message := mark{1, 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	if p := lineError.FindStringSubmatch(message); p != nil {
		message = p[2]
		if n, err := strconv.Atoi(p[1]); err == nil && n > 0 {
			m.line = n
		}
		if parserError.MatchString(message) {
			m.line++
		}
	}
	hint := "often the indentation, or a quote or bracket that is not closed, near this line"
	if p := anchorError.FindStringSubmatch(message); p != nil {
		m, hint = markOf(data, bytes.Index(data, []byte("*"+p[1]))), "an alias *name needs an anchor &name before it"
	} else if tab, ok := indentingTab(data, m.line, message); ok {
		m, message, hint = tab, "a tab in the indentation", "YAML indents with spaces"
	}
	r.addAt(m, "", hint, "%s", message)
}

// indentingTab finds the tab that a message on a line means. yaml.v3 names it in some of them only, and
// then the line where the block with the tab starts.
func indentingTab(data []byte, line int, message string) (mark, bool) {
	lines := bytes.Split(data, []byte("\n"))
	last := line
	switch {
	case strings.Contains(message, "tab character"):
		last = len(lines)
	case !strings.Contains(message, "cannot start any token"):
		return mark{}, false
	}
	for ; line <= min(last, len(lines)); line++ {
		text := lines[line-1]
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if i := bytes.IndexByte(indent, '\t'); i >= 0 {
			return mark{line, i + 1}, true
		}
	}
	return mark{}, false
}

// unreadable returns the offset of the first byte of invalid text, -1 if all is valid.
func unreadable(data []byte) int {
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 || unicode.IsControl(c) && !strings.ContainsRune("\t\n\r\u0085", c) {
			return i
		}
		i += size
	}
	return -1
}

// markOf is the position of an offset, the start of the file for a negative one.
func markOf(data []byte, offset int) mark {
	before := data[:max(0, offset)]
	start := bytes.LastIndexByte(before, '\n') + 1
	return mark{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])}
}

// Limits of a file with expanded aliases. Without them, a file of ten short lines ("billion laughs") would exhaust
// the memory.
const (
	maxNodes = 20_000
	maxText  = 2 * maxSize
)

// survey walks a file as decoding would, aliases written out, before anything is decoded.
type survey struct {
	nodes, text int
	// open are the nodes that the walk is inside of.
	open map[*yaml.Node]bool
}

type finding struct {
	mark          mark
	message, hint string
}

// bounded reports what would make decoding root endless.
func (r *report) bounded(root *yaml.Node) bool {
	s := survey{open: map[*yaml.Node]bool{}}
	f := s.visit(root)
	if f != nil {
		r.addAt(f.mark, "", f.hint, "%s", f.message)
	}
	return f == nil
}

// visit returns what makes n impossible to decode, nil where nothing does.
func (s *survey) visit(n *yaml.Node) *finding {
	s.nodes, s.text = s.nodes+1, s.text+len(n.Value)
	if s.nodes > maxNodes || s.text > maxText {
		return &finding{at(n), fmt.Sprintf("more than %d values or %d MiB, with aliases written out", maxNodes, maxText>>20), "a scenario has a few hundred values; is this one?"}
	}
	if n.Kind == yaml.AliasNode {
		if s.open[n.Alias] {
			return &finding{at(n), "the alias *" + n.Value + " stands inside what it refers to", "write the value out"}
		}
		f := s.visit(n.Alias)
		if f != nil {
			f.mark = at(n) // the outermost alias is the one to look at
		}
		return f
	}
	s.open[n] = true
	defer delete(s.open, n)
	for _, c := range n.Content {
		if f := s.visit(c); f != nil {
			return f
		}
	}
	return nil
}
