package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/leak"
)

// dump writes a goroutine dump with so many goroutines on one stack.
func dump(t *testing.T, name string, waiting int) string {
	t.Helper()
	var text strings.Builder
	for i := range waiting {
		fmt.Fprintf(&text, "goroutine %d [chan receive]:\nexample.com/shop.(*Cart).wait(0x1)\n\t/src/cart.go:7 +0x1\n\n", i+1)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDiff checks the growth and the exit code at the bound, which one stack may gain, and above it.
func TestDiff(t *testing.T) {
	base, now := dump(t, "base", 3), dump(t, "now", 13)
	for bound, want := range map[string]int{"": leak.ExitMet, "10": leak.ExitMet, "9": leak.ExitNotMet} {
		var out bytes.Buffer
		f := DiffOptions{Top: 10, Max: bound, Operations: 5}
		code, err := f.Diff(&out, base, now)
		if err != nil || code != want || !strings.Contains(out.String(), "+2.00/op") {
			t.Errorf("--max %q: exit code %d, want %d, %v\n%s", bound, code, want, err, out.String())
		}
	}
}
