package reports

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/rundir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t testing.TB, format string, in Input) string {
	t.Helper()
	for _, f := range Formats() {
		if f.Name == format {
			var b bytes.Buffer
			if err := f.Render(&b, in); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			return b.String()
		}
	}
	t.Fatalf("no format %s", format)
	return ""
}

func TestGolden(t *testing.T) {
	full, brief := failing(), failing()
	full.Detail, brief.Detail = Full, Brief
	for name, in := range map[string]Input{"met": fixture(), "failing": failing(), "failing.full": full, "failing.brief": brief} {
		for _, f := range Formats() {
			if in.Detail != Normal && f.Name != "text" {
				continue // only the text report depends on the detail
			}
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				got := render(t, f.Name, in)
				checkForm(t, f.Name, got)
				got = withoutAssets(got)
				if name == "failing" && len(got) > 50_000 {
					return // large, and another golden file covers the same code
				}
				path := filepath.Join("testdata", name+"."+f.Name)
				if *update {
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("differs from %s; look at it with go test -update && git diff", path)
				}
			})
		}
	}
}

// withoutAssets removes what every page has from a page: style sheet, script, and policy. It also removes the compressed frames,
// because another release of Go may compress differently.
func withoutAssets(page string) string {
	page = flameDataOf.ReplaceAllString(page, `<template class="all-frames"></template>`)
	for _, asset := range []string{styleSheet, script, template.HTMLEscapeString(policy)} {
		page = strings.Replace(page, asset, "", 1)
	}
	return page
}

func TestInputStaysAsItWas(t *testing.T) {
	in, same := failing(), failing()
	for _, f := range Formats() {
		render(t, f.Name, in)
	}
	if !reflect.DeepEqual(in, same) {
		t.Error("a renderer changed its input")
	}
}

// TestTextWidth checks that text fits into the terminal, except for the line to copy.
func TestTextWidth(t *testing.T) {
	for _, in := range []Input{fixture(), failing()} {
		out := render(t, "text", in)
		for _, line := range strings.Split(out, "\n") {
			if utf8.RuneCountInString(line) > textWidth && !strings.Contains(line, "go tool pprof") && !strings.HasPrefix(line, "    leakrig ") {
				t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
			}
		}
		const last = `  go tool pprof -traces -focus='StreamWatcher..receive' -base runs/watch-then-delete/20261120T140312Z/leaky/round-0/goroutine.pb.gz runs/watch-then-delete/20261120T140312Z/leaky/round-7/goroutine.pb.gz` + "\n"
		if !strings.HasSuffix(out, last) {
			t.Errorf("the last line is not the one to paste:\n%s", out)
		}
	}
}

func TestJSON(t *testing.T) {
	var r Report
	if err := json.Unmarshal([]byte(render(t, "json", failing())), &r); err != nil {
		t.Fatal(err)
	}
	if r.Result != leak.Unmeasured || r.ExitCode != leak.ExitUnmeasured || len(r.Verdict.Variants) != 5 || len(r.Record.Variants[4].Rounds) != 3 {
		t.Errorf("got result %v, exit %d, %d variants, %d rounds", r.Result, r.ExitCode, len(r.Verdict.Variants), len(r.Record.Variants[4].Rounds))
	}
}

// partial returns the records that a crash, an interrupt or a minimal scenario leaves behind.
func partial() map[string]Input {
	list := map[string]Input{
		"nothing": {},
		"failed boot": {
			RunDir: "runs/x", Record: &leak.Record{Scenario: "x", Plan: leak.Plan{Variants: []string{"leaky", "fixed"}, Rounds: 7}, Failure: &leak.Failure{Message: "boot: no engine", Hint: "use --cluster embedded"}},
			Verdict: &leak.Verdict{Result: leak.Unmeasured, Sentence: "Could not measure: boot: no engine."},
		},
		"no snapshots": {Record: &leak.Record{Scenario: "x", Metrics: map[string]leak.Metric{"heap.alloc": {Unit: "bytes"}}, Variants: []leak.VariantRecord{{Name: "leaky"}}}, Verdict: &leak.Verdict{}},
	}
	edit := func(name string, f func(in *Input)) {
		in := fixture()
		f(&in)
		list[name] = in
	}
	edit("interrupted", func(in *Input) { in.Record.Interrupted, in.Verdict.Interrupted = true, true })
	edit("no cluster, no idle, no metrics", func(in *Input) {
		in.Record.Cluster, in.Record.Metrics = nil, nil
		for i := range in.Record.Variants {
			in.Record.Variants[i].Idle = nil
		}
	})
	edit("baseline only", func(in *Input) {
		for i := range in.Record.Variants {
			in.Record.Variants[i].Snapshots = in.Record.Variants[i].Snapshots[:1]
		}
	})
	edit("idle only", func(in *Input) { in.Record.Variants[0].Snapshots = nil })
	edit("no verdict on a variant", func(in *Input) { in.Verdict.Variants = in.Verdict.Variants[:1] })
	edit("a hundred rounds of zero", func(in *Input) {
		in.Record.Variants = in.Record.Variants[:1]
		vr := &in.Record.Variants[0]
		for r := range 100 {
			vr.Snapshots = append(vr.Snapshots, leak.Snapshot{Round: 8 + r, Operations: 160 + 20*r, Samples: []leak.Sample{{Probe: "goroutine", Values: map[string]float64{"count": 0}}}})
		}
	})
	edit("huge and tiny numbers", func(in *Input) {
		for i, s := range in.Record.Variants[0].Snapshots {
			s.Samples[0].Values["count"] = math.MaxFloat64 / 4 * float64(i%2)
			s.Samples[1].Values["alloc"] = math.SmallestNonzeroFloat64 * float64(i)
			s.Samples[2].Values["rss"] = -1e9 * float64(i)
		}
	})
	return list
}

// TestReenacted checks that every report for people names the re-enacted functions and the parameters of the run.
func TestReenacted(t *testing.T) {
	in := fixture()
	in.Record.Parameters = map[string]string{"nodes": "3000", "api": "deploy-apps"}
	in.Record.Variants[0].Subject.Rewrite = &leak.Rewrite{
		Module: "example.com/sim v0.1.3", Package: "example.com/sim/pkg", Func: "(*Simulator).Close", Doc: "Close ends\nnothing else.",
	}
	const want = "(*Simulator).Close of example.com/sim/pkg (example.com/sim v0.1.3) has another body than upstream's: Close ends nothing else."
	space := regexp.MustCompile(`\s+`)
	for format, said := range map[string]string{
		"text": want, "html": strings.ReplaceAll(want, "'", "&#39;"), "json": `"func": "(*Simulator).Close"`,
		"markdown": "Re-enacted: " + escape(want),
	} {
		if got := space.ReplaceAllString(render(t, format, in), " "); !strings.Contains(got, said) {
			t.Errorf("%s does not say %s", format, said)
		}
	}
	if got := render(t, "html", in); !strings.Contains(got, "api=deploy-apps nodes=3000") {
		t.Error("the page does not name the parameters")
	}
}

func TestPartial(t *testing.T) {
	for name, in := range partial() {
		for _, f := range Formats() {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				out := render(t, f.Name, in)
				if out == "" {
					t.Error("empty")
				}
				if bad := regexp.MustCompile(`NaN|Inf\b|%!|<nil>`).FindString(out); bad != "" {
					t.Errorf("holds %s", bad)
				}
				checkForm(t, f.Name, out)
			})
		}
	}
}

// TestNaN checks that numbers that JSON cannot hold do not reach a chart or a table either.
func TestNaN(t *testing.T) {
	in := fixture()
	in.Record.Variants[0].Snapshots[2].Samples[0].Values["count"] = math.NaN()
	in.Verdict.Variants[0].Findings[0].PerOperation = math.Inf(1)
	in.Verdict.Variants[0].Findings[0].Bound = math.NaN()
	in.Verdict.Variants[0].Findings[1].Gates[0].Value = math.NaN()
	in.Verdict.Variants[0].Findings[2].Points[1].Value = math.NaN()
	for _, format := range []string{"text", "html", "junit", "markdown"} {
		if out := render(t, format, in); strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
			t.Errorf("%s holds NaN or Inf", format)
		}
	}
}

// hostile strings appear in all places that a profile, a log or a YAML file can fill.
var hostile = []string{
	`<script>alert(1)</script>`, `"onload="alert(1)`, `'><img src=x onerror=alert(1)>`, `]]><x>`, `--><x>`, `</title></style><x>`, `</text></svg><x>`,
	"\x1b[2J\x1b]0;owned\x07", "\u009b31m", "\xff\xfe\xc3", "a\u202eb\u2066c", "line\nFAKE: as expected\r\nx", "a | b `c` **d** ![e](http://x)",
	"$(touch owned) ; rm -rf ~ & `id` '\"", "javascript:alert(1)", "```\n# x", "\x00", "{{.}}", "a\u2028b",
}

// poison prefixes every string of v, at any depth, with s.
func poison(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), s)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i), s)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), s)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			poison(value, s)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if v.CanSet() && v.Type() != reflect.TypeFor[leak.Expectation]() {
			v.SetString(s + v.String())
		}
	}
}

func hostileInput(s string) Input {
	in := failing()
	ids := map[string]leak.Stack{}
	for _, vr := range in.Record.Variants {
		maps.Copy(ids, vr.Stacks)
	}
	poison(reflect.ValueOf(&in), s)
	for i := range in.Record.Variants { // its groups now refer to poisoned names
		for id := range ids {
			in.Record.Variants[i].Stacks[s+id] = in.Record.Variants[i].Stacks[id]
		}
	}
	in.Scenario.Metadata.Links = []string{s, "javascript:alert(1)", "http://plain.example", "https://ok.example/" + s}
	in.Record.Metrics = map[string]leak.Metric{s + "goroutine.count": {Unit: "goroutines", Doc: s}}
	in.Record.Failure = &leak.Failure{Message: s, Hint: s}
	in.Sources = rundir.Sources{}
	for _, f := range SourceFrames(in) {
		in.Sources[f.Subject.SourceKey(f.Frame)] = rundir.Excerpt{First: 120, Lines: []string{s, s, s, s, s, s, s, s}}
	}
	for i := range in.Record.Variants {
		for _, snap := range in.Record.Variants[i].Snapshots {
			for k := range snap.Load {
				snap.Load[k].Errors = []leak.ErrorCount{{Message: s, Count: 1}}
			}
		}
	}
	return in
}

func TestHostile(t *testing.T) {
	for i, s := range hostile {
		in := hostileInput(s)
		for _, f := range Formats() {
			t.Run(fmt.Sprintf("%d/%s", i, f.Name), func(t *testing.T) {
				out := render(t, f.Name, in)
				for _, r := range out {
					if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
						t.Fatalf("unprintable %U", r)
					}
				}
				if !utf8.ValidString(out) {
					t.Error("not UTF-8")
				}
				if f.Name == "text" && strings.Contains(out, "\nFAKE") {
					t.Error("foreign text began a line")
				}
				checkForm(t, f.Name, out)
			})
		}
	}
}

// checkForm parses the output with a parser of its format.
func checkForm(t *testing.T, format, out string) {
	t.Helper()
	switch format {
	case "json":
		if !json.Valid([]byte(out)) {
			t.Error("not JSON")
		}
	case "junit":
		checkJUnit(t, out)
	case "html", "svg":
		checkHTML(t, out)
	case "markdown":
		checkMarkdown(t, out)
	}
}

func checkJUnit(t *testing.T, out string) {
	t.Helper()
	var suites junitSuites
	if err := xml.Unmarshal([]byte(out), &suites); err != nil {
		t.Fatal(err)
	}
	for _, s := range suites.Suites {
		was := s.junitCounts
		s.junitCounts = junitCounts{}
		s.count()
		if was != s.junitCounts || was != suites.junitCounts || was.Tests == 0 {
			t.Errorf("counts %+v and %+v, cases %+v", suites.junitCounts, was, s.junitCounts)
		}
	}
}

// The elements of the page. Any other element would come from data.
var (
	allowedElements   = strings.Fields("html head meta title style body header p h1 h2 h3 h4 div dl dt dd nav ul ol li a main section article span b code pre details summary table caption thead tbody tr th td figure figcaption footer svg g path circle rect text tspan desc clipPath input label br h5 mark symbol use template")
	allowedAttributes = strings.Fields("lang charset name content http-equiv class id href rel aria-label aria-labelledby aria-hidden role tabindex scope colspan open viewBox width height fill stroke stroke-width stroke-linecap stroke-linejoin stroke-dasharray focusable d x y dx dy r cx cy font-size font-family font-weight text-anchor transform clip-path color opacity title rx type for checked xmlns")
)

func checkHTML(t *testing.T, out string) {
	t.Helper()
	out = strings.Replace(out, "<script>"+script+"</script>", "", 1) // the script of the page; any other is refused below
	d := xml.NewDecoder(strings.NewReader(strings.Replace(out, "<!doctype html>", "", 1)))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	ids, last := map[string]bool{}, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains(allowedElements, e.Name.Local) {
			t.Fatalf("element <%s>", e.Name.Local)
		}
		if len(e.Name.Local) == 2 && e.Name.Local[0] == 'h' && e.Name.Local[1] <= '9' {
			level := int(e.Name.Local[1] - '0')
			if level > last+1 {
				t.Errorf("heading h%d after h%d", level, last)
			}
			last = level
		}
		for _, a := range e.Attr {
			if !slices.Contains(allowedAttributes, a.Name.Local) {
				t.Fatalf("attribute %s of <%s>", a.Name.Local, e.Name.Local)
			}
			if a.Name.Local == "id" && ids[a.Value] {
				t.Errorf("id %s twice", a.Value)
			}
			if a.Name.Local == "id" {
				ids[a.Value] = true
			}
			if e.Name.Local == "use" && a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#i-") {
				t.Errorf("an element in use is not on the page: %s", a.Value)
			}
			if a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#") && !strings.HasPrefix(a.Value, "https://") && !strings.HasPrefix(a.Value, "./") {
				t.Errorf("link to %s", a.Value)
			}
		}
	}
}

// checkMarkdown finds text that could escape its place: HTML outside of code, and rows with a different number of
// columns.
func checkMarkdown(t *testing.T, out string) {
	t.Helper()
	fence, width := "", 0
	for _, line := range strings.Split(out, "\n") {
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = line
		case fence != "" && line == fence:
			fence = ""
		case fence != "":
		case strings.ContainsAny(line, "<>`"):
			t.Errorf("not escaped: %s", line)
		case strings.HasPrefix(line, "|"):
			if width == 0 {
				width = strings.Count(line, "|")
			}
			if strings.Count(line, "|") != width {
				t.Errorf("row of another width: %s", line)
			}
		}
	}
	if fence != "" {
		t.Error("a code block does not end")
	}
}

// TestCommandsInAShell passes the commands to a real shell. Each must have the right number of words, and no part of
// a name may run.
func TestCommandsInAShell(t *testing.T) {
	for _, s := range append(hostile, "", "-rf", "plain") {
		in := fixture()
		in.RunDir = s + "/run"
		in.Verdict.Variants[0].Growing[0].Stack.Frames[0].Func = s
		line, ok := newView(in).reproduce()
		if !ok {
			t.Fatal("no command")
		}
		cmd := exec.Command("sh", "-c", "set -- "+line+`; printf '%s\n' "$#"`)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		words := strings.TrimSpace(string(out))
		if err != nil || words != "7" && words != "8" {
			t.Errorf("%q: %v: %s words in %s", s, err, words, line)
		}
		if files, _ := os.ReadDir(cmd.Dir); len(files) > 0 {
			t.Errorf("%q: something ran: %s", s, line)
		}
	}
}

func TestFocusMatches(t *testing.T) {
	for name, want := range map[string]string{
		"k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive": "StreamWatcher..receive",
		"main.handle.func1":   "main.handle.func1",
		"a.b/c.Map[...].func": "c.Map......func",
		"x.(*T[...]).Méthod":  "T.......M.thod",
		"":                    "",
	} {
		if got := focus(leak.Frame{Func: name}); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if !regexp.MustCompile(want).MatchString(name) {
			t.Errorf("%s does not match %s", want, name)
		}
	}
}

func TestManyStacks(t *testing.T) {
	in := failing()
	var many []leak.StackGrowth
	for i := range 10_000 {
		s := receiveStack()
		s.Frames = slices.Repeat([]leak.Frame{{Func: fmt.Sprintf("example.com/pkg.F%d", i), File: "f.go", Line: i}}, 100)
		many = append(many, grown(s, 0, int64(10_000-i), "", false))
	}
	for i := range in.Verdict.Variants {
		in.Verdict.Variants[i].Growing, in.Verdict.Variants[i].HeapGrowing = many, many
		for k := range in.Verdict.Variants[i].Findings {
			in.Verdict.Variants[i].Findings[k].Stacks = many
		}
	}
	for i := range 2 {
		manyStacks(&in.Record.Variants[i])
	}
	for format, limit := range map[string]int{"html": 2 << 20, "svg": 1 << 19, "text": 1 << 16, "markdown": 1 << 16, "junit": 1 << 20} {
		out := render(t, format, in)
		if len(out) > limit {
			t.Errorf("%s: %d bytes", format, len(out))
		}
		if !strings.Contains(out, "… and 9") && !strings.Contains(out, "more frames") && !strings.Contains(out, "narrower frames") {
			t.Errorf("%s does not state its omissions", format)
		}
	}
}

func TestFingerprintFirst(t *testing.T) {
	x := variant{Verdict: leak.VariantVerdict{Growing: []leak.StackGrowth{{ID: "a"}, {ID: "b"}, {ID: "c", Fingerprint: true}, {ID: "d"}}}}
	order := ""
	for _, g := range x.Goroutines() {
		order += g.ID
	}
	if order != "cabd" {
		t.Errorf("got %s", order)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		unit   string
		want   string
	}{
		{0, 149, "goroutines", "0 50 100 150"},
		{8, 9, "goroutines", "8 9"},
		{6.6 * (1 << 20), 9.7 * (1 << 20), "bytes", "6 MiB 7 MiB 8 MiB 9 MiB 10 MiB"},
		{0, 700, "bytes", "0 200 B 400 B 600 B 800 B"},
	} {
		scale, least := 1.0, 1.0
		if c.unit == "bytes" {
			scale, least = byteUnit(c.hi), 0
		}
		axis := ticks(c.lo/scale, c.hi/scale, 5, least)
		var labels []string
		for i := range axis {
			axis[i] *= scale
		}
		for _, v := range axis {
			labels = append(labels, tickLabel(v, axis, c.unit))
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%v to %v: got %s, want %s", c.lo, c.hi, got, c.want)
		}
	}
}

func TestLabelsKeepApart(t *testing.T) {
	for _, want := range [][]float64{{50, 50, 50, 50}, {0, 1, 90, 200}, {200, 200}, {0}} {
		at := spread(want, 16, 10, 200)
		for i := range at {
			if at[i] < 10 || at[i] > 200 || i > 0 && at[i]-at[i-1] < 15.8 {
				t.Errorf("%v became %v", want, at)
			}
		}
	}
}

func TestTheilSen(t *testing.T) {
	var points []leak.Point
	for i := range 8 {
		points = append(points, leak.Point{Operations: 20 * i, Value: 9 + 20*float64(i)})
	}
	points[3].Value = 1e9                                                      // one outlier
	points = append(points, leak.Point{Operations: 140, Value: 0, Idle: true}) // not part of the fit
	if got, ok := theilSen(points); !ok || math.Abs(got-1) > 1e-9 {
		t.Errorf("got %v, %v", got, ok)
	}
}

// TestFigure checks that each card shows the most important number of its variant.
func TestFigure(t *testing.T) {
	in := fixture()
	for i := range in.Verdict.Variants[5].Findings { // natural now has its heap as fingerprint
		in.Verdict.Variants[5].Findings[i].Fingerprint = in.Verdict.Variants[5].Findings[i].Check == "heap-growth"
	}
	in.Verdict.Variants[1].Findings[0].Outcome = leak.Leaking
	v := newView(in)
	for i, want := range map[int]string{0: "receive", 1: "goroutines", 2: "heap-growth", 5: "heap-growth"} {
		if got := v.Figure(v.Variants[i]).Finding.Check; got != want {
			t.Errorf("%s: %s, want %s", v.Variants[i].Name, got, want)
		}
	}
	if c := newView(Input{}).Figure(variant{Name: "none"}); c != nil {
		t.Errorf("%+v", c)
	}
}
