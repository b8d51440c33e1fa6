package scenarios

import (
	"bytes"
	"regexp"

	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/leak"
)

// parameterPlace is a value that is just a parameter's, which has a value of its own.
var parameterPlace = regexp.MustCompile(`^\$\([^()]*\)$`)

// Redact returns a scenario's text without the values of headers, variables and parameters that look secret by their
// names, wherever else they stand in it too, and those values. A text without any is returned as it is.
func Redact(data []byte) ([]byte, leak.Secrets, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	var secrets leak.Secrets
	found := false
	walk(&doc, func(key string, value *yaml.Node) {
		if (key != "env" && key != "headers" && key != "parameters") || value.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(value.Content); i += 2 {
			name, held := value.Content[i], value.Content[i+1]
			if held.Kind == yaml.AliasNode {
				held = held.Alias
			}
			if leak.LooksSecret(name.Value) && held.Kind == yaml.ScalarNode && !parameterPlace.MatchString(held.Value) {
				secrets.Add(held.Value)
				held.SetString(leak.Redacted)
				found = true
			}
		}
	})
	if !found {
		return data, nil, nil
	}
	scalars(&doc, func(n *yaml.Node) {
		if clean := string(secrets.Redact([]byte(n.Value))); clean != n.Value {
			n.SetString(clean)
		}
	})
	var b bytes.Buffer
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	if err := out.Encode(&doc); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), secrets, nil
}

// walk calls visit with every key of every mapping, and its value. Aliases are not followed: what they
// mean is visited where it stands.
func walk(n *yaml.Node, visit func(key string, value *yaml.Node)) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			value := n.Content[i+1]
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			visit(n.Content[i].Value, value)
		}
	}
	for _, c := range n.Content {
		walk(c, visit)
	}
}

// scalars calls visit with every scalar of a document.
func scalars(n *yaml.Node, visit func(*yaml.Node)) {
	if n.Kind == yaml.ScalarNode {
		visit(n)
	}
	for _, c := range n.Content {
		scalars(c, visit)
	}
}
