package bisect

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/session"
)

func TestVersions(t *testing.T) {
	for word, is := range map[string]bool{
		"v1.2.3": true, "v0.21.0-beta.1": true, "v2.0.0+incompatible": true, "v0.0.0-20200324210504-a9aa75ae1b89": true,
		"v1.2": false, "1.2.3": false, "latest": false, "": false, "v1.2.3 ": false,
	} {
		if session.IsVersion(word) != is {
			t.Errorf("%q: %t", word, !is)
		}
	}
	if !IsPre("v0.21.0-beta.1") || IsPre("v0.21.0") || Line("v0.21.0-beta.1") != "v0.21" {
		t.Error("pre-releases and lines")
	}
	if !Within("v1.2.0", "v1.3.0", "v1.0.0") || !Within("v1.0.0", "v1.0.0", "v1.3.0") || Within("v1.4.0", "v1.0.0", "v1.3.0") {
		t.Error("within")
	}
	if got := Sort([]string{"v0.21.0", "v0.9.0", "v0.21.0-beta.1", "v0.9.0"}); strings.Join(got, " ") != "v0.9.0 v0.21.0-beta.1 v0.21.0" {
		t.Error(got)
	}
}

func TestCompare(t *testing.T) {
	for _, test := range [][4]string{
		{"github.com/containerd/ttrpc", "v1.0.2", "v1.1.0", "https://github.com/containerd/ttrpc/compare/v1.0.2...v1.1.0"},
		{"k8s.io/apimachinery", "v0.20.15", "v0.21.0", "https://github.com/kubernetes/apimachinery/compare/v0.20.15...v0.21.0"},
		{"sigs.k8s.io/yaml", "v1.2.0", "v1.3.0", "https://github.com/kubernetes-sigs/yaml/compare/v1.2.0...v1.3.0"},
		{"golang.org/x/net", "v0.8.0", "v0.9.0", "https://github.com/golang/net/compare/v0.8.0...v0.9.0"},
		{"github.com/a/b/v2", "v2.0.0", "v2.1.0", "https://github.com/a/b/compare/v2.0.0...v2.1.0"},
		{"github.com/a/b/sub/v2", "v2.0.0", "v2.1.0", "https://github.com/a/b/compare/sub/v2.0.0...sub/v2.1.0"},
		{"github.com/a/b", "v0.0.0-20200324210504-a9aa75ae1b89", "v2.0.0+incompatible", "https://github.com/a/b/compare/a9aa75ae1b89...v2.0.0"},
		{"example.com/a", "v1.0.0", "v1.1.0", ""},
	} {
		if got := Compare(test[0], test[1], test[2]); got != test[3] {
			t.Errorf("%s: %s", test[0], got)
		}
	}
}

func TestCommand(t *testing.T) {
	q := Question{Scenario: "watch-then-delete", Variant: "leaky", Kind: OfModule, Module: "k8s.io/a", With: []string{"k8s.io/b"}, Set: map[string]string{"nodes": "3 or 4"}, Rounds: 9, Cluster: "kind"}
	if got, want := q.Command("v0.1.0"), "leakrig run watch-then-delete --variant leaky --with k8s.io/a@v0.1.0,k8s.io/b@v0.1.0 --set 'nodes=3 or 4' --rounds 9 --cluster kind"; got != want {
		t.Errorf("%s", got)
	}
	q = Question{Scenario: "./it's.yaml", Variant: "only", Kind: OfCommit, Cluster: "auto"}
	if got, want := q.Command("abc"), `git checkout abc && leakrig run './it'\''s.yaml' --variant only`; got != want {
		t.Errorf("%s", got)
	}
}

// hostile is a record whose foreign strings would be markup, or would move the terminal.
func hostile(t *testing.T) *Record {
	t.Helper()
	w := row(6, 3, Leaky, Clean)
	r := w.record(w.question())
	r.Question.Module, r.Question.Kind, r.Question.Scenario, r.Question.Variant = "example.com/<b>", OfModule, "s", "v"
	r.Scenario = "s"
	r.Missing = []Missing{{"v1.2.5", "<script>alert(1)</script>\x1b[31m"}}
	r.LeftOut = []Missing{{"v1.1.1", "retracted: | `x`"}, {"v1.4.0-rc.1", "a pre-release"}}
	search1(t, w, r)
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Reason, s.Run = "<img src=x> | \x1b[31m\nsecond line", "01-x"
		s.Growth = []Growth{{Check: "receive", PerOperation: 1, Unit: "goroutines", From: 5, To: 405, Outcome: leak.Leaking, Fingerprint: true}}
		if s.State == Clean {
			s.Growth[0].PerOperation, s.Growth[0].To = 0, 5
		}
	}
	r.Steps = append(r.Steps, Step{Version: "v1.2.0", State: Skipped, Reason: "<img src=x> | \x1b[31m\nsecond line"})
	return r
}

func TestReports(t *testing.T) {
	r := hostile(t)
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := f.Render(&b, r, "runs/s/bisect-1"); err != nil {
			t.Fatal(err)
		}
		out := b.String()
		for _, never := range []string{"\x1b", "second line"} {
			if f.Name != "json" && strings.Contains(out, never) {
				t.Errorf("%s has %q", f.Name, never)
			}
		}
		if f.Name == "html" || f.Name == "markdown" {
			for _, never := range []string{"<script", "<img"} {
				if n := strings.Count(out, never); n > 0 && !(never == "<script" && f.Name == "html" && n == 1) { // the page's own
					t.Errorf("%s has %s:\n%s", f.Name, never, out)
				}
			}
		}
		wants := map[string][]string{
			"text":     {"fixed in v1.3.0; last leaky v1.2.0", "receive +1.00 goroutines", "unavailable: v1.2.5", "not tested: 1 pre-releases", "--with 'example.com/<b>@v1.2.0'", "bisect.html"},
			"html":     {"<p class=\"sentence\">fixed in v1.3.0", "receive 5 → 405", "./01-x/report.html", "v1.3.0</span> <b>clean</b>", "height=\"100\"", "Content-Security-Policy", "<nav ", "<footer>"},
			"markdown": {"**fixed in v1.3.0", "| 1 | v1.0.0 | leaky | receive +1.00 goroutines |"},
			"json":     {`"leaky": "v1.2.0"`},
		}
		for _, want := range wants[f.Name] {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", f.Name, want, out)
			}
		}
	}
}

// A search that is not over says how to go on, and never that something was found.
func TestUnfinishedReport(t *testing.T) {
	w := row(9, 3, Leaky, Clean)
	w.interrupted = 3
	r := w.record(w.question())
	search1(t, w, r)
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := f.Render(&b, r, "runs/s/bisect-1"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "fixed in") || f.Name == "text" && !strings.Contains(b.String(), "leakrig bisect --resume runs/s/bisect-1") {
			t.Errorf("%s: %s", f.Name, b.String())
		}
	}
}

// FuzzParse checks that any record is shown or refused.
func FuzzParse(f *testing.F) {
	w := row(6, 3, Leaky, Clean)
	r := w.record(w.question())
	r.Steps = []Step{{Version: "v1.0.0", State: Leaky, Run: "01-x", Growth: []Growth{{Check: "receive", PerOperation: 1, Unit: "goroutines"}}}}
	data, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			return
		}
		for _, format := range Formats() {
			if err := format.Render(io.Discard, r, "runs/s/bisect-1"); err != nil {
				t.Errorf("%s: %v", format.Name, err)
			}
		}
	})
}
