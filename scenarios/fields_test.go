package scenarios

import (
	"reflect"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

func TestFields(t *testing.T) {
	config := fakeKinds().Actions[1].New().(*shapes)
	config.Timeout = leak.Duration(90 * time.Second)
	got := Fields(config)
	want := []Field{
		{"timeout", "duration", "1m30s", "time for all of it"},
		{"flag", "boolean", "", "a switch"},
		{"share", "number", "0.5", "a share"},
		{"small", "integer", "", "a small number"},
		{"maybe", "integer", "", "a number or none"},
		{"words", "list of text", "[a, b]", "some words"},
		{"steps", "list of mapping", "", "some steps"},
		{"steps[].do", "text", "", "what to do"},
		{"steps[].times", "integer", "", "how often"},
		{"counts", "map of integer", "{x: 1}", "some counts"},
		{"first", "mapping", "", "a first step"},
		{"first.do", "text", "", "what to do"},
		{"first.times", "integer", "", "how often"},
		{"bounds", "list of quantity", "[4096]", "some bounds"},
		{"odd", "chan int", "", "what no file can say"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestFieldsOfScenario checks that the types of a scenario are documented like those of kinds.
func TestFieldsOfScenario(t *testing.T) {
	docs := map[string]Field{}
	for _, f := range Fields(&leak.Scenario{}) {
		if f.Doc == "" {
			t.Errorf("%s has no doc", f.Name)
		}
		docs[f.Name] = f
	}
	for name, typ := range map[string]string{
		"spec.cluster.providers":      "list of text", // behind a pointer
		"spec.variants[].fingerprint": "list of text",
		"spec.variants[].expect":      "text",
		"spec.round":                  "list of blocks",
		"spec.subject.env":            "map of text",
		"spec.settle.quiet":           "duration",
	} {
		if docs[name].Type != typ {
			t.Errorf("%s is %q, want %q", name, docs[name].Type, typ)
		}
	}
}

// TestFieldsOfRecursiveType checks that the description of a recursive type ends.
func TestFieldsOfRecursiveType(t *testing.T) {
	type tree struct {
		Leaf     string   `yaml:"leaf" doc:"a leaf"`
		Branches []*tree_ `yaml:"branches" doc:"more"`
	}
	got := fieldNamesOf(Fields(&tree{}))
	if want := []string{"leaf", "branches", "branches[].twigs"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

type tree_ struct {
	Twigs []tree_ `yaml:"twigs" doc:"more of the same"`
}

func fieldNamesOf(fields []Field) []string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

func TestFieldsOfNoStruct(t *testing.T) {
	for _, config := range []any{nil, 1, leak.Scenario{}, (*leak.Scenario)(nil)} {
		if got := Fields(config); got != nil {
			t.Errorf("Fields(%T) = %v", config, got)
		}
	}
}
