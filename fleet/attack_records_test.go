package fleet

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/rundir"
)

// A record of a fleet that was edited is refused, with its checksum and without; one of an older version without any
// is read, and said to have none.
func TestAttackRecord(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	if err := recordOf(1, 15, leaking(1, 0), healthy["quiet"]()).Write(dir); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(dir.Path(RecordFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, seal, err := ReadSealed(dir); err != nil || !seal.Holds() {
		t.Fatalf("%v, %v", seal, err)
	}
	bare := regexp.MustCompile(`,"sha256":"[0-9a-f]+"`).ReplaceAllString(string(written), "")
	for name, row := range map[string]struct {
		text              string
		altered, unsealed bool
	}{
		"an edited bound":      {strings.Replace(string(written), `"bounds":{`, `"bounds":{ `, 1), true, false},
		"without its checksum": {bare, true, false},
		"of an older version":  {strings.Replace(bare, `"schema":3`, `"schema":1`, 1), false, true},
	} {
		if row.text == string(written) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(dir.Path(RecordFile), []byte(row.text), 0o600); err != nil {
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

// Secrets are in no text of a record, and its numbers and stacks stay.
func TestAttackSecrets(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	r := recordOf(1, 15, leaking(1, 0))
	r.Command = []string{"observe", "--token", "planted-1"}
	r.Targets[0].LastError = "said planted-1"
	if err := r.Write(dir, "planted-1", "targets", "counts"); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Targets[0].LastError != "said REDACTED" || got.Command[2] != rundir.Redacted || len(got.Targets[0].Groups) != len(r.Targets[0].Groups) {
		t.Errorf("%+v", got)
	}
}
