package subjects

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

func TestReason(t *testing.T) {
	for said, want := range map[string]string{
		"build x with y.mod: exit status 1\n# example.com/pool\n../pool.go:3:13: undefined: nonsense\nmore": "does not compile: ../pool.go:3:13: undefined: nonsense",
		"exit status 1": "does not compile: exit status 1",
	} {
		if got := Reason(errors.New(said)); got != want {
			t.Errorf("%q", got)
		}
	}
	err := leak.WithHint(&ResolveError{errors.New("exit status 1\ngo: downloading x v1.0.0\n/home/me/y.go:3:2: x@v1.0.0: 403 Forbidden")}, "a hint")
	if got := Reason(err); got != "does not resolve: x@v1.0.0: 403 Forbidden" {
		t.Errorf("%q", got)
	}
}

// TestExpand checks that parts of Kubernetes are numbered v0 for v1 of Kubernetes, and that parts with another
// version do not change.
func TestExpand(t *testing.T) {
	versions := map[string]string{
		"k8s.io/kubernetes": "v1.24.17", "k8s.io/api": "v0.24.17", "k8s.io/client-go": "v0.24.17", "k8s.io/klog/v2": "v2.60.1", "k8s.io/same": "v1.24.17",
		"example.com/other": "v0.24.17", "k8s.io/named": "v0.24.17",
	}
	got := expand([]leak.Module{{Path: "k8s.io/kubernetes", Version: "v1.25.0-rc.0"}, {Path: "k8s.io/named", Version: "v0.1.0"}, {Path: "k8s.io/*", Version: "v1.25.0-rc.0"}}, versions)
	want := []leak.Module{
		{Path: "k8s.io/kubernetes", Version: "v1.25.0-rc.0"},
		{Path: "k8s.io/named", Version: "v0.1.0"},
		{Path: "k8s.io/api", Version: "v0.25.0-rc.0"},
		{Path: "k8s.io/client-go", Version: "v0.25.0-rc.0"},
		{Path: "k8s.io/same", Version: "v1.25.0-rc.0"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Versions are put where the modfile has them, requirements for the sake of others are left to the go command,
// and a module that is replaced by something else is none whose versions could be searched.
func TestEdit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": `module example.com/x

go 1.26.0

require (
	example.com/a v1.0.0
	example.com/b v0.5.0
	example.com/folder v0.0.0
	example.com/fork v1.0.0
)

require example.com/indirect v1.0.0 // indirect

replace (
	example.com/a => example.com/a v1.0.1
	example.com/only-replaced => example.com/only-replaced v1.0.1
	example.com/folder => ./folder
	example.com/fork => example.com/other v1.0.0
)
`})
	edit := func(modules ...leak.Module) (string, error) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, map[string]string{"copy/build.mod": string(data)})
		_, err = Recipe{Folder: dir, With: modules}.edit(context.Background(), filepath.Join(dir, "copy", "build.mod"))
		data, _ = os.ReadFile(filepath.Join(dir, "copy", "build.mod"))
		return strings.Join(strings.Fields(string(data)), " "), err
	}
	got, err := edit(leak.Module{Path: "example.com/a", Version: "v1.2.0"}, leak.Module{Path: "example.com/b", Version: "v0.6.0"}, leak.Module{Path: "example.com/*", Version: "v1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.com/a v1.2.0", "example.com/b v0.6.0", "example.com/a => example.com/a v1.2.0", "only-replaced => example.com/only-replaced v1.2.0", "folder => ./folder"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s:\n%s", want, got)
		}
	}
	for _, never := range []string{"indirect", "example.com/only-replaced v1.2.0 example"} {
		if strings.Contains(got, never) {
			t.Errorf("has %s:\n%s", never, got)
		}
	}
	for path, says := range map[string]string{"example.com/nothing": "does not require", "example.com/folder": "is replaced by ./folder", "example.com/fork": "is replaced by example.com/other"} {
		_, err := edit(leak.Module{Path: path, Version: "v1.2.0"})
		var usage *leak.UsageError
		if err == nil || !strings.Contains(err.Error(), says) || !errors.As(err, &usage) || leak.Hint(err) == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
}
