//go:build slow

package leaktest_test

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// TestSlowPatterns checks that each of the leaks in testdata/patterns fails its test as a leak. It logs how long they took.
func TestSlowPatterns(t *testing.T) {
	out := goTest(t, "-parallel=1", "./testdata/patterns")
	var seconds []float64
	for _, m := range regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\S+) \((\d+\.\d+)s\)`).FindAllStringSubmatch(out, -1) {
		s, _ := strconv.ParseFloat(m[3], 64)
		seconds = append(seconds, s)
		if m[1] == "PASS" {
			t.Errorf("%s was not found", m[2])
		}
	}
	if len(seconds) < 40 {
		t.Fatalf("%d patterns: %s", len(seconds), out)
	}
	if found := len(regexp.MustCompile(`leaktest: .*per operation.*sustained over`).FindAllString(out, -1)); found != len(seconds) {
		t.Errorf("%d of %d patterns were called leaking:\n%s", found, len(seconds), out)
	}
	slices.Sort(seconds)
	t.Logf("%d patterns, median %.1f s, longest %.1f s", len(seconds), seconds[len(seconds)/2], seconds[len(seconds)-1])
}
