package internal

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaultsHaveWitnesses checks that the tests which docs/faults.md names as witnesses exist. The form is
// `package.TestName` (its subtests), with the package only if several packages have a test of that name.
func TestFaultsHaveWitnesses(t *testing.T) {
	text, err := os.ReadFile("../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string][]byte{} // test files by package
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		name := filepath.Base(filepath.Dir(path))
		sources[name] = append(sources[name], source...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("`(?:(\\w+)\\.)?(Test\\w+)`(?: \\(([^)]+)\\))?").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 15 {
		t.Errorf("%d witnesses", len(rows))
	}
	for _, m := range rows {
		in, test, parts := m[1], m[2], m[3]
		var found []string
		for name, source := range sources {
			if (in == "" || in == name) && strings.Contains(string(source), "\nfunc "+test+"(") {
				found = append(found, name)
			}
		}
		if len(found) != 1 {
			t.Errorf("%s: %d packages have it: %v", m[0], len(found), found)
			continue
		}
		for part := range strings.SplitSeq(parts, "; ") {
			there := parts == "" || strings.Contains(string(sources[found[0]]), `"`+part+`"`)
			if _, err := os.Stat("../cmd/leakrig/testdata/script/" + part + ".txtar"); !there && (test != "TestScripts" || err != nil) {
				t.Errorf("%s: no %s", m[0], part)
			}
		}
	}
}
