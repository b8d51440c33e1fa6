//go:build nightly

package leaktest_test

import (
	"strings"
	"testing"
)

// TestNightlyHealthy checks that none of 1,000 healthy tests fails, all of them parallel, for Run and for Check.
func TestNightlyHealthy(t *testing.T) {
	for _, name := range []string{"TestHealthy", "TestCheck"} {
		out := goTest(t, "-run", "^"+name+"$", "-parallel", "1000", "-timeout", "3h", "./testdata/healthy", "-times", "100")
		if passed := strings.Count(out, "--- PASS: "+name+"/"); passed != 1000 || strings.Contains(out, "--- FAIL") {
			t.Errorf("%s: %d of 1,000 tests passed:\n%s", name, passed, out)
		}
	}
}
