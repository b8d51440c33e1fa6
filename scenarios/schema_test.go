package scenarios

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// TestSchemaOfEveryShape checks the schema of every shape of configuration. Package main's tests check that the
// schema agrees with Load for the real kinds.
func TestSchemaOfEveryShape(t *testing.T) {
	text, err := Schema(fakeKinds())
	if err != nil {
		t.Fatal(err)
	}
	root, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scenario.json", root); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("scenario.json#/$defs/action.shapes")
	if err != nil {
		t.Fatal(err)
	}
	// The first value lacks only the key odd. That key is required, although no value in a file matches its type.
	for shapes, want := range map[string]string{
		"{timeout: 3s, flag: true, small: 3, maybe: 0, steps: [{do: a, times: 1}], first: {do: a, times: 1}}": "missing property 'odd'",
		"{steps: [a]}":                 "at '/steps/0': got string, want object",
		"{steps: [{do: a, tmies: 1}]}": "at '/steps/0': additional properties 'tmies' not allowed",
		"{words: [1]}":                 "at '/words/0': got number, want string",
		"{counts: {x: many}}":          "at '/counts/x': got string, want integer",
		"{timeout: 3 seconds}":         "at '/timeout': 'anyOf' failed",
		"{flag: maybe}":                "at '/flag': got string, want boolean",
		"{bounds: [true]}":             "at '/bounds/0': got boolean, want number or string",
	} {
		var v any
		if err := yaml.Unmarshal([]byte(shapes), &v); err != nil {
			t.Fatal(err)
		}
		err := schema.Validate(v)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, "odd") && strings.Count(err.Error(), "at '") != 1 {
			t.Errorf("%s: %v, want %s", shapes, err, want)
		}
	}
	properties := root.(map[string]any)["$defs"].(map[string]any)["action.shapes"].(map[string]any)["properties"].(map[string]any)
	for key, want := range map[string]string{"share": "0.5", "words": "[a b]", "counts": "map[x:1]", "bounds": "[4096]"} {
		if got := fmt.Sprint(properties[key].(map[string]any)["default"]); got != want {
			t.Errorf("%s: the default is %s, want %s", key, got, want)
		}
	}
	if _, ok := properties[nameKey]; !ok {
		t.Error("a block has no name")
	}
}
