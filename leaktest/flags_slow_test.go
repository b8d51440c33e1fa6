//go:build slow

package leaktest_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSlowFlags checks flags of go test that choose, repeat, or time tests, and flags of the test itself.
func TestSlowFlags(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "outcomes.test")
	if out, err := exec.Command("go", "test", "-c", "-cover", "-coverpkg=./testdata/outcomes", "-o", binary, "./testdata/outcomes").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-test.run", "^TestOwnFlag$", "-own", "given", "--test.count=2"}, `(?s)--- PASS: TestOwnFlag.*--- PASS: TestOwnFlag`},
		{[]string{"-test.run=^FuzzRun$"}, `--- PASS: FuzzRun/seed#0`},
		{[]string{"-test.run=^TestOwnFlag$", "-own=given", "-test.timeout=8s"}, `--- (PASS|FAIL): TestOwnFlag`},
		{[]string{"-test.run=^FuzzRun$", "-test.fuzz=FuzzRun", "-test.fuzztime=2s", "-test.fuzzcachedir=" + t.TempDir()}, `Run measures the inputs of the corpus`},
		{[]string{"-test.run=^TestOwnFlag$", "-own=given", "-test.coverprofile=" + filepath.Join(t.TempDir(), "cover"), "-test.gocoverdir=" + t.TempDir()}, `coverage: 100\.0% of statements`},
	} {
		t.Run(strings.Join(c.args[:1], " "), func(t *testing.T) {
			t.Parallel()
			command := exec.Command(binary, append(c.args, "-test.v")...)
			command.Dir = t.TempDir()
			out, _ := command.CombinedOutput() // some fail
			if !regexp.MustCompile(c.want).Match(out) {
				t.Errorf("%q: no %q in\n%s", c.args, c.want, out)
			}
		})
	}
}
