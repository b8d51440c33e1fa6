package subjects

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// server is a subject whose dependency's Close is shipped, and can be put back to what it was.
var server = map[string]string{
	"go.mod":  "module example.com/server\n\ngo 1.24\n\nrequire example.com/dep v1.0.0\n\nreplace example.com/dep => ./dep\n",
	"main.go": "package main\n\nimport \"example.com/dep/sim\"\n\nfunc main() { println(new(sim.Simulator).Close()); println(sim.Line()) }\n",
	"before.go": "//go:build ignore\n\n//leakrig:rewrite example.com/dep/sim\npackage sim\n\n" +
		"// Close does nothing, as it once did.\nfunc (s *Simulator) Close() string { return strings.ToUpper(\"nothing\") }\n",
	"longer.go": "//go:build ignore\n\n//leakrig:rewrite example.com/dep/sim\npackage sim\n\n" +
		"// Close does more.\nfunc (s *Simulator) Close() string {\n\ta := 1\n\tb := 2\n\tc := 3\n\td := a + b + c\n\t_ = d\n\treturn \"more\"\n}\n",

	"dep/go.mod": "module example.com/dep\n",
	"dep/sim/sim.go": `package sim

import (
	"fmt"
	"runtime"
	"strings"
)

type Simulator struct{}

func (s *Simulator) Close() string {
	// A comment.
	text := fmt.Sprint("close", "d")
	return strings.TrimSpace(text)
}

func (s *Simulator) Upper() string { return strings.ToUpper("") }

func Line() int {
	_, _, line, _ := runtime.Caller(0)
	return line
}
`,
	"dep/sim/sim_test.go": "package sim\n\nfunc (s *Simulator) Close() string { return \"of a test\" }\n",
	"dep/twice/a.go":      "package twice\n\nfunc F() {}\n",
	"dep/twice/b.go":      "//go:build ignore\n\npackage twice\n\nfunc F() {}\n",
}

// A rewritten function has the new body and nothing else changes: not its module, not the lines below it,
// not the build without the rewrite.
func TestRewrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	write(t, dir, server)
	b := Builder{Cache: t.TempDir()}
	for _, tt := range []struct{ rewrite, want, body string }{
		{"", "closed\n20", ""},
		{"before.go", "NOTHING\n20", `{ return strings.ToUpper("nothing") }`},
	} {
		built, err := b.Build(t.Context(), Recipe{Folder: dir, Rewrite: tt.rewrite})
		if err != nil {
			t.Fatal(err)
		}
		if got := says(t, built.Path); got != tt.want {
			t.Errorf("%q: it says %q, want %q", tt.rewrite, got, tt.want)
		}
		if (built.Rewrite == nil) != (tt.rewrite == "") {
			t.Errorf("%q: %+v", tt.rewrite, built.Rewrite)
		}
		if r := built.Rewrite; r != nil && (r.Func != "(*Simulator).Close" || r.Doc != "Close does nothing, as it once did." || r.Body != tt.body ||
			!strings.HasPrefix(r.Module, "example.com/dep v1.0.0") || r.Package != "example.com/dep/sim") {
			t.Errorf("the record says %+v", r)
		}
	}
	built, err := b.Build(t.Context(), Recipe{Folder: dir, Rewrite: "longer.go"})
	if err != nil || !strings.HasPrefix(says(t, built.Path), "more\n") {
		t.Errorf("a longer body: %v", err)
	}
	for name, text := range server {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s was changed (%v)", name, err)
		}
	}
}

func TestRewriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	write(t, dir, server)
	const head = "//go:build ignore\n\n//leakrig:rewrite example.com/dep/sim\npackage sim\n\n"
	for _, tt := range []struct{ name, text, want string }{
		{"no directive", "package sim\n\n// F.\nfunc F() {}\n", "no line //leakrig:rewrite PACKAGE"},
		{"two functions", head + "// F.\nfunc F() {}\n\n// G.\nfunc G() {}\n", "holds 2 declarations, not one function"},
		{"no function", head + "var x int\n", "holds no function"},
		{"no comment", head + "func (s *Simulator) Close() {}\n", "no comment that says what is re-enacted"},
		{"no Go", head + "func {\n", "expected"},
		{"no such method", head + "// Shut.\nfunc (s *Simulator) Shut() {}\n", "example.com/dep/sim has no (*Simulator).Shut"},
		{"another receiver", head + "// Close.\nfunc (s Simulator) Close() {}\n", "example.com/dep/sim has no (Simulator).Close"},
		{"a function of two files", strings.Replace(head, "dep/sim", "dep/twice", 1) + "// F.\nfunc F() {}\n", "has F twice, in a.go and b.go"},
		{"no such package", strings.Replace(head, "dep/sim", "none/such", 1) + "// F.\nfunc F() {}\n", "example.com/none/such"},
		{"what does not compile", head + "// Close.\nfunc (s *Simulator) Close() string { return 1 }\n", "cannot use 1"},
	} {
		write(t, dir, map[string]string{"bad.go": tt.text})
		_, err := Builder{Cache: t.TempDir()}.Build(t.Context(), Recipe{Folder: dir, Rewrite: "bad.go"})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	_, err := Builder{Cache: t.TempDir()}.Build(t.Context(), Recipe{Folder: dir, Rewrite: "none.go"})
	if err == nil || !strings.Contains(err.Error(), "rewrite none.go is not in "+dir) {
		t.Errorf("a missing file: %v", err)
	}
}

// The record says what was rewritten, and not where the copy lies.
func TestRewriteInTheRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	write(t, dir, server)
	l := &Launcher{Spec: leak.SubjectSpec{Build: "./"}, Builder: Builder{ScenarioDir: dir, Cache: t.TempDir()}, Scratch: t.TempDir()}
	v := leak.Variant{Name: "leaky", Rewrite: "before.go"}
	if err := l.Check([]leak.Variant{v}); err != nil {
		t.Fatal(err)
	}
	if err := l.Build(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	launch, err := l.launch(v, "")
	if err != nil {
		t.Fatal(err)
	}
	want := leak.Module{Path: "example.com/dep", Version: "v1.0.0", Replace: "a copy with another (*Simulator).Close"}
	if launch.Info.Rewrite == nil || !slices.Equal(launch.Info.Modules, []leak.Module{want}) {
		t.Errorf("%+v", launch.Info)
	}
}
