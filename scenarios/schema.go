package scenarios

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/leakrig/leakrig/leak"
)

// object is a JSON Schema, or a part of one.
type object = map[string]any

// Schema returns a JSON Schema (2020-12) of scenario files for editors. It uses the types that Load decodes, so it
// accepts no key that Load refuses. Load checks relations between values, such as a fingerprint that names a check.
func Schema(kinds leak.Kinds) ([]byte, error) {
	s := schema{kinds, choices(kinds)}
	root := s.mapping("", reflect.ValueOf(Defaults(kinds)).Elem(), nil)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "leakrig scenario"
	definitions := object{}
	define(s, "action", kinds.Actions, definitions)
	define(s, "probe", kinds.Probes, definitions)
	define(s, "check", kinds.Checks, definitions)
	root["$defs"] = definitions
	return json.MarshalIndent(root, "", "  ")
}

type schema struct {
	kinds   leak.Kinds
	choices map[string][]string
}

// parameter matches text that contains $(name). Such text is valid for any value, because the value of the parameter
// replaces it.
const parameter = `\$\(`

// durationForm matches the durations that time.ParseDuration accepts.
const durationForm = `^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$`

// value describes v of any type at path. outer are the enclosing types.
func (s schema) value(path string, v reflect.Value, outer []reflect.Type) object {
	switch v.Addr().Interface().(type) {
	case *[]leak.Block[leak.Action]:
		return blockList("action", s.kinds.Actions)
	case *[]leak.Block[leak.Probe]:
		return blockList("probe", s.kinds.Probes)
	case *[]leak.Block[leak.Check]:
		return blockList("check", s.kinds.Checks)
	}
	t := v.Type()
	switch typeName(t) {
	case "duration":
		return anyOf(object{"type": "string", "pattern": durationForm}, object{"const": 0}, reference())
	case "quantity":
		return object{"type": []string{"number", "string"}}
	}
	switch {
	case isText(t):
		return scalar()
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(t.Elem())
		}
		return s.value(path, v.Elem(), outer)
	case t.Kind() == reflect.Struct && slices.Contains(outer, t):
		return object{"type": "object"}
	case t.Kind() == reflect.Struct:
		return s.mapping(path, v, outer)
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": s.value(path+"[]", reflect.New(t.Elem()).Elem(), outer)}
	case t.Kind() == reflect.Map:
		return s.dictionary(path, t, outer)
	}
	return s.single(path, t)
}

// single describes a scalar.
func (s schema) single(path string, t reflect.Type) object {
	if words := s.choices[path]; words != nil {
		return anyOf(object{"enum": words}, reference())
	}
	switch typeName(t) {
	case "text":
		return object{"type": "string"}
	case "boolean", "integer", "number":
		return anyOf(object{"type": typeName(t)}, reference())
	}
	return object{"not": object{}} // no value in a file matches this type
}

// mapping describes a struct, with its values as defaults.
func (s schema) mapping(path string, v reflect.Value, outer []reflect.Type) object {
	outer = append(slices.Clone(outer), v.Type())
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(v) {
		at := f.name
		if path != "" {
			at = path + "." + f.name
		}
		p := s.value(at, f.value, outer)
		p["description"] = f.doc
		if d, ok := defaultValue(f.value); ok {
			p["default"] = d
		}
		if f.needed() {
			required = append(required, f.name)
		}
		properties[f.name] = p
	}
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

// needed reports whether a file must have the key. A quantity is never needed, because its default 0 is a valid
// bound.
func (f field) needed() bool {
	composite := f.value.Kind() == reflect.Struct && !isText(f.value.Type())
	return !f.optional && (f.value.IsZero() || composite) && typeName(f.value.Type()) != "quantity"
}

// dictionary describes a map with text keys. As in decoder.dictionary, text values accept any scalar.
func (s schema) dictionary(path string, t reflect.Type, outer []reflect.Type) object {
	values := s.value(path+".*", reflect.New(t.Elem()).Elem(), outer)
	if s.choices[path+".*"] == nil && t.Elem().Kind() == reflect.String && !isText(t.Elem()) {
		values = scalar()
	}
	keys := s.choices[path]
	if keys == nil {
		return object{"type": "object", "additionalProperties": values}
	}
	properties := object{}
	for _, k := range keys {
		properties[k] = values
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// defaultValue returns the default of a key if it is not empty. The entries of a mapping have separate defaults.
func defaultValue(v reflect.Value) (any, bool) {
	if v.IsZero() {
		return nil, false
	}
	if _, ok := v.Interface().(encoding.TextMarshaler); !ok && (v.Kind() == reflect.Struct || v.Kind() == reflect.Pointer) {
		return nil, false
	}
	return v.Interface(), true
}

func scalar() object    { return object{"type": []string{"string", "number", "boolean"}} }
func reference() object { return object{"type": "string", "pattern": parameter} }

func anyOf(of ...any) object { return object{"anyOf": of} }

// blockList describes a list of actions, probes or checks. An entry is a name with settings, or only a name if the
// kind needs no settings.
func blockList[T any](what string, kinds []leak.Kind[T]) object {
	var names []string
	properties := object{}
	for _, k := range kinds {
		v, ok := structOf(k.New())
		if !ok {
			continue
		}
		properties[k.Name] = object{"$ref": "#/$defs/" + what + "." + k.Name, "description": k.Doc}
		if !slices.ContainsFunc(fieldsOf(v), field.needed) {
			names = append(names, k.Name)
		}
	}
	one := object{"type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1, "maxProperties": 1}
	if len(names) > 0 {
		one = anyOf(object{"enum": names}, one)
	}
	return object{"type": "array", "items": one}
}

// define describes the settings of every kind.
func define[T any](s schema, what string, kinds []leak.Kind[T], into object) {
	for _, k := range kinds {
		v, ok := structOf(k.New())
		if !ok {
			continue
		}
		path := what + "." + k.Name
		o := s.mapping(path, v, nil)
		o["description"] = k.Doc
		if properties := o["properties"].(object); properties[nameKey] == nil {
			properties[nameKey] = object{"type": "string", "minLength": 1, "description": "what findings, reports and fingerprints call it"}
		}
		if _, ok := any(k.New()).(leak.Spreader); ok {
			p := anyOf(object{"type": "integer", "minimum": 1, "maximum": leak.MaxWorkers}, reference())
			p["description"] = workersDoc
			o["properties"].(object)[workersKey] = p
		}
		into[path] = o
	}
}
