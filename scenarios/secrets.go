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
	"github.com/leakrig/leakrig/rundir"
)

// Kept is the form of a scenario that a run directory keeps.
type Kept struct {
	// Text is the scenario without its secrets.
	Text []byte
	// Secrets are the values that were found.
	Secrets rundir.Secrets
	// Parameters holds the values of all parameters. Secret values are leak.Redacted.
	Parameters map[string]string
}

// Keep finds the credentials of a scenario, with parameters substituted: headers, variables and parameters with
// secret-looking names, parameters within these, headers and passwords in command lines, passwords and tokens in URLs
// and bodies. The returned text contains neither these nor the known secrets. Names of the scenario (of variants,
// kinds, checks) do not change, because other fields refer to them.
func Keep(src Source, known rundir.Secrets) (Kept, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(src.Data, &doc); err != nil {
		return Kept{}, err
	}
	k := keeper{values: map[string]string{}, defaults: map[string]*yaml.Node{}, hidden: map[string]bool{}, files: src.Files}
	walk(&doc, k.declare)
	maps.Copy(k.values, src.Set)
	walk(&doc, k.collect)
	for _, name := range slices.Sorted(maps.Keys(k.values)) {
		if !k.hidden[name] && !rundir.LooksSecret(name) {
			continue
		}
		k.hidden[name] = true
		k.secrets.Add(k.values[name])
		if n := k.defaults[name]; n != nil && n.Value != rundir.Redacted {
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
			kept.Parameters[name] = rundir.Redacted
		}
	}
	for _, n := range k.places {
		n.SetString(rundir.Redacted)
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

// maxSecrets is the maximum number of secrets in a scenario.
const maxSecrets = 1000

// keeper finds the secrets of one scenario.
type keeper struct {
	secrets rundir.Secrets
	// values holds the values of the parameters. defaults holds the nodes of their defaults in the file.
	values   map[string]string
	defaults map[string]*yaml.Node
	// hidden are the parameters whose values are secret.
	hidden map[string]bool
	// places are the nodes whose whole value is secret.
	places []*yaml.Node
	files  fs.FS
}

// declare records the parameters of the file and their defaults.
func (k *keeper) declare(key string, value *yaml.Node) {
	if key != "parameters" {
		return
	}
	eachPair(value, func(name string, held *yaml.Node) {
		k.values[name], k.defaults[name] = held.Value, held
		if rundir.LooksSecret(name) {
			k.hidden[name] = true
			k.secrets.Add(held.Value)
		}
	})
}

// collect finds the credentials in one value of the file.
func (k *keeper) collect(key string, value *yaml.Node) {
	switch key {
	case "env", "headers":
		eachPair(value, func(name string, held *yaml.Node) {
			if rundir.LooksSecret(name) {
				k.whole(held)
			} else {
				k.found(held.Value, rundir.CredentialsIn(k.expand(held.Value)))
			}
		})
	case "argv", "args", "command":
		var argv, raw []string
		for _, n := range value.Content {
			raw, argv = append(raw, n.Value), append(argv, k.expand(n.Value))
		}
		k.found(strings.Join(raw, " "), rundir.CredentialsOf(argv))
	case "shell":
		k.found(value.Value, rundir.CredentialsOf([]string{k.expand(value.Value)}))
	case "body", "path", "url":
		k.found(value.Value, rundir.CredentialsIn(k.expand(value.Value)))
	case "urls":
		for _, n := range value.Content {
			k.found(n.Value, rundir.CredentialsIn(k.expand(n.Value)))
		}
	case "bodyFile":
		k.secrets.AddAll(rundir.CredentialsIn(k.read(k.expand(value.Value)))...)
	}
}

// whole records that a value is a secret, with the parameters in it.
func (k *keeper) whole(held *yaml.Node) {
	text := k.expand(held.Value)
	inside := rundir.CredentialsIn(text)
	if !strings.Contains(text, "://") {
		inside = append(inside, text) // not every part of a URL is a secret: its host name also occurs elsewhere
	}
	k.found(held.Value, inside)
	k.secrets.Add(text)
	if !onlyReferences(held.Value) {
		k.places = append(k.places, held)
	}
}

// found records credentials from a text of the file. It marks the parameters that are part of them as secret.
func (k *keeper) found(raw string, credentials []string) {
	k.secrets.AddAll(credentials...)
	for _, m := range referencePattern.FindAllStringSubmatch(raw, -1) {
		value, ok := k.values[m[2]]
		if ok && value != "" && len(m[1])%2 == 1 && slices.ContainsFunc(credentials, func(c string) bool { return strings.Contains(c, value) }) {
			k.hidden[m[2]] = true
		}
	}
}

// expand replaces references in a text with the values of parameters.
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

// maxScanned is the number of bytes of a body file that are searched for credentials.
const maxScanned = 1 << 20

func (k *keeper) read(name string) string {
	if k.files == nil {
		return ""
	}
	f, err := k.files.Open(name)
	if err != nil {
		return "" // reading the body reports this error
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxScanned))
	return string(data)
}

// beside matches text that may precede a parameter in a value without being secret: an authentication scheme or the
// name of a cookie.
var beside = regexp.MustCompile(`(?i)^(bearer|basic|token|digest|apikey|negotiate|[\w.-]+=)?$`)

// onlyReferences reports whether a value's only secrets are parameters, so that the value can stay.
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

// namingKeys have values that are keywords or that other fields refer to; these stay. textKeys have values that can
// be secret even if they are numbers.
var (
	namingKeys = keySet(`apiVersion kind name providers kubernetes build modfile rewrite when expect fingerprint operation placement
		apiGroups resources verbs component node version modules probe probes metric match callers state checks round each
		signal method status pprof ready until namespace resource verb container aliases rules limits
		of at address process fault during`)
	wholeKeys = keySet(`node modules rules limits placement`) // everything below these keys stays
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
				under = key // names of headers and variables are not keys of the format
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

// redactComments redacts the comments of a key but not its name.
func redactComments(key *yaml.Node, redact func(string) string) bool {
	only := *key
	only.Kind, only.Content = 0, nil
	changed := redactNode(&only, "", redact)
	key.HeadComment, key.LineComment, key.FootComment = only.HeadComment, only.LineComment, only.FootComment
	return changed
}

// redactAround redacts a text except for its references to parameters.
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
