package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

const templateHint = "{{.Op}} is the number of the operation, and all there is"

const underWayHint = "a smaller concurrency (or arrival.maxInFlight), or a shorter text, takes less memory"

// Limits of templates: bytes of one filled text, bytes of all texts in flight, actions in one template, bytes of a format.
const (
	maxFilled   = maxBody
	maxUnderWay = 256 << 20
	maxActions  = 10_000
	maxFormat   = 1000
)

var errFilled = fmt.Errorf("filled in it is larger than %d MiB", maxFilled>>20)

type operation struct{ Op int }

// pattern is text that differs by operation.
type pattern struct {
	// parts are the texts around {{.Op}} if the text has no other action. Most texts are like this, and filling them
	// needs no template. Otherwise parts is nil.
	parts    []string
	template *template.Template
}

// parseTemplate parses s and executes it once, so that a misspelt field, or a text that is too large, is reported
// before any load.
func parseTemplate(s string) (*pattern, error) {
	if n := strings.Count(s, "{{"); n > maxActions {
		return nil, fmt.Errorf("more than %d numbers in one text", maxActions)
	}
	t, err := template.New("template").Parse(s)
	if err != nil {
		return nil, err
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("templates within a template are not known here")
	}
	if t.Tree != nil && t.Root != nil {
		if err := simple(t.Root); err != nil {
			return nil, err
		}
	}
	if err := t.Execute(&limitedWriter{w: io.Discard, left: maxFilled}, operation{}); err != nil {
		return nil, err
	}
	parts := strings.Split(s, "{{.Op}}")
	if strings.Contains(strings.Join(parts, ""), "{{") {
		parts = nil
	}
	return &pattern{parts, t}, nil
}

// simple refuses constructs that let a short template take much memory or time: loops, nested templates, and all functions
// except print and printf of numbers and comparisons.
func simple(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, one := range n.Nodes {
			if err := simple(one); err != nil {
				return err
			}
		}
	case *parse.ActionNode:
		return simplePipe(n.Pipe)
	case *parse.IfNode:
		return errors.Join(simplePipe(n.Pipe), simple(n.List), simple(n.ElseList))
	case *parse.WithNode:
		return errors.Join(simplePipe(n.Pipe), simple(n.List), simple(n.ElseList))
	case *parse.TextNode, *parse.CommentNode:
	default:
		return fmt.Errorf("%.60q is not known here", n.String())
	}
	return nil
}

func simplePipe(p *parse.PipeNode) error {
	if p == nil {
		return nil
	}
	for _, c := range p.Cmds {
		for i, arg := range c.Args {
			switch arg := arg.(type) {
			case *parse.PipeNode:
				if err := simplePipe(arg); err != nil {
					return err
				}
			case *parse.IdentifierNode:
				if err := simpleCall(arg.Ident, c.Args[i+1:]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// wide is a width or a precision of more than three digits, one that is an argument, or an argument that is named.
var wide = regexp.MustCompile(`%[^a-zA-Z%]*(?:[0-9]{4}|[*\[])`)

func simpleCall(name string, args []parse.Node) error {
	switch name {
	case "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "len":
		return nil
	case "print", "printf":
	default:
		return fmt.Errorf("function %q is not known here", name)
	}
	for i, arg := range args {
		if format, ok := arg.(*parse.StringNode); i == 0 && ok && name == "printf" {
			if wide.MatchString(format.Text) || len(format.Text) > maxFormat {
				return fmt.Errorf("printf %.60q: widths have at most three digits, a format %d bytes", format.Text, maxFormat)
			}
			continue
		}
		switch arg.(type) {
		case *parse.FieldNode, *parse.NumberNode:
			if i > 0 || name != "printf" {
				continue
			}
		}
		return fmt.Errorf("%s takes numbers, printf a format as it stands before them: %.60q", name, arg.String())
	}
	return nil
}

// limitedWriter fails rather than pass on more than is left.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, errFilled
	}
	return l.w.Write(b)
}

func fill(t *pattern, op int) (string, error) {
	switch {
	case len(t.parts) == 1:
		return t.parts[0], nil
	case t.parts != nil:
		number := strconv.Itoa(op)
		size := len(number) * (len(t.parts) - 1)
		for _, part := range t.parts {
			size += len(part)
		}
		if size > maxFilled {
			return "", errFilled
		}
		return strings.Join(t.parts, number), nil
	}
	var b bytes.Buffer
	err := t.template.Execute(&limitedWriter{&b, maxFilled}, operation{op})
	return b.String(), err
}

// underWay refuses texts that take too much memory at the action's concurrency.
func (p pace) underWay(text string) error {
	t, err := parseTemplate(text)
	if err != nil {
		return nil // which is told by itself
	}
	filled, err := fill(t, 1)
	if err != nil {
		return err
	}
	if at := p.lanes(); at*len(filled) > maxUnderWay {
		return fmt.Errorf("%d at once of %d bytes each are more than %d MiB", at, len(filled), maxUnderWay>>20)
	}
	return nil
}

func parseTemplates(texts []string) ([]*pattern, error) {
	parsed := make([]*pattern, len(texts))
	for i, s := range texts {
		var err error
		if parsed[i], err = parseTemplate(s); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

func fillAll(texts []*pattern, op int) ([]string, error) {
	filled := make([]string, len(texts))
	for i, t := range texts {
		var err error
		if filled[i], err = fill(t, op); err != nil {
			return nil, err
		}
	}
	return filled, nil
}
