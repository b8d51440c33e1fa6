package scenarios

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/leak"
)

// Kept is a scenario as a run directory keeps it.
type Kept struct {
	// Text is the scenario without its secrets.
	Text []byte
	// Secrets are the values that were found.
	Secrets leak.Secrets
	// Parameters are the values of all parameters, those that are secret as leak.Redacted.
	Parameters map[string]string
}

// Redact returns a scenario's text without the values of headers, variables and parameters with secret-looking names,
// also where these values occur elsewhere, and the values. A text without secrets is returned unchanged.
func Redact(data []byte) ([]byte, leak.Secrets, error) {
	k, err := Keep(Source{Data: data}, nil)
	return k.Text, k.Secrets, err
}

// Keep finds the credentials of a scenario, with parameters substituted: headers, variables and parameters with
// secret-looking names, parameters within these, headers and passwords in command lines, passwords and tokens in URLs
// and bodies. The returned text contains neither these nor the known secrets. Names of the scenario (of variants,
// kinds, checks) do not change, because other fields refer to them.
func Keep(src Source, known leak.Secrets) (Kept, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src.Data, &doc); err != nil {
		return Kept{}, err
	}
	k := keeper{values: map[string]string{}, defaults: map[string]*yaml.Node{}, hidden: map[string]bool{}, files: src.Files}
	walk(&doc, k.declare)
	maps.Copy(k.values, src.Set)
	walk(&doc, k.collect)
	for _, name := range slices.Sorted(maps.Keys(k.values)) {
		if !k.hidden[name] && !leak.LooksSecret(name) {
			continue
		}
		k.hidden[name] = true
		k.secrets.Add(k.values[name])
		if n := k.defaults[name]; n != nil && n.Value != leak.Redacted {
			k.secrets.Add(n.Value)
			k.places = append(k.places, n)
		}
	}
	if len(k.secrets) > maxSecrets {
		return Kept{}, leak.WithHint(fmt.Errorf("the scenario gives more than %d credentials", maxSecrets), "each is looked for in all that a run keeps; does a body hold data with such names?")
	}
	kept := Kept{Text: src.Data, Secrets: k.secrets, Parameters: maps.Clone(k.values)}
	for name := range k.hidden {
		if _, ok := kept.Parameters[name]; ok {
			kept.Parameters[name] = leak.Redacted
		}
	}
	for _, n := range k.places {
		n.SetString(leak.Redacted)
	}
	all := slices.Concat(k.secrets, known)
	changed := len(k.places) > 0
	if len(all) > 0 {
		redact := all.TextRedactor()
		for name, value := range kept.Parameters {
			if !isNumber(value) {
				kept.Parameters[name] = redact(value)
			}
		}
		changed = redactNode(&doc, "", redact) || changed
	}
	if !changed {
		return kept, nil
	}
	var b bytes.Buffer
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	if err := out.Encode(&doc); err != nil {
		return Kept{}, err
	}
	kept.Text = b.Bytes()
	return kept, nil
}

// maxSecrets bounds how many values are looked for.
const maxSecrets = 1000

// keeper finds the secrets of one scenario.
type keeper struct {
	secrets leak.Secrets
	// values are those that the parameters have, defaults the nodes of the file's own.
	values   map[string]string
	defaults map[string]*yaml.Node
	// hidden are the parameters whose values are secret.
	hidden map[string]bool
	// places are values of the file that are secret as a whole.
	places []*yaml.Node
	files  fs.FS
}

// declare notes the file's parameters.
func (k *keeper) declare(key string, value *yaml.Node) {
	if key != "parameters" {
		return
	}
	eachPair(value, func(name string, held *yaml.Node) {
		k.values[name], k.defaults[name] = held.Value, held
		if leak.LooksSecret(name) {
			k.hidden[name] = true
			k.secrets.Add(held.Value)
		}
	})
}

// collect finds what one value of the file gives as credentials.
func (k *keeper) collect(key string, value *yaml.Node) {
	switch key {
	case "env", "headers":
		eachPair(value, func(name string, held *yaml.Node) {
			if leak.LooksSecret(name) {
				k.whole(held)
			} else {
				k.found(held.Value, leak.CredentialsIn(k.expand(held.Value)))
			}
		})
	case "argv", "args", "command":
		var argv, raw []string
		for _, n := range value.Content {
			raw, argv = append(raw, n.Value), append(argv, k.expand(n.Value))
		}
		k.found(strings.Join(raw, " "), leak.CredentialsOf(argv))
	case "shell":
		k.found(value.Value, leak.CredentialsOf([]string{k.expand(value.Value)}))
	case "body", "path", "url":
		k.found(value.Value, leak.CredentialsIn(k.expand(value.Value)))
	case "urls":
		for _, n := range value.Content {
			k.found(n.Value, leak.CredentialsIn(k.expand(n.Value)))
		}
	case "bodyFile":
		k.secrets.AddAll(leak.CredentialsIn(k.read(k.expand(value.Value)))...)
	}
}

// whole takes a value that is a secret, and the parameters in it.
func (k *keeper) whole(held *yaml.Node) {
	text := k.expand(held.Value)
	inside := leak.CredentialsIn(text)
	if !strings.Contains(text, "://") {
		inside = append(inside, text) // of a URL, not every part is a secret: the name of a host stands elsewhere, too
	}
	k.found(held.Value, inside)
	k.secrets.Add(text)
	if !onlyReferences(held.Value) {
		k.places = append(k.places, held)
	}
}

// found notes credentials in a text of the file, and as secrets those parameters that are part of one.
func (k *keeper) found(raw string, credentials []string) {
	k.secrets.AddAll(credentials...)
	for _, m := range referencePattern.FindAllStringSubmatch(raw, -1) {
		value, ok := k.values[m[2]]
		if ok && value != "" && len(m[1])%2 == 1 && slices.ContainsFunc(credentials, func(c string) bool { return strings.Contains(c, value) }) {
			k.hidden[m[2]] = true
		}
	}
}

// expand puts the values of parameters into a text.
func (k *keeper) expand(text string) string {
	return referencePattern.ReplaceAllStringFunc(text, func(reference string) string {
		m := referencePattern.FindStringSubmatch(reference)
		dollars, name := m[1], m[2]
		value, ok := k.values[name]
		switch {
		case len(dollars)%2 == 0:
			return dollars[:len(dollars)/2] + "(" + name + ")"
		case !ok:
			return reference
		}
		return dollars[:len(dollars)/2] + value
	})
}

// maxScanned bounds how much of a body file is searched for credentials.
const maxScanned = 1 << 20

func (k *keeper) read(name string) string {
	if k.files == nil {
		return ""
	}
	f, err := k.files.Open(name)
	if err != nil {
		return "" // which is told where the body is read
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxScanned))
	return string(data)
}

// beside matches text that may precede a parameter in a value without being secret: an authentication scheme, or the
// name of a cookie.
var beside = regexp.MustCompile(`(?i)^(bearer|basic|token|digest|apikey|negotiate|[\w.-]+=)?$`)

// onlyReferences reports whether the secrets of a value are parameters, so that the value can stay.
func onlyReferences(text string) bool {
	if !strings.Contains(text, "$(") {
		return false
	}
	rest := referencePattern.ReplaceAllString(text, " ")
	return !slices.ContainsFunc(strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ';' }), func(word string) bool { return !beside.MatchString(word) })
}

// eachPair calls visit with the names and values of a mapping whose values are scalars.
func eachPair(n *yaml.Node, visit func(name string, held *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		held := n.Content[i+1]
		if held.Kind == yaml.AliasNode {
			held = held.Alias
		}
		if held.Kind == yaml.ScalarNode {
			visit(n.Content[i].Value, held)
		}
	}
}

// walk calls visit with every key of every mapping, and its value. It does not follow aliases: their values are
// visited where they are defined.
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

// Keys whose values are names that other places refer to, or words of the format; and keys whose values may be secret
// even where they are numbers.
var (
	namingKeys = keySet(`apiVersion kind name providers kubernetes build modfile rewrite expect fingerprint operation placement
		apiGroups resources verbs component node version modules probe probes metric match callers state checks round each
		signal method status pprof ready until namespace resource verb container aliases rules limits`)
	wholeKeys = keySet(`node modules rules limits placement`) // all that is below them
	textKeys  = keySet(`env headers parameters argv args shell body`)
)

func keySet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

var numberText = regexp.MustCompile(`^[+-]?[0-9][0-9._]*[A-Za-z%]{0,4}([0-9.]+[a-z]+)*$`)

func isNumber(text string) bool { return numberText.MatchString(text) }

// redactNode redacts the values and comments below n, the value of key, and reports whether it changed any.
func redactNode(n *yaml.Node, key string, redact func(string) string) (changed bool) {
	for _, comment := range []*string{&n.HeadComment, &n.LineComment, &n.FootComment} {
		if *comment == "" {
			continue
		}
		clean := redact(*comment)
		changed = changed || clean != *comment
		*comment = clean
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			under := name.Value
			if textKeys[key] || wholeKeys[key] {
				under = key // the names of headers and variables are not those of the format
			}
			changed = redactComments(name, redact) || changed
			changed = redactNode(value, under, redact) || changed
		}
	case yaml.DocumentNode, yaml.SequenceNode:
		for _, c := range n.Content {
			changed = redactNode(c, key, redact) || changed
		}
	case yaml.ScalarNode:
		if namingKeys[key] || !textKeys[key] && isNumber(n.Value) || key == "parameters" && isNumber(n.Value) {
			return changed
		}
		if clean := redactAround(n.Value, redact); clean != n.Value {
			n.SetString(clean)
			changed = true
		}
	}
	return changed
}

// redactComments is redactNode for a key, whose name stays.
func redactComments(key *yaml.Node, redact func(string) string) bool {
	only := *key
	only.Kind, only.Content = 0, nil
	changed := redactNode(&only, "", redact)
	key.HeadComment, key.LineComment, key.FootComment = only.HeadComment, only.LineComment, only.FootComment
	return changed
}

// redactAround takes secrets out of a text, and leaves the names of parameters.
func redactAround(text string, redact func(string) string) string {
	var out strings.Builder
	from := 0
	for _, at := range referencePattern.FindAllStringIndex(text, -1) {
		out.WriteString(redact(text[from:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		from = at[1]
	}
	out.WriteString(redact(text[from:]))
	return out.String()
}
