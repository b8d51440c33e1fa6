package reports

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// schemaFile is the published schema of the json format. `go test ./reports -run Schema -update` generates it from
// the types that are written, with the comments of their fields.
const schemaFile = "../docs/report.schema.json"

func TestSchemaIsPublished(t *testing.T) {
	want, err := json.MarshalIndent(newSchema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s does not match the types; update it with -update, and increase ReportSchema if a field changed or was removed", schemaFile)
	}
}

// TestReportsFitTheSchema checks that the output matches the schema, and that the schema rejects invalid data.
func TestReportsFitTheSchema(t *testing.T) {
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var schema object
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	fits := func(text string) []string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return misfits(schema, schema, v, "report")
	}
	inputs := partial()
	inputs["met"], inputs["failing"], inputs["herd"] = fixture(), failing(), herd()
	for name, in := range inputs {
		if bad := fits(render(t, "json", in)); len(bad) > 0 {
			t.Errorf("%s: %s", name, strings.Join(bad, "\n"))
		}
	}
	whole := render(t, "json", fixture())
	for _, edit := range [][2]string{
		{`"schema": 1`, `"schema": 2`},
		{`"exitCode"`, `"exit"`},
		{`"result": "as expected"`, `"result": "fine"`},
		{`"operations": 20`, `"operations": "20"`},
		{`"started": "2026`, `"started": "last `},
	} {
		changed := strings.Replace(whole, edit[0], edit[1], 1)
		if changed == whole || len(fits(changed)) == 0 {
			t.Errorf("%s passes for %s", edit[1], edit[0])
		}
	}
}

type object = map[string]any

type schemaMaker struct {
	docs map[string]string // by "Type.Field" and "Type"
	defs object
}

func newSchema(t *testing.T) object {
	m := schemaMaker{docs: fieldDocs(t), defs: object{}}
	root := m.of(reflect.TypeFor[Report]())
	m.defs["Report"].(object)["properties"].(object)["schema"] = object{"const": ReportSchema, "description": "version of this schema"}
	return object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "leakrig report", "$defs": m.defs, "$ref": root["$ref"],
		"description": "What `leakrig report --format json` writes. Fields may be added under the same version.",
	}
}

// enums lists the words of types that marshal as text.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[leak.Outcome]():     {leak.Inconclusive.String(), leak.Clean.String(), leak.Leaking.String()},
	reflect.TypeFor[leak.Result]():      {leak.Undecided.String(), leak.Met.String(), leak.NotMet.String(), leak.Unmeasured.String()},
	reflect.TypeFor[leak.Expectation](): {"", string(leak.ExpectClean), string(leak.ExpectLeaking)},
}

func (m schemaMaker) of(t reflect.Type) object {
	if words := enums[t]; words != nil {
		return object{"enum": words}
	}
	if t == reflect.TypeFor[time.Time]() {
		return object{"type": "string", "format": "date-time"}
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []any{m.of(t.Elem()), object{"type": "null"}}}
	case reflect.Struct:
		return m.object(t)
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": m.of(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": m.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	}
	panic("no schema for " + t.String())
}

func (m schemaMaker) object(t reflect.Type) object {
	ref := object{"$ref": "#/$defs/" + t.Name()}
	if m.defs[t.Name()] != nil {
		return ref
	}
	properties, required := object{}, []string{}
	def := object{"type": "object", "properties": properties}
	m.defs[t.Name()] = def
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		property := m.of(field.Type)
		if doc := m.docs[t.Name()+"."+field.Name]; doc != "" {
			property["description"] = doc
		}
		properties[name] = property
		if options == "" {
			required = append(required, name)
		}
	}
	def["required"] = required
	if doc := m.docs[t.Name()]; doc != "" {
		def["description"] = doc
	}
	return ref
}

// fieldDocs returns the comments of types and fields.
func fieldDocs(t *testing.T) map[string]string {
	docs := map[string]string{}
	files, err := filepath.Glob("../leak/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "json.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				typ := spec.(*ast.TypeSpec)
				docs[typ.Name.Name], _, _ = strings.Cut(oneLine(gen.Doc.Text()), ": {") // without the example
				fields, ok := typ.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						docs[typ.Name.Name+"."+name.Name] = oneLine(f.Doc.Text())
					}
				}
			}
		}
	}
	return docs
}

// misfits validates v against s and returns the problems. It implements only what this schema uses.
func misfits(root, s object, v any, at string) (bad []string) {
	if ref, ok := s["$ref"].(string); ok {
		return misfits(root, root["$defs"].(object)[strings.TrimPrefix(ref, "#/$defs/")].(object), v, at)
	}
	if any, ok := s["anyOf"].([]any); ok {
		for _, one := range any {
			found := misfits(root, one.(object), v, at)
			if len(found) == 0 {
				return nil
			}
			bad = append(bad, found...)
		}
		return bad
	}
	if want, ok := s["const"]; ok && want != v {
		return []string{fmt.Sprintf("%s: %v is not %v", at, v, want)}
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, v) {
		return []string{fmt.Sprintf("%s: %v is none of %v", at, v, words)}
	}
	if types := s["type"]; types != nil && !strings.Contains(fmt.Sprint(types), kindOf(v)) && !(kindOf(v) == "integer" && types == "number") {
		return []string{fmt.Sprintf("%s: %v is no %v", at, v, types)}
	}
	if text, ok := v.(string); ok && s["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			bad = append(bad, at+": "+err.Error())
		}
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			bad = append(bad, misfits(root, s["items"].(object), v[i], fmt.Sprintf("%s[%d]", at, i))...)
		}
	case object:
		properties, _ := s["properties"].(object)
		for name, value := range v {
			if property, ok := properties[name].(object); ok {
				bad = append(bad, misfits(root, property, value, at+"."+name)...)
			} else {
				bad = append(bad, at+"."+name+" is unknown")
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				bad = append(bad, fmt.Sprintf("%s.%s is missing", at, name))
			}
		}
	}
	return bad
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case object:
		return "object"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
	}
	return "number"
}
