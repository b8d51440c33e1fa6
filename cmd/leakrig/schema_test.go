package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/scenarios"
	"github.com/leakrig/leakrig/session"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := scenarios.Schema(session.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scenario.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// decoded is the text of a scenario as an editor's language server holds it.
func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// asJSON is v as the validator wants it.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// loads returns the loader's error for a value.
func loads(t *testing.T, v any) error {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	_, err = scenarios.Load(scenarios.Source{Name: "f", Data: text}, session.Kinds())
	return err
}

// corpus are scenarios that load: the library, and those of the tests.
func corpus(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range scenarios.Names() {
		src, err := scenarios.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(src.Data)
	}
	archives, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range archives {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range regexp.MustCompile(`(?m)^-- (.*) --$`).Split(string(text), -1) {
			if strings.HasPrefix(strings.TrimSpace(part), "apiVersion: leakrig") && !strings.Contains(part, "$") {
				all[fmt.Sprintf("%s/%d", file, len(all))] = part
			}
		}
	}
	return all
}

// TestSchemaAgreesWithLoad checks that the schema accepts what Load accepts, and rejects keys that Load does not
// know. It tries every scenario unchanged, without each of its keys, and with each of them misspelt.
func TestSchemaAgreesWithLoad(t *testing.T) {
	t.Parallel()
	schema, taken, refused := compiledSchema(t), 0, 0
	for name, text := range corpus(t) {
		v := decoded(t, text)
		compare := func(what string) {
			err, invalid := loads(t, v), schema.Validate(asJSON(t, v))
			switch {
			case err == nil && invalid != nil:
				t.Errorf("%s, %s: it loads, and the schema refuses it: %v", name, what, invalid)
			case err == nil:
				taken++
			case strings.Contains(err.Error(), "unknown key") && invalid == nil:
				t.Errorf("%s, %s: the schema takes it, and loading says: %v", name, what, err)
			case invalid != nil:
				refused++
			}
		}
		compare("unchanged")
		each(v, "", func(m map[string]any, key, path string) {
			value := m[key]
			delete(m, key)
			compare("without " + path)
			m[key+"x"] = value
			compare("with " + path + "x")
			delete(m, key+"x")
			m[key] = value
		})
	}
	t.Logf("%d taken, %d refused", taken, refused)
	if taken < 100 || refused < 500 {
		t.Errorf("only %d taken and %d refused", taken, refused)
	}
}

// each calls f for every key of every mapping in v.
func each(v any, path string, f func(m map[string]any, key, path string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			f(v, key, path+"."+key)
			each(v[key], path+"."+key, f)
		}
	case []any:
		for i, e := range v {
			each(e, fmt.Sprintf("%s[%d]", path, i), f)
		}
	}
}

// The library validates as its authors wrote it.
func TestSchemaTakesTheLibrary(t *testing.T) {
	schema := compiledSchema(t)
	for _, name := range scenarios.Names() {
		src, err := scenarios.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(asJSON(t, decoded(t, string(src.Data)))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Values that an editor should mark, or should not.
func TestSchemaHoldsValues(t *testing.T) {
	const good = `
apiVersion: leakrig.dev/v1
kind: Scenario
metadata: {name: good}
spec:
  parameters: {count: 5}
  cluster: {providers: [kind]}
  subject: {command: [./a], placement: {kind: process}, limits: {memory: 1Gi}, env: {N: 1, B: true}}
  variants: [{name: only, expect: clean}]
  round: [post: {path: /work, times: $(count), timeout: 1m30s}]
  settle: {quiet: 100ms}
  probes: [goroutine, heap: {name: mem}]
  checks: [delta: {probe: goroutine, max: 2KiB}]
`
	schema := compiledSchema(t)
	for _, row := range []struct {
		comment, old, new string
		ok                bool
	}{
		{"unchanged", "only", "only", true},
		{"a provider that is none", "[kind]", "[knid]", false},
		{"a placement that is none", "kind: process", "kind: moon", false},
		{"a provider that is none, of a placement", "{kind: process}", "{knid: process}", false},
		{"an outcome that is none", "expect: clean", "expect: cleen", false},
		{"text for a number", "times: $(count)", "times: many", false},
		{"a fraction for an integer", "times: $(count)", "times: 1.5", false},
		{"a duration without a unit", "quiet: 100ms", "quiet: 100", false},
		{"a duration with a wrong unit", "quiet: 100ms", "quiet: 100 millis", false},
		{"a duration from a parameter", "quiet: 100ms", "quiet: $(count)ms", true},
		{"a number for text", "path: /work", "path: 5", false},
		{"a kind that is none", "[post:", "[pots:", false},
		{"an action of a kind without what it needs", "[post: {path: /work", "[exec: {}, post: {path: /work", false},
		{"two kinds in one mapping", "heap: {name: mem}", "{heap: {}, process: {}}", false},
		{"a probe that is none", "[goroutine,", "[gorutine,", false},
		{"a check without its settings", "[delta: {probe: goroutine, max: 2KiB}]", "[delta]", false},
		{"a quantity", "max: 2KiB", "max: 0.5", true},
		{"another version", "leakrig.dev/v1", "leakrig.dev/v2", false},
		{"a limit that is none", "memory: 1Gi", "disk: 1Gi", false},
	} {
		err := schema.Validate(asJSON(t, decoded(t, strings.Replace(good, row.old, row.new, 1))))
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", row.comment, err)
		}
	}
}

// The form of durations in the schema is that of time.ParseDuration.
func TestSchemaDurations(t *testing.T) {
	schema := compiledSchema(t)
	for _, text := range []string{"0", "1s", "1.5h", ".5m", "5.ms", "1h2m3s", "-1s", "+2us", "3µs", "1", "s", "", "1 s", "1d", "1s2", "..s", "1e3s"} {
		_, parsed := time.ParseDuration(text)
		v := decoded(t, `{apiVersion: leakrig.dev/v1, kind: Scenario, metadata: {name: a}, spec: {subject: {}, variants: [], round: [], checks: [], settle: {quiet: "`+text+`"}}}`)
		if err := schema.Validate(asJSON(t, v)); (err == nil) != (parsed == nil) {
			t.Errorf("%q: the schema says %v, time.ParseDuration %v", text, err, parsed)
		}
	}
}
