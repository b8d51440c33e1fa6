package subjects

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// tiny is a subject whose dependency says which version it is; no registry is needed to build it.
var tiny = map[string]string{
	"go.mod":           "module example.com/tiny\n\ngo 1.24\n\nrequire example.com/dep v1.0.0\n\nreplace example.com/dep => ./dep1\n",
	"fixed.mod":        "module example.com/tiny\n\ngo 1.24\n\nrequire example.com/dep v1.2.0\n\nreplace example.com/dep => ./dep2\n",
	"main.go":          "package main\n\nimport \"example.com/dep\"\n\nvar flags string\n\nfunc main() { println(dep.Version + flags) }\n",
	"flags.go":         "//go:build flagged\n\npackage main\n\nfunc init() { flags = \" with flags\" }\n",
	"dep1/go.mod":      "module example.com/dep\n",
	"dep1/dep.go":      "package dep\n\nconst Version = \"one\"\n",
	"dep2/go.mod":      "module example.com/dep\n",
	"dep2/dep.go":      "package dep\n\nconst Version = \"two\"\n",
	"vendor/README":    "a vendor folder must not win over the modfile",
	"broken.mod":       "module example.com/tiny\n\ngo 1.24\n",
	"empty/.gitignore": "",
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// says runs a binary that prints on standard error.
func says(t *testing.T, binary string) string {
	t.Helper()
	out, err := exec.Command(binary).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestBuild(t *testing.T) {
	// Settings of the user in the environment and with go env -w have no effect.
	env := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(env, []byte("GOFLAGS=-tags=flagged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", env)
	t.Setenv("GOWORK", "/no/such/go.work")

	dir := filepath.Join(t.TempDir(), "tiny")
	write(t, dir, tiny)
	b := Builder{Cache: t.TempDir()}
	binaries := map[string]string{}
	for modfile, want := range map[string]string{"": "one", "fixed.mod": "two"} {
		t.Setenv("GOFLAGS", "")
		built, err := b.Build(t.Context(), Recipe{Folder: dir, Modfile: modfile})
		if err != nil {
			t.Fatal(err)
		}
		binary := built.Path
		if filepath.Base(binary) != "tiny" {
			t.Errorf("the program is called %s", binary)
		}
		if got := says(t, binary); got != want {
			t.Errorf("with %q it says %q, want %q", modfile, got, want)
		}
		binaries[modfile] = binary

		// A second time, now with flags in the environment: the same file, not written again.
		t.Setenv("GOFLAGS", "-tags=flagged")
		before, err := os.Stat(binary)
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.Build(t.Context(), Recipe{Folder: dir, Modfile: modfile})
		if err != nil || again.Path != binary {
			t.Fatalf("the second time: %s, %v", again.Path, err)
		}
		if after, err := os.Stat(binary); err != nil || !os.SameFile(before, after) {
			t.Errorf("it was linked again (%v)", err)
		}
	}
	if binaries[""] == binaries["fixed.mod"] {
		t.Error("the variants overwrite each other")
	}
	for name, text := range tiny { // no modfile was changed to make the build pass
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s is now %q (%v)", name, got, err)
		}
	}

	info := Info(binaries["fixed.mod"])
	want := leak.Module{Path: "example.com/dep", Version: "v1.2.0", Replace: "./dep2 (devel)"}
	if !slices.Equal(info.Modules, []leak.Module{want}) || !strings.HasPrefix(info.GoVersion, "go1.") || !slices.Equal(info.Command, []string{"tiny"}) {
		t.Errorf("info %+v", info)
	}
	if info := Info(filepath.Join(dir, "main.go")); info.GoVersion != "" || !slices.Equal(info.Command, []string{"main.go"}) {
		t.Errorf("of no program: %+v", info)
	}
}

func TestBuildFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	write(t, dir, tiny)
	broken := filepath.Join(t.TempDir(), "broken")
	write(t, broken, map[string]string{
		"go.mod":  "module example.com/broken\n",
		"main.go": "package main\n\nfunc main() {\n" + strings.Repeat("\tundefined()\n", 30) + "}\n",
	})
	b := Builder{Cache: t.TempDir()}
	for _, c := range []struct{ name, folder, modfile, want, hint string }{
		{"the modfile is missing", dir, "fixd.mod", "modfile fixd.mod is not in " + dir, "file in the subject's folder"},
		{"the modfile lacks what is imported", dir, "broken.mod", "build tiny with broken.mod: exit status 1\nmain.go:3:8: ", "go build -trimpath"},
		{"it does not compile", broken, "", "build broken: exit status 1\n", "cd " + broken + " && go build"},
	} {
		built, err := b.Build(t.Context(), Recipe{Folder: c.folder, Modfile: c.modfile})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(leak.Hint(err), c.hint) {
			t.Errorf("%s: %s, %v (hint %q)", c.name, built.Path, err, leak.Hint(err))
		}
		if n := strings.Count(err.Error(), "\n"); n > 15 {
			t.Errorf("%s: an error of %d lines", c.name, n+1)
		}
	}

	reason := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	begun := time.Now()
	if _, err := b.Build(ctx, Recipe{Folder: dir}); !errors.Is(err, reason) || time.Since(begun) > 10*time.Second {
		t.Errorf("interrupted: %v after %s", err, time.Since(begun))
	}
	t.Setenv("PATH", "")
	if _, err := b.Build(t.Context(), Recipe{Folder: dir}); err == nil || !strings.Contains(leak.Hint(err), "install Go") {
		t.Errorf("without Go: %v", err)
	}
}

func TestFolder(t *testing.T) {
	source := t.TempDir()
	write(t, source, map[string]string{"subjects/a/go.mod": "", "subjects/plain/main.go": "", "subjects/group/c/go.mod": "", "mine/go.mod": "", "mine/scenarios/x": ""})
	scenario := filepath.Join(source, "mine", "scenarios")
	for _, c := range []struct {
		name        string
		b           Builder
		build, want string // want is a folder below source, or the text of an error
	}{
		{"by name", Builder{Source: source}, "a", "subjects/a"},
		{"by name, in a group", Builder{Source: source}, "c", "subjects/group/c"},
		{"by a path from the scenario", Builder{ScenarioDir: scenario}, "../", "mine"},
		{"the scenario's own folder", Builder{ScenarioDir: filepath.Join(source, "mine")}, "./", "mine"},
		{"a folder that would join the module around it", Builder{Source: source}, "plain", "no go.mod in"},
		{"no such subject", Builder{Source: source}, "b", "no go.mod in"},
		{"no such folder", Builder{ScenarioDir: scenario}, "./b", "no go.mod in"},
		{"not in this checkout or above", Builder{}, "no-such-subject", "here or in any folder above"},
	} {
		folder, err := c.b.Folder(c.build)
		switch {
		case err == nil && folder != filepath.Join(source, c.want):
			t.Errorf("%s: %s", c.name, folder)
		case err != nil && (!strings.Contains(err.Error(), c.want) || leak.Hint(err) == ""):
			t.Errorf("%s: %v (hint %q)", c.name, err, leak.Hint(err))
		}
	}
	// From anywhere outside a checkout.
	t.Chdir(t.TempDir())
	unpacked, err := Builder{Cache: t.TempDir()}.Folder("otel-global-meter")
	if err != nil || !strings.HasSuffix(unpacked, "/subjects/museum/otel-global-meter") {
		t.Errorf("from leakrig's own sources: %s, %v", unpacked, err)
	}
	if _, err := (Builder{Cache: t.TempDir()}).Folder("no-such-subject"); err == nil || !strings.Contains(leak.Hint(err), "--source") {
		t.Errorf("no such subject anywhere: %v", err)
	}
	// From anywhere within a checkout.
	t.Chdir(filepath.Join(source, "mine", "scenarios"))
	if folder, err := (Builder{}).Folder("a"); err != nil || folder != filepath.Join(source, "subjects", "a") {
		t.Errorf("from below: %s, %v", folder, err)
	}
	if folder, err := (Builder{}).Folder("c"); err != nil || folder != filepath.Join(source, "subjects", "group", "c") {
		t.Errorf("from below, in a group: %s, %v", folder, err)
	}
}

// TestLauncherBuilds checks that each variant runs a different binary, also if the subject's path contains no name.
func TestLauncherBuilds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	write(t, dir, tiny)
	scratch := t.TempDir()
	l := &Launcher{
		Spec:    leak.SubjectSpec{Build: "./", Ready: "/healthz", ReadyTimeout: leak.Duration(30 * time.Second)},
		Builder: Builder{ScenarioDir: dir, Cache: t.TempDir()}, Scratch: scratch,
	}
	for _, v := range []leak.Variant{{Name: "leaky"}, {Name: "fixed", Modfile: "fixed.mod"}} {
		if err := l.Build(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"leaky": "one", "fixed": "two"} {
		// It prints and exits instead of serving: its last words identify the variant.
		_, err := l.Start(t.Context(), leak.Variant{Name: name}, nil, filepath.Join(scratch, name+".log"))
		if err == nil || !strings.HasSuffix(err.Error(), "last words:\n| "+want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
