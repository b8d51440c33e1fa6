package leaktest_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// goTest runs tests of a folder below testdata that may fail, and returns their output.
func goTest(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"test", "-count=1", "-v"}, args...)...).CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out)
}

// outcomes are the tests of testdata/outcomes: whether each fails, and lines that its output must have.
var outcomes = map[string]struct {
	fails bool
	lines []string
}{
	"TestLeak":       {true, []string{`leaktest: \+1\.00 goroutines per operation, blocked in chan receive at outcomes\.wait`, `blocked at outcomes\.wait \(\S+outcomes_test\.go:\d+\)\n\s+started by outcomes\.leaks\n`, `go test -artifacts keeps the report`}},
	"TestHeapLeak":   {true, []string{`leaktest: heap\.alloc \+1\.\d KiB per operation`, `allocated at outcomes\.TestHeapLeak\.func1 \(\S+outcomes_test\.go:\d+\)`, `held by a global variable; go test -o FILE keeps the symbols that name it`}},
	"TestSub":        {false, nil},
	"TestClean":      {false, []string{`outcomes_test\.go:\d+: cleanup`}},
	"TestPanic":      {true, []string{`the process of the operations ended: exit status 2`, `panic: planted panic`}},
	"TestExit":       {true, []string{`the process of the operations ended: exit status 7`}},
	"TestHang":       {true, []string{`an operation did not return within 200ms \(leaktest\.Timeout\); it is at \S+outcomes\.TestHang\.func1 \(\S+outcomes_test\.go:\d+\)`}},
	"TestError":      {true, []string{`\d+ of \d+ operations failed: planted error`}},
	"TestFatal":      {true, []string{`the operation called t\.FailNow, t\.Fatal or t\.Skip`, `planted fatal`}},
	"TestAllowed":    {false, nil},
	"TestExpired":    {true, []string{`the allowance for outcomes\.wait ended on 2025-01-31 \(known\)`}},
	"TestMethod":     {false, nil},
	"TestCleanup":    {true, []string{`the test failed in the process of the operations, after them`, `\d+ files are open`}},
	"TestLateHang":   {true, []string{`the cleanups of the test did not end within 5s in the process of the operations`, `outcomes\.TestLateHang\.func1`}},
	"TestTwice":      {true, []string{`the process of the operations did not reach this line: exit status 1`, `bind: address already in use`, `leaktest\.InProcess does without`}},
	"TestInProcess":  {true, []string{`leaktest: \+1\.00 goroutines per operation`}},
	"TestCheckLeft":  {true, []string{`goroutines of the test are left`, `1 at \S+outcomes\.wait \(\S+outcomes_test\.go:\d+\)`}},
	"TestCheckClean": {false, nil},
}

// TestOutcomes checks what a user sees of every way that a test can end in, and that shuffling changes none.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	out := goTest(t, "-shuffle=on", "-parallel=4", "./testdata/outcomes")
	for name, want := range outcomes {
		result := "--- PASS: "
		if want.fails {
			result = "--- FAIL: "
		}
		if !strings.Contains(out, result+name+" ") {
			t.Errorf("no %q of %s", result, name)
		}
		for _, line := range want.lines {
			if !regexp.MustCompile(line).MatchString(out) {
				t.Errorf("%s: no line %q", name, line)
			}
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestRetained checks what a benchmark reports.
func TestRetained(t *testing.T) {
	t.Parallel()
	out := goTest(t, "-run=^$", "-bench=.", "-benchtime=100x", "./testdata/outcomes")
	if !regexp.MustCompile(`BenchmarkRetained\S*\s.* retained-B/op\s+1\.000 retained-goroutines/op`).MatchString(out) {
		t.Error(out)
	}
}

// light are the packages outside the standard library that a test may compile.
var light = map[string]bool{"github.com/google/pprof/profile": true, "gopkg.in/yaml.v3": true, "golang.org/x/mod/semver": true, "golang.org/x/mod/module": true, "golang.org/x/mod/internal/lazyregexp": true}

// TestDependencies checks that a test which imports leaktest stays light.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dependency := range strings.Lines(string(out)) {
		root, _, _ := strings.Cut(dependency, "/")
		if !strings.Contains(root, ".") || strings.HasPrefix(dependency, "github.com/leakrig/leakrig/") {
			continue
		}
		if !light[strings.TrimSpace(dependency)] {
			t.Errorf("leaktest depends on %s", dependency)
		}
	}
}
