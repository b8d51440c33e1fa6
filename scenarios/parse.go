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

// parse reads the single document of a file, or reports why it cannot.
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

// second reports the text after the document that starts on line: a second document, valid or not, or else a syntax
// error.
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

// next decodes one document. If the input makes yaml.v3 panic, next returns an error instead of crashing the program.
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
	// parserError matches errors of yaml.v3's parser. Their line numbers start at 0, and those of its scanner at 1.
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

// indentingTab finds the tab that caused a message. Only some messages of yaml.v3 name the tab, and these give the
// first line of the block that contains it.
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

// unreadable returns the offset of the first invalid byte or control character, or -1 if there is none.
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

// markOf returns the position of an offset, or the start of the file if the offset is negative.
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

// survey walks a file before decoding and expands aliases, to check its size.
type survey struct {
	nodes, text int
	// open holds the nodes that enclose the current node.
	open map[*yaml.Node]bool
}

type finding struct {
	mark          mark
	message, hint string
}

// bounded reports whether root can be decoded within the limits. If not, it adds a problem.
func (r *report) bounded(root *yaml.Node) bool {
	s := survey{open: map[*yaml.Node]bool{}}
	f := s.visit(root)
	if f != nil {
		r.addAt(f.mark, "", f.hint, "%s", f.message)
	}
	return f == nil
}

// visit returns the reason why n cannot be decoded, or nil.
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
			f.mark = at(n) // point to the outermost alias
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
