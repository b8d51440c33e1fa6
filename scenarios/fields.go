package scenarios

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/leak"
)

// Field documents one field of a kind's configuration.
type Field struct {
	// Name is the YAML key. A key inside a mapping is "outer.inner", and inside a list of mappings "outer[].inner".
	Name string
	// Type is a type name for people: text, integer, number, boolean, duration, quantity, mapping, "list of text",
	// "map of text".
	Type string
	// Default is the default in YAML, "" if the field has none.
	Default string
	Doc     string
}

// Fields lists the fields of a configuration, which is a pointer to a struct from leak.Kind's New. Its values are the
// defaults.
func Fields(config any) []Field {
	v, ok := structOf(config)
	if !ok {
		return nil
	}
	return document("", v, nil)
}

// ActionFields returns the fields of an action, including those common to all actions that workers can perform.
func ActionFields(action leak.Action) []Field {
	fields := Fields(action)
	if _, ok := action.(leak.Spreader); ok {
		fields = append(fields, Field{Name: workersKey, Type: "integer", Doc: workersDoc})
	}
	return fields
}

// document lists the fields of v and of the structs in it. outer are the types that enclose v: a recursive type is
// described once.
func document(prefix string, v reflect.Value, outer []reflect.Type) []Field {
	outer = append(slices.Clone(outer), v.Type())
	var out []Field
	for _, f := range fieldsOf(v) {
		out = append(out, Field{Name: prefix + f.name, Type: typeName(f.value.Type()), Default: defaultText(f.value), Doc: f.doc})
		if inner, infix := inside(f.value); inner.IsValid() && !slices.Contains(outer, inner.Type()) {
			out = append(out, document(prefix+f.name+infix+".", inner, outer)...)
		}
	}
	return out
}

// inside returns the struct that v is, points to or lists. infix goes between the name of v and its fields: "[]" for
// each list.
func inside(v reflect.Value) (inner reflect.Value, infix string) {
	for {
		switch {
		case isText(v.Type()) || isBlocks(v.Type()):
			return reflect.Value{}, ""
		case v.Kind() == reflect.Struct:
			return v, infix
		case v.Kind() == reflect.Pointer && !v.IsNil():
			v = v.Elem()
		case v.Kind() == reflect.Pointer:
			v = reflect.New(v.Type().Elem()).Elem()
		case v.Kind() == reflect.Slice:
			v, infix = reflect.New(v.Type().Elem()).Elem(), infix+"[]"
		default:
			return reflect.Value{}, ""
		}
	}
}

// defaultText returns the value as a user would write it, or "" for the zero value.
func defaultText(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return ""
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return defaultText(v.Elem())
	case reflect.Struct:
		return "" // its fields have separate defaults
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = defaultText(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		var parts []string
		for k, e := range v.Seq2() {
			parts = append(parts, fmt.Sprintf("%v: %v", k, e))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// field is one key of a mapping, with the Go value that it sets.
type field struct {
	name, doc string
	// optional is set if a file may omit the key although it has no default.
	optional bool
	value    reflect.Value
	// unlisted is set if no hint names the key: the validator explains why it is wrong here.
	unlisted bool
}

// fieldsOf lists the fields of a struct that a file may set: those with a yaml tag. Inline structs
// count as part of the struct.
func fieldsOf(v reflect.Value) []field {
	var out []field
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		given := strings.Split(options, ",")
		inline := slices.Contains(given, "inline") && f.Type.Kind() == reflect.Struct
		switch {
		case inline && (f.Anonymous || f.IsExported()):
			out = append(out, fieldsOf(v.Field(i))...)
		case f.IsExported() && name != "" && name != "-":
			out = append(out, field{name: name, doc: f.Tag.Get("doc"), optional: slices.Contains(given, "omitempty"), value: v.Field(i)})
		}
	}
	return out
}

func fieldNames(fields []field) []string {
	names := []string{}
	for _, f := range fields {
		if !f.unlisted {
			names = append(names, f.name)
		}
	}
	return names
}

// structOf returns the struct that config points to.
func structOf(config any) (reflect.Value, bool) {
	v := reflect.ValueOf(config)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	return v.Elem(), true
}

// typeName returns a word for the values that t accepts.
func typeName(t reflect.Type) string {
	switch {
	case isText(t) && t.Name() != "":
		return strings.ToLower(t.Name())
	case isText(t):
		return "text"
	case isBlocks(t):
		return "list of blocks"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "map of " + typeName(t.Elem())
	case reflect.Struct:
		return "mapping"
	}
	return t.String()
}

// isText reports whether t has UnmarshalText (leak.Duration, leak.Quantity).
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isBlocks(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[[]leak.Block[leak.Action]](),
		reflect.TypeFor[[]leak.Block[leak.Probe]](),
		reflect.TypeFor[[]leak.Block[leak.Check]]():
		return true
	}
	return false
}
