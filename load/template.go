package load

import (
	"bytes"
	"io"
	"text/template"
)

const templateHint = "{{.Op}} is the number of the operation, and all there is"

type operation struct{ Op int }

// parseTemplate parses s and tries it out, so that a misspelt field is told before any load.
func parseTemplate(s string) (*template.Template, error) {
	t, err := template.New("template").Parse(s)
	if err != nil {
		return nil, err
	}
	return t, t.Execute(io.Discard, operation{})
}

func fill(t *template.Template, op int) (string, error) {
	var b bytes.Buffer
	err := t.Execute(&b, operation{op})
	return b.String(), err
}

func parseTemplates(texts []string) ([]*template.Template, error) {
	parsed := make([]*template.Template, len(texts))
	for i, text := range texts {
		var err error
		if parsed[i], err = parseTemplate(text); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

func fillAll(templates []*template.Template, op int) ([]string, error) {
	filled := make([]string, len(templates))
	for i, t := range templates {
		var err error
		if filled[i], err = fill(t, op); err != nil {
			return nil, err
		}
	}
	return filled, nil
}
