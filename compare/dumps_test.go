package compare

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leakrig/leakrig/holders"
	"github.com/leakrig/leakrig/holders/heapdump"
	"github.com/leakrig/leakrig/leak"
)

var keptByTest [][]byte

// TestDiffOfHeapDumps compares two heap dumps of this test.
func TestDiffOfHeapDumps(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		var b bytes.Buffer
		if _, err := heapdump.Write(&b); err != nil {
			t.Skip(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	defer func() { keptByTest = nil }()
	before := write("before")
	for range 4000 {
		keptByTest = append(keptByTest, make([]byte, 16<<10))
	}
	after := write("after")

	var out bytes.Buffer
	f := DiffOptions{Top: 1, Format: "text", Max: "32MiB"}
	code, err := f.Diff(&out, before, after)
	if err != nil || code != leak.ExitNotMet {
		t.Fatalf("exit code %d, %v; want %d", code, err, leak.ExitNotMet)
	}
	if !strings.Contains(out.String(), "allocated at main.TestDiffOfHeapDumps") && !strings.Contains(out.String(), "allocated at compare.TestDiffOfHeapDumps") {
		t.Errorf("no growth of this test in\n%s", &out)
	}
	out.Reset()
	f = DiffOptions{Top: 1, Format: "json"}
	var growth []holders.Growth
	if code, err = f.Diff(&out, before, after); err != nil || code != leak.ExitMet {
		t.Fatalf("exit code %d, %v; want 0", code, err)
	}
	if err := json.Unmarshal(out.Bytes(), &growth); err != nil || len(growth) == 0 {
		t.Errorf("%v in %s", err, &out)
	}
	f.HTML = filepath.Join(dir, "page.html")
	if _, err = f.Diff(&out, before, after); err == nil {
		t.Error("no error for --html")
	}
}
