package load

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// An order contains its action as JSON, which is also YAML, with the field names of a scenario.

// formField is a field of an action as a scenario names it.
type formField struct {
	name  string
	value reflect.Value
}

// formFields lists the fields of a struct that a scenario can set, with those of its inlined structs.
func formFields(v reflect.Value) []formField {
	var all []formField
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			all = append(all, formFields(v.Field(i))...)
		case name != "" && name != "-":
			all = append(all, formField{name, v.Field(i)})
		}
	}
	return all
}

// nested reports whether values of a type have fields of their own in a scenario.
func nested(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// toForm returns a value as a scenario has it. It leaves out nothing: a default may differ from the zero value.
func toForm(v reflect.Value) any {
	switch {
	case nested(v.Type()):
		fields := map[string]any{}
		for _, f := range formFields(v) {
			fields[f.name] = toForm(f.value)
		}
		return fields
	case v.Kind() == reflect.Slice && nested(v.Type().Elem()):
		items := make([]any, v.Len())
		for i := range items {
			items[i] = toForm(v.Index(i))
		}
		return items
	}
	return v.Interface()
}

// fromForm sets a value to what toForm returned. It refuses unknown fields.
func fromForm(text []byte, v reflect.Value) error {
	switch {
	case nested(v.Type()):
		var given map[string]json.RawMessage
		if err := json.Unmarshal(text, &given); err != nil {
			return err
		}
		for _, f := range formFields(v) {
			if one, ok := given[f.name]; ok {
				if err := fromForm(one, f.value); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
				delete(given, f.name)
			}
		}
		for name := range given {
			return fmt.Errorf("unknown field %q", name)
		}
		return nil
	case v.Kind() == reflect.Slice && nested(v.Type().Elem()):
		var given []json.RawMessage
		if err := json.Unmarshal(text, &given); err != nil {
			return err
		}
		if len(given) == 0 {
			v.SetZero()
			return nil
		}
		items := reflect.MakeSlice(v.Type(), len(given), len(given))
		for i, one := range given {
			if err := fromForm(one, items.Index(i)); err != nil {
				return err
			}
		}
		v.Set(items)
		return nil
	}
	return strictly(text, v.Addr().Interface())
}
