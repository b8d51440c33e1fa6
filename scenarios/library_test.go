package scenarios

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/leakrig/leakrig/leak"
)

func TestNames(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "watch-then-delete") {
		t.Errorf("names = %v", names)
	}
}

func TestFindBuiltIn(t *testing.T) {
	for _, name := range Names() {
		src, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if src.Name != name+".yaml (built in)" || src.Path != "" {
			t.Errorf("name %q, path %q", src.Name, src.Path)
		}
		if data, err := fs.ReadFile(src.Files, name+".yaml"); err != nil || string(data) != string(src.Data) {
			t.Errorf("%s is not in its own folder: %v", name, err)
		}
		// `leakrig run NAME` finds a scenario by file name, and reports use metadata.name. Both must be equal.
		var head struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal(src.Data, &head); err != nil || head.Metadata.Name != name {
			t.Errorf("%s: metadata.name is %q (%v), want the file's name", name, head.Metadata.Name, err)
		}
	}
}

func TestGroup(t *testing.T) {
	for name, want := range map[string]string{"otel-global-meter": "museum", "watch-then-delete": "", "none": ""} {
		if got := Group(name); got != want {
			t.Errorf("the group of %s is %q, want %q", name, got, want)
		}
	}
	if names := Names(); len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a name is in two groups: %v", names)
	}
}

func TestFindOnDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mine.yml")
	for name, text := range map[string]string{"mine.yml": minimal, "body.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	src, err := Find(path)
	if err != nil {
		t.Fatal(err)
	}
	if src.Name != path || src.Path != path || string(src.Data) != minimal {
		t.Errorf("got %q, %q, %q", src.Name, src.Path, src.Data)
	}
	if _, err := fs.ReadFile(src.Files, "body.json"); err != nil {
		t.Errorf("the folder of the file: %v", err)
	}
}

func TestFindLargeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("no sparse files here: ", err)
	}
	src, err := Find(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(src.Data) != maxSize+1 {
		t.Errorf("read %d bytes", len(src.Data))
	}
}

func TestFindProblems(t *testing.T) {
	for _, row := range []struct{ comment, name, want, hint string }{
		{"a misspelt name", "watch-then-delet", `no scenario is named "watch-then-delet"`, "did you mean watch-then-delete?"},
		{"a name near none", "nothing-like-it", `no scenario is named "nothing-like-it"`, "`leakrig list` shows the names"},
		{"no name", "", `no scenario is named ""`, "`leakrig list`"},
		{"the parent folder is not a name", "..", `no scenario is named ".."`, "`leakrig list`"},
		{"a file that is not there", "./none.yaml", "scenario ./none.yaml: no such file", "`leakrig list`"},
		{"a built-in one with its ending", "none/watch-then-delete.yaml", "scenario none/watch-then-delete.yaml: no such file", "without its ending: watch-then-delete"},
		{"a folder", "./", "read scenario: read ./: is a directory", ""},
	} {
		_, err := Find(row.name)
		var usage *leak.UsageError
		if !errors.As(err, &usage) || err.Error() != row.want {
			t.Errorf("%s: got %T %v, want the usage error %s", row.comment, err, err, row.want)
		}
		if hint := leak.Hint(err); !strings.Contains(hint, row.hint) {
			t.Errorf("%s: hint %q, want %q in it", row.comment, hint, row.hint)
		}
	}
}

// TestLoadBuiltIn loads a built-in scenario with the fake kinds of this package. Package main's tests load the
// library with the real kinds.
func TestLoadBuiltIn(t *testing.T) {
	src, err := Find("watch-then-delete")
	if err != nil {
		t.Fatal(err)
	}
	kinds := fakeKinds()
	kinds.Providers = append(kinds.Providers, "existing")
	if _, err := Load(src, kinds); err != nil {
		t.Error(err)
	}
}
