package bisect

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A record of a search that was edited is refused, with its checksum and without; one of an older version is read, and
// said to have no seal.
func TestAttackRecord(t *testing.T) {
	dir := t.TempDir()
	w := row(9, 4, Leaky, Clean)
	r := w.record(w.question())
	search1(t, w, r)
	r.Question.Make = "make TOKEN=planted-1"
	if err := Write(dir, r, "planted-1"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, RecordFile)
	written, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(written), "planted") {
		t.Fatalf("%v\n%s", err, written)
	}
	if _, seal, err := ReadSealed(dir); err != nil || !seal.Holds() {
		t.Fatalf("%v, %v", seal, err)
	}
	bare := regexp.MustCompile(`,\n "sha256": "[0-9a-f]+"`).ReplaceAllString(string(written), "")
	for name, row := range map[string]struct {
		text              string
		altered, unsealed bool
	}{
		"a step that leaks made clean": {strings.Replace(string(written), `"leaky"`, `"clean"`, 1), true, false},
		"without its checksum":         {bare, true, false},
		"of an older version":          {strings.Replace(bare, `"schema": 2`, `"schema": 1`, 1), false, true},
	} {
		if row.text == string(written) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, seal, err := ReadSealed(dir)
		if err != nil || (len(seal.Altered) > 0) != row.altered || seal.Unsealed != row.unsealed {
			t.Errorf("%s: %+v, %v", name, seal, err)
		}
		if _, err := Read(dir); (err != nil) != row.altered {
			t.Errorf("%s: Read: %v", name, err)
		}
	}
}
