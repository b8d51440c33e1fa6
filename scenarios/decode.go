package scenarios

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/leak"
)

// decoder fills Go values from YAML nodes, and reports everything that does not fit. It replaces yaml.v3's decoder
// for three reasons: KnownFields does not affect Node.Decode, 1.5 becomes the integer 1, and decoding stops at the
// first error.
type decoder struct {
	*report
	kinds leak.Kinds
}

// value decodes n into v of any type. The previous content of v is its default.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	n = resolve(n)
	switch {
	case isNull(n):
		d.add(path, "leave it out, or give it a value", "has no value")
		return
	case !slices.Contains(knownTags, n.ShortTag()):
		d.add(path, "leave the tag out", "the tag %s is not known", quote(n.ShortTag()))
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *[]leak.Block[leak.Action]:
		decodeBlocks(d, path, n, "action", d.kinds.Actions, p)
	case *[]leak.Block[leak.Probe]:
		decodeBlocks(d, path, n, "probe", d.kinds.Probes, p)
	case *[]leak.Block[leak.Check]:
		decodeBlocks(d, path, n, "check", d.kinds.Checks, p)
	case encoding.TextUnmarshaler:
		d.text(path, n, v.Type(), p)
	default:
		d.plain(path, n, v)
	}
}

func (d *decoder) plain(path string, n *yaml.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(path, n, v.Elem())
	case reflect.Struct:
		d.mapping(path, n, v.Type(), fieldsOf(v))
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.Map:
		d.dictionary(path, n, v)
	default:
		d.scalar(path, n, v)
	}
}

// text decodes a type with UnmarshalText. Numbers are passed literally, so that a quantity needs no quotes.
func (d *decoder) text(path string, n *yaml.Node, t reflect.Type, v encoding.TextUnmarshaler) {
	if n.Kind != yaml.ScalarNode {
		d.wrongType(path, n, t)
		return
	}
	if err := v.UnmarshalText([]byte(n.Value)); err != nil {
		d.add(path, leak.Hint(err), "%v", err)
	}
}

func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.wrongType(path, n, v.Type())
		return
	}
	switch err := setScalar(n, v); {
	case errors.Is(err, strconv.ErrRange):
		d.add(path, "", "%s is out of range for this %s", cut(n.Value, maxQuoted), typeName(v.Type()))
	case err != nil:
		d.wrongType(path, n, v.Type())
	}
}

var errType = errors.New("wrong type")

// setScalar is strict: it does not convert numbers or booleans to text, and accepts only decimal integers.
func setScalar(n *yaml.Node, v reflect.Value) error {
	tag := n.ShortTag()
	isNumber := tag == "!!int" || tag == "!!float"
	switch {
	case v.Kind() == reflect.String && tag == "!!str":
		v.SetString(n.Value)
	case v.Kind() == reflect.Bool && tag == "!!bool":
		b, err := strconv.ParseBool(strings.ToLower(n.Value))
		v.SetBool(b)
		return err
	case v.CanInt() && isNumber:
		i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
		v.SetInt(i)
		return err
	case v.CanUint() && isNumber:
		u, err := strconv.ParseUint(n.Value, 10, v.Type().Bits())
		v.SetUint(u)
		return err
	case v.CanFloat() && isNumber:
		f, err := strconv.ParseFloat(n.Value, v.Type().Bits())
		v.SetFloat(f)
		return err
	default:
		return errType
	}
	return nil
}

func (d *decoder) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.wrongType(path, n, v.Type())
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		p := item(path, i)
		d.locate(p, c, c)
		d.value(p, c, items.Index(i))
	}
	v.Set(items)
}

// dictionary decodes a map with text keys. If the values are text, it accepts any scalar, as users expect for
// environment variables and headers.
func (d *decoder) dictionary(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode || v.Type().Key().Kind() != reflect.String {
		d.wrongType(path, n, v.Type())
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, e := range d.entries(path, n) {
		elem := reflect.New(v.Type().Elem()).Elem()
		value := resolve(e.value)
		if elem.Kind() == reflect.String && !isText(elem.Type()) && value.Kind == yaml.ScalarNode && !isNull(value) {
			elem.SetString(value.Value)
		} else {
			d.value(e.path, e.value, elem)
		}
		out.SetMapIndex(reflect.ValueOf(e.name).Convert(v.Type().Key()), elem)
	}
	v.Set(out)
}

// mapping decodes n into fields. Messages name t, the type that the fields belong to.
func (d *decoder) mapping(path string, n *yaml.Node, t reflect.Type, fields []field) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(path, n, t)
		return
	}
	entries := d.entries(path, n)
	for _, e := range entries {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.name })
		if i < 0 {
			d.unknownKey(path, e, entries, fieldNames(fields))
			continue
		}
		d.value(e.path, e.value, fields[i].value)
	}
}

func (d *decoder) unknownKey(path string, e entry, given []entry, known []string) {
	missing := slices.DeleteFunc(slices.Clone(known), func(name string) bool {
		return slices.ContainsFunc(given, func(g entry) bool { return g.name == name })
	})
	hint := listing("keys", known)
	if near := Nearest(e.name, missing); near != "" {
		hint = "did you mean " + near + "?"
		d.forgive(child(path, near)) // otherwise it would be reported as missing
	}
	d.addAt(at(e.key), e.path, hint, "unknown key")
}

// entry is one key of a mapping with its value.
type entry struct {
	name, path string
	key, value *yaml.Node
}

// entries lists the entries of a mapping, and reports duplicate and non-text keys.
func (d *decoder) entries(path string, n *yaml.Node) []entry {
	var out []entry
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		e := entry{key.Value, child(path, key.Value), n.Content[i], n.Content[i+1]}
		line, again := seen[e.name]
		switch {
		case key.Kind != yaml.ScalarNode || isNull(key):
			d.addAt(at(e.key), path, "write key: value", "a key must be plain text")
		case key.ShortTag() == "!!merge":
			d.addAt(at(e.key), e.path, "repeat the keys, or use *name for a whole value", "merge keys are not supported")
		case again:
			d.addAt(at(e.key), e.path, fmt.Sprintf("the first one is on line %d", line), "given twice")
		default:
			seen[e.name] = e.key.Line
			d.locate(e.path, e.key, e.value)
			out = append(out, e)
		}
	}
	return out
}

// wrongType reports that n is not a t, with an example.
func (d *decoder) wrongType(path string, n *yaml.Node, t reflect.Type) {
	key := path[strings.LastIndexByte(path, '.')+1:]
	hint := "for example " + key + ": " + example(t, n)
	if strings.HasSuffix(key, "]") {
		hint = "for example - " + example(t, n)
	}
	if path == "" {
		hint = "the README shows a scenario to start from"
	}
	d.add(path, hint, "expected %s, found %s", withArticle(typeName(t)), describe(n))
}

// example returns a value of type t in YAML. It reuses what the user wrote if that helps.
func example(t reflect.Type, found *yaml.Node) string {
	isScalar := found.Kind == yaml.ScalarNode
	switch name := typeName(t); {
	case t.Kind() == reflect.Pointer:
		return example(t.Elem(), found)
	case name == "duration":
		return "1m30s"
	case name == "quantity":
		return "2KiB"
	case isText(t):
		return "…" // only the type itself knows its syntax
	case t.Kind() == reflect.Slice && isScalar:
		return "[" + cut(found.Value, maxQuoted) + "]"
	case t.Kind() == reflect.Slice:
		return "[" + example(t.Elem(), found) + "]"
	case t.Kind() == reflect.Map:
		return "{key: " + example(t.Elem(), found) + "}"
	case t.Kind() == reflect.Struct:
		if fields := fieldsOf(reflect.New(t).Elem()); len(fields) > 0 {
			return "{" + fields[0].name + ": …}"
		}
		return "{}"
	case name == "text" && isScalar:
		return quote(found.Value)
	case name == "text":
		return "word"
	case name == "boolean":
		return "true"
	case name == "integer":
		return "10"
	case name == "number":
		return "0.5"
	}
	return "…"
}

func withArticle(name string) string {
	switch {
	case name == "text":
		return name
	case strings.ContainsRune("aeiou", rune(name[0])):
		return "an " + name
	}
	return "a " + name
}

// describe names the kind and value of n, for messages with "found …".
func describe(n *yaml.Node) string {
	value := cut(n.Value, maxQuoted)
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "the number " + value
	case "!!bool":
		return "the boolean " + value
	case "!!timestamp":
		return "the date " + value
	}
	return "the text " + quote(n.Value)
}

var knownTags = []string{"!!map", "!!seq", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!merge"}

// resolve follows aliases. It terminates, because survey refuses cycles.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
