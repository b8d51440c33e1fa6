package load

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"text/template"
)

const templateHint = "{{.Op}} is the number of the operation, and all there is"

type operation struct{ Op int }

// pattern is text that differs by operation.
type pattern struct {
	// parts stand around the numbers where nothing but {{.Op}} is in the text, which is nearly always and then
	// costs a load no template; else they are nil.
	parts    []string
	template *template.Template
}

// parseTemplate parses s and tries it out, so that a misspelt field is told before any load.
func parseTemplate(s string) (*pattern, error) {
	t, err := template.New("template").Parse(s)
	if err != nil {
		return nil, err
	}
	if err := t.Execute(io.Discard, operation{}); err != nil {
		return nil, err
	}
	parts := strings.Split(s, "{{.Op}}")
	if strings.Contains(strings.Join(parts, ""), "{{") {
		parts = nil
	}
	return &pattern{parts, t}, nil
}

func fill(t *pattern, op int) (string, error) {
	switch {
	case len(t.parts) == 1:
		return t.parts[0], nil
	case t.parts != nil:
		return strings.Join(t.parts, strconv.Itoa(op)), nil
	}
	var b bytes.Buffer
	err := t.template.Execute(&b, operation{op})
	return b.String(), err
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
