package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/leak/display"
)

// everyRun are runs of every shape.
func everyRun() map[string]Input {
	all := partial()
	maps.Copy(all, map[string]Input{"met": fixture(), "failing": failing(), "herd": herd(), "many": many(151), "replaced": replaced()})
	return all
}

// validator returns a function that checks a text by a schema.
func validator(t *testing.T, path string) func(text string) error {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	doc, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return schema.Validate(doc)
	}
}

// The speedscope format is valid by the schema that its npm package contains, and its weights add up to the growth and the
// shrinkage of the flame graphs.
func TestSpeedscope(t *testing.T) {
	valid := validator(t, "testdata/speedscope.schema.json")
	for name, in := range everyRun() {
		text := render(t, "speedscope", in)
		if err := valid(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var file speedscopeFile
		if err := json.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		sums := map[string]int64{}
		for _, p := range file.Profiles {
			for i, w := range p.Weights {
				sums[p.Name] += w
				for _, f := range p.Samples[i] {
					if f >= len(file.Shared.Frames) {
						t.Fatalf("%s: no frame %d", name, f)
					}
				}
			}
			if sums[p.Name] != p.End {
				t.Errorf("%s, %s: %d, but ends at %d", name, p.Name, sums[p.Name], p.End)
			}
		}
		for _, x := range newView(in).Variants {
			for _, g := range newFlameSet(x.flameSubject(), x.Name, 10).graphs {
				for _, m := range flameMetrics {
					if g.Probe == m.Probe && g.Unit == m.Unit {
						if got := sums[x.Name+": "+m.Name+", grew"] - sums[x.Name+": "+m.Name+", shrank"]; got != total(g.List) {
							t.Errorf("%s, %s, %s: %d, the flame graph has %d", name, x.Name, m.Name, got, total(g.List))
						}
					}
				}
			}
		}
	}
	text := render(t, "speedscope", fixture())
	if valid(strings.Replace(text, `"type":"sampled"`, `"type":"drawn"`, 1)) == nil {
		t.Error("the schema accepts everything")
	}
	var file speedscopeFile
	if err := json.Unmarshal([]byte(text), &file); err != nil || file.Profiles[file.Active].Name != "leaky: Goroutines, grew" {
		t.Errorf("%v, shows %q first", err, file.Profiles[file.Active].Name)
	}
}

// The sarif format is valid by the published schema of SARIF 2.1.0 (in testdata without its descriptions).
func TestSarif(t *testing.T) {
	valid := validator(t, "testdata/sarif-2.1.0.schema.json")
	for name, in := range everyRun() {
		if err := valid(render(t, "sarif", in)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := render(t, "sarif", failing())
	for _, want := range []string{`"ruleId": "goroutine-leak"`, `"level": "error"`, `"level": "note"`, `"exitCode": 3`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if valid(strings.Replace(got, `"level": "error"`, `"level": "bad"`, 1)) == nil {
		t.Error("the schema accepts everything")
	}
}

// The openmetrics format parses as the textfile collector reads it, with the numbers of the verdict.
func TestOpenMetrics(t *testing.T) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	for name, in := range everyRun() {
		text := render(t, "openmetrics", in)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasSuffix(text, "\n# EOF\n") {
			t.Errorf("%s has no end", name)
		}
		if got, want := families["leakrig_exit_code"].Metric[0].Gauge.GetValue(), float64(newView(in).ExitCode()); got != want {
			t.Errorf("%s: exit code %v, want %v", name, got, want)
		}
	}
	text := render(t, "openmetrics", fixture())
	for _, want := range []string{
		`leakrig_leaking{scenario="watch-then-delete",variant="leaky"} 1`, `leakrig_leaking{scenario="watch-then-delete",variant="fixed"} 0`,
		`leakrig_growth_per_operation{scenario="watch-then-delete",variant="leaky",check="receive",unit="goroutines"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// An annotation is at the line of the subject's own code, and foreign text cannot start another command.
func TestGitHub(t *testing.T) {
	in := failing()
	in.Scenario.Spec.Subject.Build = "watch-then-delete"
	info := &in.Record.Variants[1].Subject
	info.Main = "github.com/leakrig/leakrig/subjects/watch-then-delete"
	vv := &in.Verdict.Variants[1]
	vv.Growing[0].Stack.Creator = &leak.Frame{Func: "main.build", File: info.Main + "/main.go", Line: 88}
	for i := range vv.Findings {
		vv.Findings[i].Stacks = nil
	}
	vv.Reason = "bad\n::error::x %"
	got := render(t, "github", in)
	for _, want := range []string{
		"::error file=subjects/watch-then-delete/main.go,line=88,title=watch-then-delete/fixed%3A leaking%2C not as expected::bad ",
		"::notice title=watch-then-delete/leaky%3A leaking%2C as expected::", "::warning title=watch-then-delete/current%3A undecided::",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if regexp.MustCompile(`(?m)^::error::x`).MatchString(got) || strings.Count(got, "\n") != 4 {
		t.Errorf("foreign text is a command:\n%s", got)
	}
	// Commands survive the standard output, which makes those of foreign text harmless.
	var b bytes.Buffer
	out := display.NewOutput(&b)
	fmt.Fprintln(out, "::error::foreign")
	if err := github(out, in); err != nil || out.Flush() != nil {
		t.Fatal(err)
	}
	if said := b.String(); strings.HasPrefix(said, "::") || !strings.HasSuffix(said, got) {
		t.Errorf("%q", said)
	}
}

// A comment has at most 60 lines, however many variants and whatever their errors.
func TestCommentIsShort(t *testing.T) {
	all := everyRun()
	crowded := failing()
	for i := range 40 {
		vv := crowded.Verdict.Variants[1]
		vv.Variant = fmt.Sprintf("v%d", i)
		crowded.Verdict.Variants = append(crowded.Verdict.Variants, vv)
	}
	crowded.Record.Failure = &leak.Failure{Message: strings.Repeat("line\n", 100)}
	all["crowded"] = crowded
	for name, in := range all {
		got := render(t, "comment", in)
		if n := strings.Count(got, "\n"); n > 60 || !strings.HasPrefix(got, "<!-- leakrig ") {
			t.Errorf("%s has %d lines:\n%s", name, n, got)
		}
	}
	if got := render(t, "comment", crowded); !strings.Contains(got, "… and 25 more variants") {
		t.Error(got)
	}
}
