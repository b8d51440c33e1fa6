package scenarios

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/leak"
)

const (
	parametersPath = "spec.parameters"
	maxParameter   = 1000 // maximum bytes of a value
)

var (
	parameterPattern = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	// referencePattern matches $(name) with all preceding dollars. As in the command of a Kubernetes container, two
	// dollars escape one.
	referencePattern = regexp.MustCompile(`(\$+)\(([^()\s]*)\)`)
)

// parameters holds the values of a file's parameters during substitution.
type parameters struct {
	*report
	values map[string]string
	used   map[string]bool
	// late are references that leakrig fills in when it starts programs, and started the nodes that may have them.
	late    map[string]bool
	started map[*yaml.Node]bool
	// text is the total size of the values with substitutions so far, in bytes.
	text int
}

// expand replaces every $(name) in the file with the value of the parameter. Values in set override the defaults.
// Nodes keep their positions. An unquoted value that is only $(name) gets the type of its new text, for example a
// number. In a recorded scenario, a parameter may be unused.
func (r *report) expand(root *yaml.Node, set map[string]string, recorded bool) error {
	declared := lookup(root, "spec", "parameters")
	p := &parameters{report: r, values: map[string]string{}, used: map[string]bool{}}
	p.startedLater(root)
	places := p.declare(declared)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := p.values[name]; !ok {
			names := slices.Sorted(maps.Keys(p.values))
			return leak.WithHint(fmt.Errorf("%s has no parameter named %s", r.file, quote(name)), "%s", choice(name, "parameters", names))
		}
		if len(set[name]) > maxParameter {
			return fmt.Errorf("the value of the parameter %s has more than %d bytes", name, maxParameter)
		}
		p.values[name], places[name].Value = set[name], set[name]
	}
	p.walk(root, declared)
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !p.used[name] && !recorded {
			r.addAt(at(places[name]), child(parametersPath, name), "write $("+name+") where its value belongs, or remove it", "is not used")
		}
	}
	return nil
}

// declare reads the parameters and their defaults. It checks names and lengths; the decoder checks types.
func (p *parameters) declare(n *yaml.Node) map[string]*yaml.Node {
	places := map[string]*yaml.Node{}
	if n == nil || n.Kind != yaml.MappingNode {
		return places
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := child(parametersPath, key.Value)
		switch {
		case !parameterPattern.MatchString(key.Value):
			p.addAt(at(key), path, "a small letter, then letters and digits, for example nodes", "%s is not the name of a parameter", quote(key.Value))
		case value.Kind == yaml.ScalarNode:
			if len(value.Value) > maxParameter {
				p.addAt(at(value), path, "", "has more than %d bytes", maxParameter)
				value.Value = ""
			}
			p.values[key.Value], places[key.Value] = value.Value, value
		}
	}
	return places
}

func (p *parameters) walk(n, declared *yaml.Node) {
	if n == declared || p.text > maxText {
		return
	}
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "$(") {
		p.fill(n)
	}
	for _, c := range n.Content {
		if p.started[n] && c != nil {
			p.started[c] = true
		}
		p.walk(c, declared)
	}
}

func (p *parameters) fill(n *yaml.Node) {
	n.Value = referencePattern.ReplaceAllStringFunc(n.Value, func(reference string) string {
		m := referencePattern.FindStringSubmatch(reference)
		dollars, name := m[1], m[2]
		if len(dollars)%2 == 0 {
			return dollars[:len(dollars)/2] + "(" + name + ")"
		}
		value, ok := p.values[name]
		if !ok && p.late[name] && p.started[n] {
			return reference
		}
		if !ok {
			p.addAt(at(n), "", choice(name, "parameters", slices.Sorted(maps.Keys(p.values)))+"; $$(…) is not a parameter", "no parameter is named %s", quote(name))
			return reference
		}
		p.used[name] = true
		return dollars[:len(dollars)/2] + value
	})
	p.text += len(n.Value)
	if n.Style == 0 {
		n.Tag = "" // determine the type from the new text
	}
}

// startedLater finds the arguments and variables of programs. They may refer to $(port), the program's own port, and to
// $(NAME.addr), $(NAME.host) and $(NAME.port) of dependencies, which are known when the program starts.
func (p *parameters) startedLater(root *yaml.Node) {
	p.late, p.started = map[string]bool{"port": true}, map[*yaml.Node]bool{}
	of := func(n *yaml.Node) {
		for _, key := range []string{"args", "env", "command"} {
			if value := lookup(n, key); value != nil {
				p.started[value] = true
			}
		}
	}
	each := func(n *yaml.Node, do func(*yaml.Node)) {
		if n = resolve(n); n != nil && n.Kind == yaml.SequenceNode {
			for _, one := range n.Content {
				do(one)
			}
		}
	}
	if subject := lookup(root, "spec", "subject"); subject != nil {
		of(subject)
	}
	if variants := lookup(root, "spec", "variants"); variants != nil {
		each(variants, of)
	}
	if dependencies := lookup(root, "spec", "dependencies"); dependencies != nil {
		each(dependencies, func(n *yaml.Node) {
			of(n)
			if name := lookup(n, "name"); name != nil {
				for _, what := range []string{"addr", "host", "port"} {
					p.late[name.Value+"."+what] = true
				}
			}
		})
	}
}

// lookup returns the value at a path of keys, or nil if the file has none.
func lookup(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		var value *yaml.Node
		n = resolve(n)
		if n.Kind != yaml.MappingNode {
			return nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				value = n.Content[i+1]
			}
		}
		if value == nil {
			return nil
		}
		n = value
	}
	return n
}
